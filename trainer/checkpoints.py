"""Checkpoints that are complete or absent.

::

    .draft-*/: files, fsynced -> manifest (size and hash of each), fsynced -> rename to step-N -> fsync of root
    crash:     nothing but a draft, which the next save removes           ^ from here on it is there

`latest` believes no directory: it takes the newest one whose manifest and files agree, and says which it passed over.
The newest good one is never pruned.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from store.durable import fsync_directory

__all__ = ["CheckpointStore"]

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
_PREFIX = "step-"
_DRAFT = ".draft-"


class CheckpointStore:
    """The checkpoints of one run; one writer at a time.

    Args:
        root: made if it is not there.
        keep: how many of the newest good ones are kept.
    """

    def __init__(self, root: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep = {keep}; at least one checkpoint is kept")
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self._keep = keep

    def save(self, step: int, write: Callable[[Path], None]) -> Path:
        """Write a checkpoint; return its directory once it will survive a power cut.

        Args:
            step: names it.
            write: fills an empty directory.

        Raises:
            ValueError: there is a good checkpoint of this step already.
        """
        final = self.root / f"{_PREFIX}{step:08d}"
        if final.exists():
            if _fault(final) is None:
                raise ValueError(f"{final} is there already; a step is saved once")
            shutil.rmtree(final)
        for stale in self.root.glob(f"{_DRAFT}*"):
            shutil.rmtree(stale)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self.root))
        write(draft)
        files = sorted(path for path in draft.rglob("*") if path.is_file())
        manifest = {str(path.relative_to(draft)): [path.stat().st_size, _digest(path)] for path in files}
        for path in files:
            _fsync(path)
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
        _fsync(draft / MANIFEST)
        fsync_directory(draft)
        draft.replace(final)
        fsync_directory(self.root)
        self._prune()
        return final

    def latest(self) -> Path | None:
        """The newest checkpoint that is whole; None where there is none."""
        for path in reversed(self._all()):
            fault = _fault(path)
            if fault is None:
                return path
            logger.error("checkpoint %s is damaged (%s); taking the one before it", path, fault)
        return None

    @staticmethod
    def step(path: Path) -> int:
        """The step that a checkpoint was saved at."""
        return int(path.name.removeprefix(_PREFIX))

    def _all(self) -> list[Path]:
        return sorted(path for path in self.root.glob(f"{_PREFIX}*") if path.name.removeprefix(_PREFIX).isdecimal())

    def _prune(self) -> None:
        num_good = 0
        for path in reversed(self._all()):
            if num_good >= self._keep:
                shutil.rmtree(path)
            num_good += _fault(path, deep=False) is None


def _fault(path: Path, *, deep: bool = True) -> str | None:
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        for name, (size, digest) in manifest.items():
            file = path / name
            if file.stat().st_size != size or (deep and _digest(file) != digest):
                return f"{name} has changed"
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return str(error)
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
