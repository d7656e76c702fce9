"""File transfer between the probe's connection and the desktop, streamed through a fork under the asked uid."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from sandbox.probe.commands import Process, SpawnerLink
from sandbox.probe.userside import CHANGED
from sandbox.probe.waiting import ready

__all__ = ["FileRefused", "Files", "Transfer"]

CHUNK = 1 << 18
ENDING_S = 1.0
"""How long a helper whose input ended is given to clean up after itself."""


class FileRefused(Exception):
    """Why a file is not transferred.

    Args:
        kind: `missing`, `malformed`, one of the host's `FileProblem`, `late`, or `error` for a failure of the helper.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Transfer:
    """A file being read: its size is known, its bytes follow from `fd`, which `process` writes."""

    def __init__(self, size: int, head: bytes, fd: int, process: Process) -> None:
        self.size = size
        self._head = head
        self._fd = fd
        self._process = process

    def chunks(self, deadline: float) -> Iterator[bytes]:
        """The bytes, in pieces. They are of one state of the file when this ends without an error.

        Raises:
            FileRefused: the file changed while it was read, or the deadline passed.
        """
        left = self.size
        if self._head:
            left -= len(self._head)
            yield self._head
        while left:
            data = _read_some(self._fd, min(CHUNK, left), deadline)
            if not data:
                break
            left -= len(data)
            yield data
        if not ready([self._process.ended], deadline - time.monotonic()):
            raise _late()
        if self._process.status == CHANGED:
            raise FileRefused("changed", "the file changed while it was read")
        if left or self._process.status != 0:
            raise FileRefused("error", "the file helper was ended before it was done")


class Files:
    """Reads, writes and lists files with the rights of the desktop's user or root."""

    def __init__(self, link: SpawnerLink, home: str) -> None:
        self._link = link
        self.home = home

    def absolute(self, path: str) -> str:
        """A path relative to the user's home made absolute."""
        return os.path.join(self.home, path)

    @contextlib.contextmanager
    def read(self, path: str, *, user: str, max_bytes: int, inside: str, deadline: float) -> Iterator[Transfer]:
        """Open a file for streaming.

        Raises:
            FileRefused: it cannot be read.
        """
        argv = ["@", "read", self.absolute(path), str(max_bytes), inside]
        with self._helper(argv, user) as (_, out_r, process):
            described, head = _first_line(out_r, deadline)
            yield Transfer(described["size"], head, out_r, process)

    def write(
        self, path: str, take: Callable[[int], bytes], size: int, *, user: str, mode: int, deadline: float
    ) -> None:
        """Store `size` bytes, whole or not at all.

        Args:
            take: gives the next bytes, at most as many as it is asked for.

        Raises:
            FileRefused: it cannot be written; some of the bytes may not have been taken.
        """
        argv = ["@", "write", self.absolute(path), str(size), str(mode)]
        with self._helper(argv, user) as (in_w, out_r, _process):
            os.set_blocking(in_w, False)
            left, broken = size, False
            while left and not broken:
                data = take(min(CHUNK, left))
                if not data:
                    raise FileRefused("unwritable", "the connection ended in the middle of the file")
                left -= len(data)
                view = memoryview(data)
                while view and not broken:
                    if not ready([], deadline - time.monotonic(), writers=[in_w]):
                        raise _late()
                    try:
                        view = view[os.write(in_w, view) :]
                    except BrokenPipeError:
                        broken = True
            _first_line(out_r, deadline)

    def glob(self, pattern: str, *, max_items: int, deadline: float) -> list[dict[str, Any]]:
        """The paths that match, as the desktop's user sees them.

        Raises:
            FileRefused: there are too many.
        """
        argv = ["@", "glob", self.absolute(pattern), str(max_items)]
        with self._helper(argv, "user") as (_, out_r, _process):
            described, _rest = _first_line(out_r, deadline)
            items: list[dict[str, Any]] = described["items"]
            return items

    @contextlib.contextmanager
    def _helper(self, argv: list[str], user: str) -> Iterator[tuple[int, int, Process]]:
        in_r, in_w = os.pipe()
        out_r, out_w = os.pipe()
        null = os.open("/dev/null", os.O_WRONLY)
        try:
            process = self._link.spawn(argv, [in_r, out_w, null], user=user, cwd="/", env={})
        except BaseException:
            os.close(in_w)
            os.close(out_r)
            raise
        finally:
            for fd in (in_r, out_w, null):
                os.close(fd)
        try:
            yield in_w, out_r, process
        finally:
            os.close(in_w)
            os.close(out_r)
            if not ready([process.ended], ENDING_S):
                self._link.kill(process)
            process.close()


def _first_line(fd: int, deadline: float) -> tuple[dict[str, Any], bytes]:
    """The helper's JSON line and what followed it in the same reads.

    Raises:
        FileRefused: it says so, it was killed, or the deadline passed.
    """
    data = b""
    while b"\n" not in data:
        more = _read_some(fd, CHUNK, deadline)
        if not more:
            raise FileRefused("error", "the file helper was ended before it answered")
        data += more
    line, _, rest = data.partition(b"\n")
    described: dict[str, Any] = json.loads(line)
    if "error" in described:
        raise FileRefused(described["error"], described["reason"])
    return described, rest


def _read_some(fd: int, count: int, deadline: float) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0 or not ready([fd], left):
        raise _late()
    return os.read(fd, count)


def _late() -> FileRefused:
    return FileRefused("late", "the deadline passed while a file was transferred")
