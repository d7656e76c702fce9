"""File functions that run in a fork under the uid that asked: the desktop's user has its own rights and no others.

Each function takes string arguments, reads standard input, writes standard output and returns an exit code. A first
line of JSON on standard output describes the result ({"size": ...} or {"error": kind, "reason": text}); file bytes
follow, and the exit code says whether they were one state of the file.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["CHANGED", "call"]

CHUNK = 1 << 18
CHANGED = 3
"""Exit code of `read`: the file changed meanwhile."""
KINDS = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ENOSPC: "no_space", errno.EDQUOT: "no_space"}


def _say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read(path: str, max_bytes: str, inside: str) -> int:
    """Send a regular file. With `inside`, its real path must lie in that directory."""
    real = os.path.realpath(path)
    if inside and not real.startswith(inside + "/"):
        _say({"error": "missing", "reason": f"{path} leads out of {inside} by a link"})
        return 0
    try:
        # A named pipe must not block us; it is refused below.
        fd = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        _say({"error": "missing", "reason": f"there is no file {path}"})
        return 0
    except OSError as error:
        _say({"error": _kind(error, "unreadable"), "reason": f"{path}: {error.strerror}"})
        return 0
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        _say({"error": "unreadable", "reason": f"{path} is not a regular file"})
        return 0
    if info.st_size > int(max_bytes):
        _say({"error": "too_large", "reason": f"{path} has {info.st_size} bytes; the limit is {max_bytes}"})
        return 0
    _say({"size": info.st_size})
    left = info.st_size
    while left:
        data = os.read(fd, min(CHUNK, left))
        if not data:  # it shrank while we read
            return CHANGED
        _write_all(1, data)
        left -= len(data)
    return 0 if _state(os.fstat(fd)) == _state(info) else CHANGED


def _state(info: os.stat_result) -> tuple[int, int]:
    return info.st_size, info.st_mtime_ns


def _kind(error: OSError, otherwise: str) -> str:
    return KINDS.get(error.errno or 0, otherwise)


def _write(path: str, size: str, mode: str) -> int:
    """Receive a file: complete under its name, or not there at all."""
    directory, name = os.path.split(path)
    # A short name of its own: the file's may already be as long as names can be.
    temporary = f".frontdesk-{os.urandom(8).hex()}"
    at, named = -1, False
    try:
        os.makedirs(directory, exist_ok=True)
        at = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        fd, named = _new_file(directory, temporary, at)
        try:
            left = int(size)
            while left:
                data = os.read(0, min(CHUNK, left))
                if not data:
                    raise OSError(errno.EIO, "the transfer was cut off")
                _write_all(fd, data)
                left -= len(data)
            os.fchmod(fd, int(mode))
            if not named:
                # With a descriptor of the directory, and only then, Python follows the link to the nameless file.
                os.link(f"/proc/self/fd/{fd}", temporary, dst_dir_fd=at)
                named = True
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except OSError as error:
        if named:
            os.unlink(temporary, dir_fd=at)
        _say({"error": _kind(error, "unwritable"), "reason": f"{path}: {error.strerror}"})
        return 0
    _say({"size": int(size)})
    return 0


def _new_file(directory: str, name: str, at: int) -> tuple[int, bool]:
    """A file to fill, and whether it has the name already.

    Without one, nothing is left of it however this process ends, and nobody sees it before it is complete.
    """
    try:
        return os.open(directory, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600), False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
            raise
    # An older kernel's overlay has no nameless files.
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=at), True


def _glob(pattern: str, max_items: str) -> int:
    """List the paths that match, sorted, with type, size and mode."""
    found = []
    for path in sorted(glob.glob(pattern, recursive=True, include_hidden=True)):
        try:
            info = os.lstat(path)
        except OSError:
            continue
        kind = "directory" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else "other"
        if stat.S_ISLNK(info.st_mode):
            kind = "link"
        size = info.st_size if kind == "file" else 0
        found.append({"path": path, "type": kind, "size": size, "mode": stat.S_IMODE(info.st_mode)})
        if len(found) > int(max_items):
            _say({"error": "too_large", "reason": f"more than {max_items} paths match {pattern}"})
            return 0
    _say({"items": found})
    return 0


def _furnish(skeleton: str, home: str) -> int:
    """Copy a skeleton into a home directory that is there and empty."""
    import shutil  # takes its time to load, and only this needs it

    mode = stat.S_IMODE(os.stat(home).st_mode)
    shutil.copytree(skeleton, home, symlinks=True, dirs_exist_ok=True)
    os.chmod(home, mode)
    return 0


FUNCTIONS: dict[str, Callable[..., int]] = {"read": _read, "write": _write, "glob": _glob, "furnish": _furnish}


def call(function: str, arguments: Sequence[str]) -> int:
    """Run one function and return its exit code."""
    try:
        return FUNCTIONS[function](*arguments)
    except ValueError as error:  # a path with a zero byte
        _say({"error": "malformed", "reason": str(error)})
        return 0
    except Exception as error:  # noqa: BLE001 - the caller learns of any failure from the exit code and this line
        sys.stderr.write(f"{function}: {type(error).__name__}: {error}\n")
        return 1
