"""The desktop of a lease at a hub elsewhere: each call is one round trip, and files go in pieces."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sandbox.actions import Action
from sandbox.backends import tape_calls as calls
from sandbox.desktop import DesktopSpec, ExecResult, Health, Observation, Settle, StepResult, User, Want
from sandbox.errors import BadRequest, DeadlineExceeded, DesktopError, LeaseExpired, Unavailable
from sandbox.evidence import Evidence, EvidenceRequest
from sandbox.forward import Ends, Forward
from sandbox.frame import Frame
from sandbox.hub import transfer
from sandbox.hub.link import Link
from sandbox.hub.messages import Message, unpack_frame
from sandbox.hub.perform import has_effect, read_answer
from sandbox.probe.wire import WireError

__all__ = ["Frames", "RemoteDesktop", "Right"]

CALL_S = 60.0  # for calls whose signature has no deadline
KEPT_FRAMES = 32

T = TypeVar("T")


class Frames:
    """The frames that this process has, so that a hub need not send them again; the oldest go first."""

    def __init__(self, limit: int = KEPT_FRAMES) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, Frame] = OrderedDict()

    @property
    def names(self) -> list[str]:
        """Their hashes."""
        return list(self._kept)

    def keep(self, frame: Frame) -> None:
        """Keep a frame, as the newest."""
        self._kept[frame.sha256] = frame
        self._kept.move_to_end(frame.sha256)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def among(self, names: Sequence[str]) -> dict[str, Frame]:
        """Hold on to these frames while the hub is asked: other calls may push them out meanwhile."""
        return {name: self._kept[name] for name in names}


class Right:
    """One lease as its holder knows it."""

    def __init__(self, *, lease_id: str, epoch: int) -> None:
        self.lease_id = lease_id
        self.epoch = epoch
        self.over: str | None = None
        self.told_over = False
        """The hub knows that it is over."""
        self.turn = asyncio.Lock()
        self.numbers = itertools.count(1)
        self.now = asyncio.get_running_loop().time

    def check(self) -> None:
        """Refuse a call when the lease is over.

        Raises:
            LeaseExpired: it is.
        """
        if self.over is not None:
            raise LeaseExpired(f"the lease of {self.lease_id} is over ({self.over}); nothing was done")

    def end(self, reason: str, *, told: bool = False) -> None:
        """The lease is over; the first reason stays."""
        self.told_over |= told
        if self.over is None:
            self.over = reason


class RemoteDesktop:
    """See `sandbox.desktop.Desktop` for the calls. Each may also raise `LeaseExpired` and `HubLost`."""

    def __init__(self, right: Right, spec: DesktopSpec, image_digest: str, link: Link, frames: Frames) -> None:
        self._right = right
        self._spec = spec
        self._image_digest = image_digest
        self._link = link
        self._frames = frames
        self._forwards: set[Forward] = set()
        self.hub_s = 0.0
        """How long the last call took beyond the time that the desktop itself needed, seconds."""

    @property
    def id(self) -> str:
        return self._right.lease_id

    @property
    def spec(self) -> DesktopSpec:
        return self._spec

    @property
    def image_digest(self) -> str:
        return self._image_digest

    async def step(
        self,
        actions: Sequence[Action],
        *,
        settle: Settle | None = None,
        want: Sequence[Want] = ("frame",),
        request_id: str | None = None,
        deadline_s: float = 30.0,
    ) -> StepResult:
        call = calls.step(actions, settle, want)
        return await self._call(call, deadline_s=deadline_s, request_id=request_id)

    async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
        return await self._call(calls.observe(want), deadline_s=deadline_s)

    async def collect(self, requests: Sequence[EvidenceRequest], *, deadline_s: float = 30.0) -> Evidence:
        return await self._call(calls.collect(requests), deadline_s=deadline_s)

    async def health(self) -> Health:
        return await self._call(calls.health())

    async def exec(
        self,
        argv: Sequence[str],
        *,
        user: User = "user",
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        deadline_s: float = 30.0,
        max_output: int = 1 << 20,
    ) -> ExecResult:
        call = calls.execute(argv, user=user, cwd=cwd, env=env, stdin=stdin, max_output=max_output)
        return await self._call(call, body=stdin, deadline_s=deadline_s)

    async def spawn(
        self, argv: Sequence[str], *, user: User = "user", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> int:
        return await self._call(calls.spawn(argv, user=user, cwd=cwd, env=env))

    async def put_file(
        self, path: str, data: bytes, *, user: User = "user", mode: int = 0o644, deadline_s: float = 60.0
    ) -> None:
        return await self._call(calls.put_file(path, data, user=user, mode=mode), body=data, deadline_s=deadline_s)

    async def get_file(self, path: str, *, max_bytes: int = 64 << 20, deadline_s: float = 60.0) -> bytes:
        return await self._call(calls.get_file(path, max_bytes=max_bytes), deadline_s=deadline_s)

    async def upload(
        self, source: Path, path: str, *, user: User = "user", mode: int = 0o644, deadline_s: float = 600.0
    ) -> int:
        request = {"path": path, "user": user, "mode": mode}

        async def pass_on(left_s: float, number: int) -> int:
            message = self._named("upload", request, left_s) | {"number": number}
            return await transfer.send(self._link, message, source, deadline_s=left_s)

        self._right.check()
        return await self._in_turn("upload", pass_on, deadline_s)

    async def download(self, path: str, target: Path, *, max_bytes: int = 16 << 30, deadline_s: float = 600.0) -> int:
        self._right.check()
        message = self._named("download", {"path": path, "max_bytes": max_bytes}, deadline_s)
        return await transfer.receive(self._link, message, target, deadline_s=deadline_s)

    @contextlib.asynccontextmanager
    async def forward(self, port: int) -> AsyncIterator[Forward]:
        async def connect() -> Ends:
            self._right.check()
            return await self._link.stream(
                {"op": "forward", "lease": self.id, "epoch": self._right.epoch, "port": port}
            )

        self._right.check()
        async with Forward.open(connect) as forward:
            self._forwards.add(forward)
            try:
                yield forward
            finally:
                self._forwards.discard(forward)

    async def close(self) -> None:
        """End the lease; the hub destroys the desktop. Idempotent."""
        for forward in self._forwards:
            forward.close()
        self._right.end("closed")
        if not self._right.told_over:
            self._right.told_over = True
            await self._link.ask(
                {"op": "release", "lease": self.id, "epoch": self._right.epoch}, deadline_s=CALL_S, effect=True
            )

    async def _call(
        self, call: calls.Call[T], *, body: bytes = b"", deadline_s: float = CALL_S, request_id: str | None = None
    ) -> T:
        request = _wire_form(call.request)
        self._right.check()
        if not has_effect(request):
            return await self._send(call, request, body, deadline_s, request_id, None)
        return await self._in_turn(
            request["call"],
            lambda left_s, number: self._send(call, request, body, left_s, request_id, number),
            deadline_s,
        )

    async def _in_turn(self, what: str, send: Callable[[float, int], Awaitable[T]], deadline_s: float) -> T:
        """Make a call that may change the desktop: one at a time, numbered, with what is left of its time."""
        ends_at = self._right.now() + deadline_s
        try:
            async with asyncio.timeout_at(ends_at):
                await self._right.turn.acquire()
        except TimeoutError:
            message = f"{what} waited {deadline_s:g} s for another call on the lease; nothing was done"
            raise DeadlineExceeded(message) from None
        try:
            self._right.check()
            return await send(ends_at - self._right.now(), next(self._right.numbers))
        except (BadRequest, FileNotFoundError, Unavailable):
            raise  # answers: the desktop is as it was
        except (DesktopError, asyncio.CancelledError) as error:
            # Nobody knows whether it happened, or the desktop is dead: as in one process, that ends the lease.
            self._right.end(str(error) or "cancelled", told=isinstance(error, LeaseExpired))
            raise
        finally:
            self._right.turn.release()

    def _named(self, op: str, request: Message, deadline_s: float) -> Message:
        return {
            "op": op,
            "lease": self.id,
            "epoch": self._right.epoch,
            "request": request,
            "deadline_s": deadline_s,
        }

    async def _send(
        self,
        call: calls.Call[T],
        request: Message,
        body: bytes,
        deadline_s: float,
        request_id: str | None,
        number: int | None,
    ) -> T:
        have = self._frames.among(self._frames.names)
        message = {
            "op": "call",
            "lease": self.id,
            "epoch": self._right.epoch,
            "number": number,
            "request": request,
            "request_id": request_id,
            "deadline_s": deadline_s,
            "have": list(have),
            "compress": not self._link.address.is_local,
        }
        began = time.perf_counter()
        result, data = await self._link.ask(message, [body], deadline_s=deadline_s, effect=number is not None)
        frame, at = await self._frame(result["frame"], data, have)
        blobs = []
        for size in result["sizes"]:
            blobs.append(data[at : at + size])
            at += size
        answer = read_answer(call, result["answer"], blobs, frame)
        self.hub_s = time.perf_counter() - began - result["desktop_s"]
        return answer

    async def _frame(self, described: Any, data: bytes, have: dict[str, Frame]) -> tuple[Frame | None, int]:
        """The frame of an answer, and how many of its bytes it took."""
        if described is None:
            return None, 0
        width, height, sha256, size = described
        try:
            frame = have[sha256] if size is None else await unpack_frame(width, height, sha256, data[:size])
        except (KeyError, WireError) as error:
            raise DesktopError("the hub sent a damaged frame", state={"cause": str(error)}) from error
        self._frames.keep(frame)
        return frame, size or 0


def _wire_form(request: Message) -> Message:
    """A call as it is sent: its bytes go along, so their hash need not."""
    return {name: value for name, value in request.items() if name not in ("stdin", "data")}
