"""A client's connections to a hub: one request at a time on each, kept for the next one, made again when they break.

Every request may be sent again, because the hub knows it by its id or number (`sandbox.hub.replies`); so when a
connection breaks, the request goes out on another until its deadline, or until no connection could be made for
`patience_s`: at once the first time, for one that broke says nothing of the hub, and with growing pauses after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from sandbox.errors import BadRequest, DeadlineExceeded, HubLost, Phase
from sandbox.hub.messages import VERSION, Message, decode_error, proof_of, read_message, send_message
from sandbox.probe.wire import WireError

__all__ = ["HubAddress", "Link"]

CONNECT_S = 5.0
GRACE_S = 7.0
"""How much longer than the hub itself a client waits before it gives a call up."""
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 2.0
LOCAL = ("127.0.0.1", "::1", "localhost")

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, kw_only=True, slots=True)
class HubAddress:
    """Where a hub listens, and the right to talk to it."""

    host: str
    port: int
    token: str = field(repr=False)

    @classmethod
    def parse(cls, text: str, token: str) -> HubAddress:
        """The address that a person wrote as `HOST:PORT`, `tcp://` before it or not.

        Raises:
            BadRequest: it is none.
        """
        host, colon, port = text.removeprefix("tcp://").rstrip("/").rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise BadRequest(f"{text!r} is no hub's address; write HOST:PORT, as `frontdesk hub serve` prints it")
        return cls(host=host.strip("[]"), port=int(port), token=token)

    @property
    def is_local(self) -> bool:
        """Whether the hub is on this machine."""
        return self.host in LOCAL

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Link:
    """Talks to one hub.

    Args:
        patience_s: how long connections may fail before the hub counts as lost.
    """

    def __init__(self, address: HubAddress, *, patience_s: float = 30.0) -> None:
        self.address = address
        self._patience_s = patience_s
        self._idle: list[Connection] = []
        self._closed = False

    async def ask(
        self, message: Message, body: Sequence[bytes] = (), *, deadline_s: float, effect: bool = False
    ) -> tuple[Message, bytes]:
        """Send a request and return its result and the bytes that follow it.

        Args:
            effect: it may change a desktop, so when the hub is lost its fate is unknown.

        Raises:
            SandboxError: what the hub answered.
            DeadlineExceeded: it did not answer in time.
            HubLost: no connection to it could be made, or made again.
        """
        sent = False
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                pause_s, reached_at = 0.0, _now()
                while True:
                    try:
                        async with self._connection() as connection:
                            sent, reached_at, pause_s = True, _now(), min(pause_s, FIRST_RETRY_S)
                            answer, data = await self.exchange(connection, message, body)
                        break
                    except (OSError, EOFError, WireError) as error:
                        if self._closed or _now() - reached_at > self._patience_s:
                            raise self._lost(error, sent and effect) from error
                        await asyncio.sleep(pause_s)
                        pause_s = min(max(2 * pause_s, FIRST_RETRY_S), LAST_RETRY_S)
        except TimeoutError as error:
            phase: Phase = "unknown" if sent and effect else "infra"
            what = message.get("request", {}).get("call", message["op"])
            raise DeadlineExceeded(f"{what}: no answer from the hub within {deadline_s:g} s", phase=phase) from error
        return _result(answer), data

    async def stream(self, message: Message) -> Connection:
        """A connection of its own, which is the caller's once the hub has answered this request on it.

        Raises:
            SandboxError: what the hub answered, or HubLost when it did not.
        """
        try:
            connection = await self.connect()
            try:
                _result((await self.exchange(connection, message, ()))[0])
            except BaseException:
                connection[1].transport.abort()
                raise
        except (OSError, EOFError, WireError) as error:
            raise self._lost(error, unknown=False) from error
        return connection

    async def exchange(self, connection: Connection, message: Message, body: Sequence[bytes]) -> tuple[Message, bytes]:
        """Send one request on one connection and read its answer, as it comes."""
        reader, writer = connection
        await send_message(writer, message, body)
        return await read_message(reader)

    async def connect(self) -> Connection:
        """Make a connection and prove to know the token.

        Raises:
            BadRequest: the hub refused it.
            OSError, EOFError, WireError, TimeoutError: there is no hub, or it hung up.
        """
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(self.address.host, self.address.port, limit=1 << 20)
            try:
                greeting, _ = await read_message(reader)
                proof = proof_of(self.address.token, str(greeting.get("nonce")))
                _result((await self.exchange((reader, writer), {"v": VERSION, "proof": proof}, ()))[0])
            except BaseException:
                writer.transport.abort()
                raise
        return reader, writer

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        connection = None
        while self._idle and connection is None:
            connection = self._idle.pop()
            if _hung_up(connection):
                connection[1].transport.abort()
                connection = None
        if connection is None:
            connection = await self.connect()
        try:
            yield connection
        except BaseException:
            connection[1].transport.abort()
            raise
        if self._closed:
            connection[1].transport.abort()
        else:
            self._idle.append(connection)

    def _lost(self, error: Exception, unknown: bool) -> HubLost:
        reason = str(error) or type(error).__name__
        return HubLost(
            f"the hub at {self.address} does not answer ({reason}). See that `frontdesk hub serve` runs there",
            phase="unknown" if unknown else "infra",
            state={"hub": str(self.address), "cause": reason},
        )

    def close(self) -> None:
        """Hang up, and retry nothing any more."""
        self._closed = True
        while self._idle:
            _, writer = self._idle.pop()
            writer.transport.abort()


def _result(answer: Message) -> Message:
    if "error" in answer:
        raise decode_error(answer["error"])
    result: Message = answer["result"]
    return result


def _now() -> float:
    return asyncio.get_running_loop().time()


def _hung_up(connection: Connection) -> bool:
    """Whether the other end of an idle connection is gone: then, and only then, there is something to read."""
    reader, writer = connection
    if reader.at_eof() or writer.is_closing():
        return True
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))
