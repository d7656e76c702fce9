"""The host's side of the probe: calls over a few connections.

One connection serves one call at a time; calls side by side take connections of their own, so a long command does not
hold up a look at the screen. A connection that broke, or whose call outlived its deadline, is thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import errors
from sandbox.answers import read_error
from sandbox.probe import wire

__all__ = ["Body", "Connection", "ProbeAddress", "ProbeClient"]

CONNECT_S = 3.0
"""How long a probe that died is given to be started again, by the spawner."""
RETRY_S = 0.1
GRACE_S = 2.0
"""How much longer than the probe itself the host waits before it gives a call up."""
Body = bytes
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeAddress:
    """Where a probe listens, and the right to talk to it."""

    socket: Path
    token: str
    epoch: int = 1


class ProbeClient:
    """Calls one probe."""

    def __init__(self, address: ProbeAddress) -> None:
        self.address = address
        self._idle: list[Connection] = []

    async def call(
        self,
        op: str,
        args: dict[str, Any],
        *,
        body: Body = b"",
        deadline_s: float,
        request_id: str | None = None,
        effect: bool = False,
    ) -> tuple[dict[str, Any], Body]:
        """Make one call.

        Args:
            effect: it changes the desktop, so when the connection breaks its fate is unknown.

        Raises:
            SandboxError: what the probe answered, or ProbeLost / DeadlineExceeded when it did not.
        """
        message = self.message(op, args, deadline_s=deadline_s, request_id=request_id)
        async with self.typed(op, deadline_s=deadline_s, effect=effect):
            try:
                answer, data = await self._exchange(message, body)
            except (OSError, EOFError, wire.WireError):
                if effect:
                    raise
                # Nothing can have happened: once more, when a probe that was just dying is gone.
                await asyncio.sleep(RETRY_S)
                answer, data = await self._exchange(message, body)
        if "error" in answer:
            raise read_error(answer["error"])
        return answer["result"], data

    def message(
        self, op: str, args: dict[str, Any], *, deadline_s: float, request_id: str | None = None
    ) -> dict[str, Any]:
        """A request, with what every request has."""
        return {
            "v": wire.VERSION,
            "token": self.address.token,
            "epoch": self.address.epoch,
            "id": request_id or uuid.uuid4().hex,
            "op": op,
            "deadline_ms": deadline_s * 1000,
            "args": args,
        }

    @contextlib.asynccontextmanager
    async def typed(self, op: str, *, deadline_s: float, effect: bool) -> AsyncIterator[None]:
        """Bound what happens inside by the deadline, and type its failures.

        Raises:
            DeadlineExceeded: it took longer.
            ProbeLost: the connection broke.
        """
        phase: errors.Phase = "unknown" if effect else "infra"
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                yield
        except TimeoutError as error:
            raise errors.DeadlineExceeded(f"{op} did not end within {deadline_s:g} s", phase=phase) from error
        except (FileNotFoundError, errors.SandboxError):
            raise
        except (OSError, EOFError, wire.WireError) as error:
            raise errors.ProbeLost(f"the probe hung up during {op}", phase=phase) from error

    async def _exchange(self, message: dict[str, Any], body: Body) -> tuple[dict[str, Any], Body]:
        """Send a request and read its answer."""
        async with self.connection() as (reader, writer):
            writer.write(wire.encode(message, len(body)))
            if body:
                writer.write(body)
            await writer.drain()
            json_length, body_length = wire.decode_header(await reader.readexactly(wire.HEADER.size))
            answer = json.loads(await reader.readexactly(json_length))
            return answer, await reader.readexactly(body_length) if body_length else b""

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection with nothing under way on it. It serves again unless the block ends by an exception.

        Raises:
            ProbeLost: there is no probe.
        """
        connection = None
        while self._idle and connection is None:
            connection = self._idle.pop()
            if _hung_up(*connection):
                connection[1].transport.abort()
                connection = None
        if connection is None:
            connection = await self.connect()
        try:
            yield connection
        except BaseException:
            connection[1].transport.abort()
            raise
        self._idle.append(connection)

    async def connect(self) -> Connection:
        """A new connection, the caller's own.

        Raises:
            ProbeLost: there is no probe.
        """
        try:
            return await _connect(self.address.socket)
        except OSError as error:
            message = f"no probe answers ({error.strerror}); nothing was done"
            raise errors.ProbeLost(message, phase="infra") from error

    async def close(self) -> None:
        """Hang up."""
        while self._idle:
            _, writer = self._idle.pop()
            writer.transport.abort()
        await asyncio.sleep(0)


def _hung_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the other end of an idle connection is gone: then, and only then, there is something to read."""
    if reader.at_eof() or writer.is_closing():
        return True
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _connect(path: Path) -> Connection:
    """Connect, waiting for a probe that is just being started again.

    Raises:
        OSError: there is no probe; nothing was done.
    """
    until = time.monotonic() + CONNECT_S
    while True:
        # A socket's path may have 108 bytes at most; through a descriptor of its directory any path fits.
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{path.name}", limit=1 << 20)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
        finally:
            os.close(directory)
        await asyncio.sleep(0.01)
