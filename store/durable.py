"""Files that are whole or absent, also after a crash, and a lock that processes share.

Writing goes: temporary file -> fsync the file -> rename -> fsync the directory. Until the rename nobody sees anything;
after the second fsync a power cut cannot take the file away. A crash in between leaves at worst a temporary file, which
`remove_stale` clears once it is too old to be in use.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path

from store.errors import DiskFull, StoreBusy

__all__ = ["Fanout", "fsync_directory", "fsync_file", "locked", "remove_stale", "temporary", "typed_disk_full"]

TEMP_PREFIX = ".tmp-"
LOCK_TIMEOUT_S = 60.0
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def typed_disk_full(directory: Path) -> Iterator[None]:
    """Turn the operating system's ways to say "no room" into `DiskFull`."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(directory, error) from error
        raise


@contextmanager
def temporary(directory: Path) -> Iterator[BufferedRandom]:
    """A new file to write and then rename to its final name; removed at exit unless it was renamed.

    Raises:
        DiskFull: there was no room.
    """
    path = directory / f"{TEMP_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    with typed_disk_full(directory):
        try:
            with path.open("x+b") as file:
                yield file
        finally:
            path.unlink(missing_ok=True)


def fsync_file(file: BufferedRandom) -> None:
    """Bring the file's content to the disk."""
    file.flush()
    os.fsync(file.fileno())


def fsync_directory(directory: Path) -> None:
    """Bring the directory's names to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale(directory: Path, *, older_than: float) -> int:
    """Remove temporary files last written before `older_than` (seconds since the epoch); return how many."""
    removed = 0
    for path in directory.glob(f"{TEMP_PREFIX}*"):
        with suppress(FileNotFoundError):  # its writer has just finished
            if path.stat().st_mtime < older_than:
                path.unlink()
                removed += 1
    return removed


@contextmanager
def locked(path: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[int]:
    """Hold the file's exclusive lock, against other processes and other threads; yields the file's descriptor.

    The kernel frees the lock when its holder dies, so a crash never leaves it taken.

    Raises:
        StoreBusy: it was not free within `timeout_s`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        pause_s = 0.0005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise StoreBusy(
                        f"{path} has been locked for {timeout_s:g} s; is a process stopped while using it?"
                    ) from error
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, 0.02)
        yield descriptor
    finally:
        os.close(descriptor)


class Fanout:
    """The 256 subdirectories of a root, made as they are needed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._durable: set[str] = set()

    def directory(self, digest: str) -> Path:
        """The subdirectory for names of this hex digest; on return its own name is on the disk."""
        key = digest[:2]
        path = self.root / key
        if key not in self._durable:
            # Also when it exists: the process that made it may not have reached its fsync yet.
            path.mkdir(exist_ok=True)
            fsync_directory(self.root)
            self._durable.add(key)
        return path

    def existing(self) -> list[Path]:
        """Those that are there, in order."""
        return sorted(path for path in self.root.iterdir() if len(path.name) == 2 and path.is_dir())
