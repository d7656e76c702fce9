"""The host's end of what is streamed through the probe: files of any size, and forwarded connections.

Memory is bounded on both sides by a few chunks, and one deadline covers a whole transfer. A file arrives whole or not
at all, whichever way it goes, and as one state of its source: one that changes meanwhile is refused (`FileRefused`).
"""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from sandbox import errors
from sandbox.answers import read_error
from sandbox.client import ProbeClient
from sandbox.desktop import User
from sandbox.probe import wire

__all__ = ["BytesSink", "BytesSource", "FileSink", "FileSource", "open_stream", "receive_file", "send_file"]

CHUNK = 1 << 20
CONNECT_S = 10.0
"""For a connection to a port of the desktop."""
KINDS: dict[int, errors.FileProblem] = {
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
}


class Source(Protocol):
    """Bytes to send."""

    size: int

    async def read(self, count: int) -> bytes:
        """The next bytes, exactly `count`, of which so many are left.

        Raises:
            FileRefused: they cannot be had.
        """
        ...

    def check(self) -> None:
        """Asked before the last bytes are sent.

        Raises:
            FileRefused: the source has changed since it was opened.
        """
        ...


class Sink(Protocol):
    """Where bytes are received."""

    def restart(self) -> None:
        """Forget what came so far."""
        ...

    async def write(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            FileRefused: they cannot be kept.
        """
        ...


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = io.BytesIO(data)

    async def read(self, count: int) -> bytes:
        return self._data.read(count)

    def check(self) -> None:
        """They cannot change."""


class BytesSink:
    """Bytes in memory."""

    def __init__(self) -> None:
        self._data = io.BytesIO()

    def restart(self) -> None:
        self._data = io.BytesIO()

    async def write(self, data: bytes) -> None:
        self._data.write(data)

    def data(self) -> bytes:
        """All that came."""
        return self._data.getvalue()


class FileSource:
    """A regular file of this machine; a context manager.

    Raises:
        FileRefused: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if not path.is_file():  # a named pipe would be waited for
                raise errors.FileRefused(f"there is no file {path} on this machine", kind="unreadable")
            self._file: IO[bytes] = path.open("rb", buffering=0)
        except OSError as error:
            raise _refused(path, error, "unreadable") from error
        self._state = self._now()
        self.size = self._state[0]

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    async def read(self, count: int) -> bytes:
        data = b""
        try:
            while len(data) < count:
                more = await asyncio.to_thread(self._file.read, count - len(data))
                if not more:
                    raise self._changed()
                data += more
        except OSError as error:
            raise _refused(self._path, error, "unreadable") from error
        return data

    def check(self) -> None:
        if self._now() != self._state:
            raise self._changed()

    def _now(self) -> tuple[int, int]:
        info = os.fstat(self._file.fileno())
        return info.st_size, info.st_mtime_ns

    def _changed(self) -> errors.FileRefused:
        return errors.FileRefused(f"{self._path} changed while it was read", kind="changed")


class FileSink:
    """A file to be of this machine; a context manager. What is not kept leaves nothing behind.

    Raises:
        FileRefused: it cannot be written there.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._draft = target.with_name(f".frontdesk-{secrets.token_hex(8)}")
        try:
            self._file: IO[bytes] = self._draft.open("xb", buffering=0)
        except OSError as error:
            raise _refused(target, error, "unwritable") from error

    def __enter__(self) -> FileSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)

    def restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[await asyncio.to_thread(self._file.write, view) :]
        except OSError as error:
            raise _refused(self._target, error, "unwritable") from error

    async def keep(self) -> None:
        """Give the file its name, in place of any other."""
        try:
            self._draft.replace(self._target)
        except OSError as error:
            raise _refused(self._target, error, "unwritable") from error


def _refused(path: Path, error: OSError, otherwise: errors.FileProblem) -> errors.FileRefused:
    kind = KINDS.get(error.errno or 0, otherwise)
    return errors.FileRefused(f"{path} on this machine: {error.strerror}", kind=kind)


async def send_file(client: ProbeClient, path: str, source: Source, *, user: User, mode: int, deadline_s: float) -> int:
    """Write a file of the desktop from a source; returns its size.

    Raises:
        FileRefused: one of the two ends cannot; nothing changed.
        SandboxError: what the probe answered, or ProbeLost / DeadlineExceeded when it did not.
    """
    request = client.message("write_file", {"path": path, "user": user, "mode": mode}, deadline_s=deadline_s)
    async with client.typed("write_file", deadline_s=deadline_s, effect=True), client.connection() as (reader, writer):
        writer.write(wire.encode(request, source.size))
        # The probe may refuse at any moment, and then takes the rest for nothing.
        answering = asyncio.create_task(_read_message(reader))
        try:
            left = source.size
            while left and not answering.done():
                data = await source.read(min(CHUNK, left))
                left -= len(data)
                if not left:
                    source.check()
                writer.write(data)
                try:
                    await writer.drain()
                except ConnectionError:
                    break  # the answer may have come before
            answer, _ = await answering
        finally:
            answering.cancel()
            await asyncio.wait({answering})
        if left:  # raised in here, so that the connection is thrown away
            raise read_error(answer["error"])
    if "error" in answer:
        raise read_error(answer["error"])
    return source.size


async def receive_file(client: ProbeClient, path: str, sink: Sink, *, max_bytes: int, deadline_s: float) -> int:
    """Read a file of the desktop into a sink; returns its size.

    Raises:
        FileNotFoundError: there is none.
        FileRefused: one of the two ends cannot; what the sink has is worth nothing.
        SandboxError: what the probe answered, or ProbeLost / DeadlineExceeded when it did not.
    """
    args = {"path": path, "user": "user", "max_bytes": max_bytes}
    request = client.message("read_file", args, deadline_s=deadline_s)
    async with client.typed("read_file", deadline_s=deadline_s, effect=False):
        try:
            return await _receive(client, request, sink)
        except (ConnectionError, EOFError, wire.WireError):
            sink.restart()  # once more, when a probe that was just dying is gone
            await asyncio.sleep(0.1)
            return await _receive(client, request, sink)


async def _receive(client: ProbeClient, request: dict[str, Any], sink: Sink) -> int:
    async with client.connection() as (reader, writer):
        writer.write(wire.encode(request))
        await writer.drain()
        answer, length = await _read_message(reader)
        size = 0
        if length == wire.STREAMED:
            while count := wire.PIECE.unpack(await reader.readexactly(wire.PIECE.size))[0]:
                await sink.write(await reader.readexactly(count))
                size += count
            answer, length = await _read_message(reader)
        if length:
            raise wire.WireError("a file comes in pieces")
    if "error" in answer:
        raise read_error(answer["error"])
    return size


async def open_stream(client: ProbeClient, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a TCP port on the desktop's own loopback.

    Raises:
        Unavailable: nothing listens there, or there is no loopback.
        SandboxError: what else the probe answered, or ProbeLost / DeadlineExceeded when it did not.
    """
    request = client.message("forward", {"port": port}, deadline_s=CONNECT_S)
    async with client.typed("forward", deadline_s=CONNECT_S, effect=False):
        reader, writer = await client.connect()
        try:
            writer.write(wire.encode(request))
            await writer.drain()
            answer, _ = await _read_message(reader)
            if "error" in answer:
                raise read_error(answer["error"])
        except BaseException:
            writer.transport.abort()
            raise
    return reader, writer


async def _read_message(reader: asyncio.StreamReader) -> tuple[dict[str, Any], int]:
    """A message's JSON and the length of its body."""
    json_length, body_length = wire.decode_header(await reader.readexactly(wire.HEADER.size))
    answer: dict[str, Any] = json.loads(await reader.readexactly(json_length))
    return answer, body_length
