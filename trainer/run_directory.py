"""Where a run keeps what it knows, and the promise that one run goes on under one configuration.

::

    runs/train/NAME/  run.json (configuration, starts)  widgets.jsonl  warm/step-N  checkpoints/step-N
                      metrics.jsonl  warm.jsonl  tensorboard/  weights/ (on their way to the engine)
"""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

from store.durable import fsync_directory
from trainer.config import RunConfig

__all__ = ["RunDirectory"]


class RunDirectory:
    """A run's directory, held by one process at a time.

    Args:
        root: made if it is not there.

    Raises:
        ValueError: another process runs it, or it was begun with another configuration.
    """

    def __init__(self, root: Path, config: RunConfig, *, variant: str = "") -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self._lock = (root / ".lock").open("w")
        try:
            self.start = self._begin(config, variant)
            """How often it was started, this time included; part of every attempt's id, so no id is used twice."""
        except BaseException:
            self.close()
            raise

    def _begin(self, config: RunConfig, variant: str) -> int:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"the run {config.name!r} is under way in another process") from None
        mine = {"variant": variant, **config.model_dump(mode="json")}
        file = self.root / "run.json"
        known: dict[str, Any] = {"config": mine, "starts": 0}
        if file.exists():
            known = json.loads(file.read_text("utf-8"))
        if known["config"] != mine:
            changed = [key for key in mine if known["config"].get(key) != mine[key]]
            raise ValueError(
                f"the run {config.name!r} was begun with another {', '.join(changed)}; give the new run another name"
            )
        start: int = known["starts"] + 1
        draft = file.with_suffix(".tmp")
        draft.write_text(json.dumps({"config": mine, "starts": start}, indent=1), "utf-8")
        draft.replace(file)
        fsync_directory(self.root)
        return start

    @property
    def warm(self) -> Path:
        """Checkpoints of the warm start."""
        return self.root / "warm"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of practice."""
        return self.root / "checkpoints"

    @property
    def widgets(self) -> Path:
        """What lay where on the demonstrations' screenshots."""
        return self.root / "widgets.jsonl"

    def weights(self) -> Path:
        """An empty directory for weights on their way to the engine.

        It is in the run's own directory, so that a killed run leaves nothing elsewhere. Nothing in it is ever synced:
        what is read back at once comes from memory.
        """
        path = self.root / "weights"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path

    def close(self) -> None:
        """Let others have it. Idempotent."""
        self._lock.close()
