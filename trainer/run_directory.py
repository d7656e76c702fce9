"""Where a run keeps what it knows, and the promise that one run goes on under one configuration.

::

    runs/train/NAME/  run.json (configuration, key, starts)  widgets.jsonl  warm/step-N  checkpoints/step-N
                      metrics.jsonl  warm.jsonl  tensorboard/  weights/ (on their way to the engine)
"""

from __future__ import annotations

import fcntl
import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from store.durable import fsync_directory
from trainer.config import RunConfig
from verigen.canonical import content_hash

__all__ = ["RunDirectory", "attempts_of"]


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
            self.attempts = self._begin(config, variant)
            """Begins the id of every attempt at a task: the run, what tells it from a deleted one of its name, and how
            often it was started, so that no id is used twice. A deterministic run makes the same attempts whenever it
            is started, so there the starts do not count."""
        except BaseException:
            self.close()
            raise

    def _begin(self, config: RunConfig, variant: str) -> str:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"the run {config.name!r} is under way in another process") from None
        mine = {"variant": variant, **config.model_dump(mode="json")}
        file = self.root / "run.json"
        key = content_hash(mine)[:8] if config.deterministic else uuid.uuid4().hex[:8]
        known: dict[str, Any] = {"config": mine, "starts": 0, "key": key}
        if file.exists():
            known |= json.loads(file.read_text("utf-8"))
        before = _as_now(known["config"])
        if before != mine:
            changed = [key for key in mine if before.get(key) != mine[key]]
            raise ValueError(
                f"the run {config.name!r} was begun with another {', '.join(changed)}; give the new run another name"
            )
        start: int = known["starts"] + 1
        draft = file.with_suffix(".tmp")
        draft.write_text(json.dumps({**known, "config": mine, "starts": start}, indent=1), "utf-8")
        draft.replace(file)
        fsync_directory(self.root)
        which = known["key"] if config.deterministic else f"{known['key']}-{start}"
        return f"{self.root.name}-{which}"

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


def _as_now(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration that was written down, with the defaults of whatever has come to be configurable since."""
    fields = dict(config)
    variant = fields.pop("variant", "")
    try:
        return {"variant": variant, **RunConfig.model_validate(fields).model_dump(mode="json")}
    except ValidationError:  # what it says means nothing to this version
        return config


def attempts_of(root: Path) -> str:
    """What the ids of all attempts of the run in a directory begin with, whichever of its starts made them.

    The name alone would not do: the run `small` would have those of `small-1`.
    """
    key: str = json.loads((root / "run.json").read_text("utf-8"))["key"]
    return f"{root.name}-{key}-"
