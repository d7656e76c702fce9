"""Whether the owner of a directory still lives: it holds a lock there as long as it does, and the kernel frees it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

__all__ = ["hold_lock", "lock_of_dead"]

LOCK = "lock"
GRACE_S = 60.0
"""A directory without a lock is young or left over; this old, it is left over."""


def hold_lock(directory: Path) -> int:
    """Take the lock of a directory that is the caller's own; returns the descriptor that holds it."""
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def lock_of_dead(directory: Path) -> int | None:
    """The lock, now the caller's, of a directory whose owner is gone; None when it lives or is just starting."""
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        # Made a moment ago, or left by an owner that was killed before it took its lock.
        try:
            old = time.time() - directory.stat().st_mtime > GRACE_S
            return os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) if old else None
        except OSError:
            return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
