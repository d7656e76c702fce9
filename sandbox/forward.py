"""A port of this machine that leads to a port of a desktop.

It listens on 127.0.0.1 and takes connections only from processes of this process's own user (or root), for whoever
reaches it drives what listens in the desktop. What comes out of it is the desktop's own word.

::

    client --TCP, 127.0.0.1--> Forward --one stream of the probe per connection--> TCP, the desktop's loopback
             an end is passed on as a half-close, either way; who reads slowly is waited for;
             all is closed with the block or the desktop
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from sandbox import errors

__all__ = ["Connect", "Ends", "Forward", "is_own"]

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Ends]]
"""Makes one connection to the port in the desktop."""
CHUNK = 1 << 16
CONNECTING = 8
"""Connections that are made at a time: each needs a thread of the probe while it is."""
MAPPED = "0000000000000000FFFF0000"
"""Before an IPv4 address in /proc/net/tcp6: a socket of both families made the connection."""
HOST = "127.0.0.1"


class Forward:
    """An open forward. Made by `Desktop.forward`."""

    host = HOST

    def __init__(self, connect: Connect, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        """On this machine."""
        self.last_error: errors.SandboxError | None = None
        """Why the newest connection that was not made was not (nothing listens in the desktop, say)."""
        self._connect = connect
        self._listener = listener
        self._gate = asyncio.Semaphore(CONNECTING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listener, self._accept)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, connect: Connect) -> AsyncIterator[Forward]:
        """Listen, until the block ends."""
        listener = socket.create_server((HOST, 0), backlog=128)
        listener.setblocking(False)
        forward = cls(connect, listener)
        try:
            yield forward
        finally:
            forward.close()
            await asyncio.gather(*forward._tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        """`host:port`, as URLs have it."""
        return f"{self.host}:{self.port}"

    async def connect(self) -> Ends:
        """A connection to the port in the desktop, past the one of this machine. It is the caller's to close.

        Raises:
            SandboxError: there is none to be had.
        """
        async with self._gate:
            return await self._connect()

    async def carry(self, near: Ends, far: Ends) -> None:
        """Pass on bytes between two connections until both have ended, one side is gone, or this is closed.

        Both are closed then. When this is closed, the calling task is cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await _relay(near, far)
        finally:
            self._tasks.discard(task)

    def close(self) -> None:
        """Take no more connections and end those there are. Idempotent."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it was gone again, or there is no descriptor left for it
            return
        client.setblocking(False)
        task = self._loop.create_task(self._serve(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: client.close())  # also of one that is cancelled before it begins

    async def _serve(self, client: socket.socket) -> None:
        try:
            if not is_own(client):
                return
            far = await self.connect()
            near = await asyncio.open_connection(sock=client, limit=CHUNK)
            await _relay(near, far)
        except errors.SandboxError as error:
            self.last_error = error


async def _relay(near: Ends, far: Ends) -> None:
    """Pass bytes on, both ways, until both have ended or one side is gone."""
    try:
        async with asyncio.TaskGroup() as ways:
            ways.create_task(_pump(near[0], far[1]))
            ways.create_task(_pump(far[0], near[1]))
        for _, writer in (near, far):  # what is written is not yet sent
            writer.close()
            await writer.wait_closed()
    except* OSError:
        pass  # one side hung up; the other learns it by being closed
    finally:
        for _, writer in (near, far):
            writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


def is_own(client: socket.socket) -> bool:
    """Whether the other end of a connection on this machine belongs to this process's user, or to root."""
    here, there = _hex_address(client.getsockname()), _hex_address(client.getpeername())
    for table, before in (("/proc/net/tcp", ""), ("/proc/net/tcp6", MAPPED)):
        with contextlib.suppress(FileNotFoundError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1] == before + there and fields[2] == before + here:
                    # What nobody holds open any more is shown as root's.
                    return fields[9] != "0" and int(fields[7]) in (0, os.geteuid())
    return False


def _hex_address(address: tuple[str, int]) -> str:
    """An address as /proc/net/tcp has it."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
