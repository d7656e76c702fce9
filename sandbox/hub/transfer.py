"""Files of any size between a hub and a client, in pieces: neither side ever has more than a few of them in memory.

A transfer has a connection of its own. On the hub a file lies whole, without a name, on the disk while it passes, so
that a slow client holds up no call on its desktop. What it takes from a desktop has a name until it is there whole: a
hub that is killed just then leaves one such draft.

::

    upload:    request -> {result} -> bytes      -> the desktop takes the file   -> {result} or {error}
    download:  request -> {result} -> the desktop gives the file -> {result: size} or {error} -> bytes

A broken connection is made again and the transfer begun again. An upload is a numbered call (`sandbox.hub.replies`):
however often it is sent, the desktop takes the file once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import IO

from sandbox.desktop import Desktop
from sandbox.errors import DeadlineExceeded, FileRefused, HubLost
from sandbox.hub.link import FIRST_RETRY_S, GRACE_S, LAST_RETRY_S, Link
from sandbox.hub.messages import Message, decode_error, read_message
from sandbox.probe.wire import WireError
from sandbox.streams import FileSink, FileSource

__all__ = ["Spool", "receive", "send"]

CHUNK = 1 << 20
SPOOL = Path("/var/tmp")
"""On a disk, which `/tmp` need not be."""
PATIENCE_S = 30.0
"""How long connections may fail before the hub counts as lost."""


class Spool:
    """A file of the hub's that has no name; a context manager."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self._file: IO[bytes] = file or tempfile.TemporaryFile(dir=SPOOL, buffering=0)  # noqa: SIM115 - closed at exit
        self._refusal: FileRefused | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def path(self) -> Path:
        """Leads to the file as long as it is open."""
        return Path(f"/proc/self/fd/{self._file.fileno()}")

    @property
    def size(self) -> int:
        """Bytes in it."""
        return os.fstat(self._file.fileno()).st_size

    def held(self) -> Spool:
        """The same file for another holder, who closes it in his own time."""
        return Spool(os.fdopen(os.dup(self._file.fileno()), "rb", buffering=0))

    def check(self) -> None:
        """Asked before the file is used.

        Raises:
            FileRefused: it was not taken whole.
        """
        if self._refusal is not None:
            raise self._refusal

    async def take(self, reader: asyncio.StreamReader, size: int) -> None:
        """Read bytes from a client: all of them, also when the disk is full, so that an answer can follow.

        Raises:
            EOFError, OSError: the client hung up.
        """
        while size:
            data = await reader.read(min(CHUNK, size))
            if not data:
                raise EOFError("the client hung up")
            size -= len(data)
            if self._refusal is None:
                try:
                    await asyncio.to_thread(_write, self._file, data)
                except OSError as error:
                    message = f"the hub has no room for the file: {error.strerror}"
                    self._refusal = FileRefused(message, kind="no_space")

    async def fetch(self, desktop: Desktop, path: str, *, max_bytes: int, deadline_s: float) -> int:
        """Become a file of a desktop; returns its size.

        Raises:
            FileNotFoundError, SandboxError: as the desktop raised it.
        """
        target = SPOOL / f".frontdesk-{secrets.token_hex(8)}"
        try:
            await desktop.download(path, target, max_bytes=max_bytes, deadline_s=deadline_s)
            fetched = target.open("rb", buffering=0)
        finally:
            target.unlink(missing_ok=True)
        self._file.close()
        self._file = fetched
        return self.size

    async def give(self, writer: asyncio.StreamWriter) -> None:
        """Send all bytes to a client.

        Raises:
            OSError: the client hung up.
        """
        self._file.seek(0)
        while data := await asyncio.to_thread(self._file.read, CHUNK):
            writer.write(data)
            await writer.drain()


async def send(link: Link, message: Message, source: Path, *, deadline_s: float) -> int:
    """Upload a file of this machine; returns its size.

    Args:
        message: what to ask the hub; it learns the size from here.

    Raises:
        FileRefused: one of the ends cannot; nothing changed.
        SandboxError: what the hub answered, or HubLost or DeadlineExceeded, after which nobody knows.
    """

    async def talk() -> int | Exception:
        with FileSource(source) as opened:
            reader, writer = await link.stream(message | {"size": opened.size})
            try:
                left = opened.size
                while left:
                    data = await opened.read(min(CHUNK, left))
                    left -= len(data)
                    if not left:
                        opened.check()
                    writer.write(data)
                    await writer.drain()
                return await _answer(reader)
            finally:
                writer.transport.abort()

    return await _again(talk, "upload", deadline_s, effect=True)


async def receive(link: Link, message: Message, target: Path, *, deadline_s: float) -> int:
    """Download a file to this machine; returns its size. It is there whole or not at all.

    Raises:
        FileNotFoundError: there is none.
        FileRefused: one of the ends cannot.
        SandboxError: what the hub answered, or HubLost or DeadlineExceeded.
    """
    with FileSink(target) as sink:

        async def talk() -> int | Exception:
            sink.restart()
            reader, writer = await link.stream(message)
            try:
                size = await _answer(reader)
                left = size if isinstance(size, int) else 0
                while left:
                    data = await reader.read(min(CHUNK, left))
                    if not data:
                        raise EOFError("the hub hung up")
                    await sink.write(data)
                    left -= len(data)
                return size
            finally:
                writer.transport.abort()

        size = await _again(talk, "download", deadline_s, effect=False)
        await sink.keep()
    return size


async def _answer(reader: asyncio.StreamReader) -> int | Exception:
    """The hub's: a size, or the error to raise, which must not be taken for one of the connection."""
    answer, _ = await read_message(reader)
    return decode_error(answer["error"]) if "error" in answer else int(answer["result"])


async def _again(talk: Callable[[], Awaitable[int | Exception]], what: str, deadline_s: float, *, effect: bool) -> int:
    """Try until the hub has answered."""
    clock = asyncio.get_running_loop().time
    pause_s, lost_at = FIRST_RETRY_S, clock() + PATIENCE_S
    try:
        async with asyncio.timeout(deadline_s + GRACE_S):
            while True:
                try:
                    answer = await talk()
                    break
                except (EOFError, OSError, WireError, HubLost) as error:
                    if isinstance(error, HubLost) and clock() > lost_at:
                        raise
                    if not isinstance(error, HubLost):  # it was reached
                        pause_s, lost_at = FIRST_RETRY_S, clock() + PATIENCE_S
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, LAST_RETRY_S)
    except TimeoutError as error:
        message = f"{what}: no answer from the hub within {deadline_s:g} s"
        raise DeadlineExceeded(message, phase="unknown" if effect else "infra") from error
    if isinstance(answer, Exception):
        raise answer
    return answer


def _write(file: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
