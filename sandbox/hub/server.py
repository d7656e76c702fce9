"""A hub behind a socket: the leases of one `Hub`, for other processes and machines.

::

    async with Hub(backend, capacity=8) as hub, HubServer(hub, token=token) as server:
        await server.serve()                            # until it is cancelled

    connection: proof of the token -> request, answer, request, answer, ... -> either side hangs up

Guarantees, and who enforces them: nobody without the token gets further than the first 4 kB, and the token is not sent
(here); a call with an effect is made at most once however often it is sent (`replies`); a lease whose worker is lost
ends by its time, and its desktop is destroyed (`Hub`); a worker that is lost while it waits for a desktop leaves the
queue `ABANDON_S` later (here); a slow client holds up nobody but itself, because each connection is a task and a call's
turn on its desktop is over before its answer is sent.

Trade-off accepted: what is sent is not encrypted. Between machines use a network that you trust, or a tunnel.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import logging
import secrets
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from sandbox.desktop import DesktopSpec
from sandbox.errors import BadRequest, LeaseExpired, MissingRequirement, SandboxError
from sandbox.forward import Ends
from sandbox.frame import Frame
from sandbox.hub.hub import Hub
from sandbox.hub.lease import Lease
from sandbox.hub.messages import VERSION, Message, encode_error, pack_frame, proof_of, read_message, send_message
from sandbox.hub.perform import Performed, has_effect, perform
from sandbox.hub.replies import Ended, Replies, outcome
from sandbox.hub.transfer import Spool
from sandbox.probe.wire import WireError

__all__ = ["MIN_TOKEN", "HubServer"]

T = TypeVar("T")
Answer = tuple[Message, list[bytes]]
"""A message and the bytes that follow it."""

HELLO_S = 5.0
HELLO_BYTES = 4096
SEND_S = 60.0
ABANDON_S = 5.0
"""How long a wait for a desktop goes on when the connection of its worker broke."""
REMEMBER_S = 60.0
"""How long it is known of a lease that is over why it is."""
MIN_TOKEN = 16

log = logging.getLogger(__name__)


@dataclasses.dataclass(kw_only=True, slots=True, eq=False)
class _Lent:
    """A lease that was lent over a socket."""

    lease: Lease
    replies: Replies
    over_at: float | None = None


@dataclasses.dataclass(kw_only=True, slots=True, eq=False)
class _Asked:
    """A request for a lease, from the first time it was sent."""

    task: asyncio.Task[_Lent]
    waiting: int = 0
    """Connections on which its answer is awaited now."""
    told: bool = False
    """The lease was sent to somebody."""


class HubServer:
    """Offers a hub on a socket. The hub is opened and closed by its owner, around this.

    Args:
        token: what clients must know, at least 16 characters.
        host: address to listen on; `127.0.0.1` is reached from this machine only.
        port: 0 takes a free one; see `address`.
    """

    def __init__(self, hub: Hub, *, token: str, host: str = "127.0.0.1", port: int = 0) -> None:
        if len(token) < MIN_TOKEN:
            raise BadRequest(f"a hub's token must have at least {MIN_TOKEN} characters")
        self._hub = hub
        self._token = token
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._lent: dict[str, _Lent] = {}
        self._asked: dict[str, _Asked] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def address(self) -> str:
        """`HOST:PORT`, as clients write it."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def __aenter__(self) -> HubServer:
        try:
            self._server = await asyncio.start_server(self._talk, self._host, self._port, limit=1 << 20, backlog=512)
        except OSError as error:
            raise MissingRequirement(
                f"the hub cannot listen on {self._host}:{self._port} ({error.strerror})",
                fix="choose an address of this machine and a free port with --host and --port",
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for lent in self._lent.values():
            await self._hub.release(lent.lease)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(self) -> None:
        """Serve until cancelled."""
        assert self._server is not None
        await self._server.serve_forever()

    # -- one connection -----------------------------------------------------------------------------------------

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(HELLO_S):
                admitted = await self._admit(reader, writer)
            while admitted:
                message, body = await read_message(reader)
                if message.get("op") in ("forward", "upload", "download"):
                    own = self._forward if message["op"] == "forward" else self._transfer
                    return await own(message, (reader, writer))
                answer = await _while_connected(reader, _told(self._answer(message, body)))
                async with asyncio.timeout(SEND_S):
                    await send_message(writer, *answer)
        except (OSError, EOFError, WireError, TimeoutError):
            return  # the client hung up, or cannot be talked with; it learns that from the closed connection
        except asyncio.CancelledError:
            return  # the hub closes
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonce = secrets.token_hex(16)
        await send_message(writer, {"v": VERSION, "nonce": nonce})
        hello, _ = await read_message(reader, max_json=HELLO_BYTES, max_body=0)
        refusal = None
        if not hmac.compare_digest(str(hello.get("proof")).encode(), proof_of(self._token, nonce).encode()):
            refusal = BadRequest("the hub refused the token; use the token of the hub that you mean")
        elif hello.get("v") != VERSION:
            refusal = BadRequest(f"this hub speaks version {VERSION} of the protocol, not {hello.get('v')}")
        await send_message(writer, {"result": {}} if refusal is None else {"error": encode_error(refusal)})
        return refusal is None

    async def _answer(self, message: Message, body: bytes) -> Answer:
        match message["op"]:
            case "call":
                return await self._call(message, body)
            case "acquire":
                return {"result": await self._acquire(message)}, []
            case "renew":
                return {"result": await self._renew(message)}, []
            case "release":
                lent = self._lent.get(message["lease"])
                if lent is not None and lent.lease.epoch == message["epoch"]:
                    await self._hub.release(lent.lease)
                return {"result": {}}, []
            case "stats":
                return {"result": dataclasses.asdict(self._hub.stats())}, []
        raise BadRequest(f"this hub knows no operation {message['op']!r}")

    # -- leases -------------------------------------------------------------------------------------------------

    async def _acquire(self, message: Message) -> Message:
        self._prune()
        request_id = str(message["id"])
        asked = self._asked.get(request_id)
        if asked is None:
            asked = self._asked[request_id] = _Asked(task=self._start(self._take(message)))
            asked.task.add_done_callback(lambda task: self._settle(request_id, task))
        asked.waiting += 1
        try:
            await asyncio.wait({asked.task})
            if asked.task.cancelled():
                raise LeaseExpired("the request for a desktop was given up; ask again")
            lent = asked.task.result()
            asked.told = True
        finally:
            asked.waiting -= 1
            if not asked.waiting and not asked.told:
                asyncio.get_running_loop().call_later(ABANDON_S, self._abandon, asked)
        lease = lent.lease
        return {
            "lease": lease.id,
            "epoch": lease.epoch,
            "spec": lease.desktop.spec.model_dump(mode="json"),
            "image_digest": lease.desktop.image_digest,
            "expires_in_s": lease.expires_in_s,
        }

    async def _take(self, message: Message) -> _Lent:
        spec = None if message["spec"] is None else DesktopSpec.model_validate(message["spec"])
        lease = await self._hub.acquire(
            spec, ttl_s=message["ttl_s"], priority=message["priority"], deadline_s=message["deadline_s"]
        )
        lent = self._lent[lease.id] = _Lent(lease=lease, replies=Replies(self._start))
        return lent

    def _settle(self, request_id: str, task: asyncio.Task[_Lent]) -> None:
        """A request that failed may be sent again and is tried again."""
        if not _succeeded(task):
            self._asked.pop(request_id, None)

    def _abandon(self, asked: _Asked) -> None:
        """Nobody came back for this lease."""
        if asked.waiting or asked.told:
            return
        if not asked.task.done():
            asked.task.cancel()
        elif _succeeded(asked.task):
            asked.task.result().lease.holding.end("unclaimed")

    async def _renew(self, message: Message) -> Message:
        lent = self._find(message)
        lent.lease = await self._hub.renew(lent.lease, ttl_s=message["ttl_s"], fence=message["fence"])
        return {"epoch": lent.lease.epoch, "expires_in_s": lent.lease.expires_in_s}

    def _find(self, message: Message) -> _Lent:
        lent = self._lent.get(message["lease"])
        if lent is None:
            raise LeaseExpired(f"this hub has no lease {message['lease']}; it ended, or the hub was started anew")
        if lent.lease.epoch != message["epoch"]:
            raise LeaseExpired(f"the lease of {message['lease']} was taken over by a newer epoch; nothing was done")
        return lent

    def _prune(self) -> None:
        """Let go what is known of leases that ended."""
        now = asyncio.get_running_loop().time()
        for lease_id, lent in list(self._lent.items()):
            if lent.lease.holding.over is None:
                continue
            if lent.over_at is None:
                lent.over_at = now
                lent.replies.forget()
            elif now - lent.over_at > REMEMBER_S:
                del self._lent[lease_id]
        for request_id, asked in list(self._asked.items()):
            if _succeeded(asked.task) and asked.task.result().lease.id not in self._lent:
                del self._asked[request_id]

    # -- calls --------------------------------------------------------------------------------------------------

    async def _call(self, message: Message, body: bytes) -> Answer:
        lent, request = self._find(message), message["request"]
        deadline_s, request_id = float(message["deadline_s"]), message["request_id"]

        def make() -> Coroutine[Any, Any, Performed]:
            return perform(lent.lease.desktop, request, body, deadline_s=deadline_s, request_id=request_id)

        if not has_effect(request):
            performed = await make()
        else:
            performed = await outcome(self._claim(lent, message["number"], request, len(body), make), deadline_s)
        seen = performed.frame
        has = seen is None or seen.sha256 in message["have"]
        pixels = b"" if seen is None or has else await pack_frame(seen, compress=bool(message["compress"]))
        result = {
            "answer": performed.answer,
            "frame": _described(seen, None if has else len(pixels)),
            "sizes": [len(blob) for blob in performed.blobs],
            "desktop_s": performed.desktop_s,
        }
        return {"result": result}, [pixels, *performed.blobs]

    def _claim(
        self,
        lent: _Lent,
        number: Any,
        request: Message,
        num_bytes: int,
        make: Callable[[], Coroutine[Any, Any, Performed]],
    ) -> asyncio.Task[Ended]:
        if not isinstance(number, int):
            raise BadRequest("a call that may change the desktop needs a number")
        if lent.lease.over is not None and lent.replies.was_answered(number):
            why = f"the lease ended ({lent.lease.over}) after this call was made; its answer is not kept"
            raise LeaseExpired(why, phase="unknown")
        return lent.replies.claim(number, request, num_bytes, make)

    async def _transfer(self, message: Message, client: Ends) -> None:
        """Pass a file on, in pieces; see `sandbox.hub.transfer`."""
        reader, writer = client
        try:
            size, deadline_s = int(message.get("size", 0)), float(message["deadline_s"])
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"malformed transfer: {error}") from error
        await send_message(writer, {"result": {}})
        passing = self._upload if message["op"] == "upload" else self._download
        clock = asyncio.get_running_loop().time
        ends_at = clock() + deadline_s
        with Spool() as spool:
            async with asyncio.timeout_at(ends_at):
                await spool.take(reader, size)
            answer, _ = await _while_connected(reader, _told(passing(message, spool, ends_at - clock())))
            async with asyncio.timeout_at(ends_at + SEND_S):
                await send_message(writer, answer)
                if message["op"] == "download" and "result" in answer:
                    await spool.give(writer)

    async def _upload(self, message: Message, spool: Spool, deadline_s: float) -> Answer:
        lent, request, size = self._find(message), message["request"], spool.size
        spool.check()

        async def take(held: Spool) -> Performed:
            with held:  # it goes on when this connection breaks
                await lent.lease.desktop.upload(held.path, **request, deadline_s=deadline_s)
                return Performed(answer=size, frame=None, blobs=(), desktop_s=0.0)

        named = {"call": "upload", **request}
        await outcome(self._claim(lent, message["number"], named, size, lambda: take(spool.held())), deadline_s)
        return {"result": size}, []

    async def _download(self, message: Message, spool: Spool, deadline_s: float) -> Answer:
        desktop = self._find(message).lease.desktop
        return {"result": await spool.fetch(desktop, **message["request"], deadline_s=deadline_s)}, []

    async def _forward(self, message: Message, client: Ends) -> None:
        """Make a client's connection one to a port of the desktop; it ends when the lease does."""
        try:
            async with self._find(message).lease.desktop.forward(message["port"]) as forward:
                inside = await forward.connect()
                await send_message(client[1], {"result": {}})
                await forward.carry(client, inside)
        except (KeyError, TypeError) as error:
            refusal = BadRequest(f"malformed request: {type(error).__name__}: {error}")
            await send_message(client[1], {"error": encode_error(refusal)})
        except SandboxError as error:
            await send_message(client[1], {"error": encode_error(error)})

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that outlives the connection which asked for it; it ends with the server at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _told(work: Coroutine[Any, Any, Answer]) -> Answer:
    """An answer, or the error instead."""
    try:
        return await work
    except (KeyError, TypeError) as error:
        return {"error": encode_error(BadRequest(f"malformed request: {type(error).__name__}: {error}"))}, []
    except Exception as error:  # noqa: BLE001 - whatever it is, the client waits for an answer
        return {"error": encode_error(error)}, []


async def _while_connected(reader: asyncio.StreamReader, work: Coroutine[Any, Any, T]) -> T:
    """Do something for a client as long as it stays.

    Raises:
        EOFError: it hung up; the work was cancelled.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(reader.read(1))  # a client says nothing until it has its answer
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise EOFError("the client hung up")
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def _described(frame: Frame | None, num_bytes: int | None) -> list[Any] | None:
    """Width, height, hash, and how many of the bytes that follow are this frame's; None if it is not sent again."""
    return None if frame is None else [frame.width, frame.height, frame.sha256, num_bytes]
