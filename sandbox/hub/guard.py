"""The desktop that a lease hands out: a `Desktop` that stops working when the lease does.

Each call waits for its turn on the lease (its deadline runs meanwhile), checks the lease's epoch when the turn comes,
and passes what is left of the deadline on. So whoever keeps the reference after the lease is over gets `LeaseExpired`
and reaches nothing: this object is the only way from a worker to the desktop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sandbox.actions import Action
from sandbox.desktop import DesktopSpec, ExecResult, Health, Observation, Settle, StepResult, User, Want
from sandbox.errors import DeadlineExceeded
from sandbox.evidence import CommandRequest, Evidence, EvidenceRequest
from sandbox.forward import Forward
from sandbox.hub.lease import Asked, Holding

__all__ = ["GuardedDesktop"]

CALL_S = 60.0  # for calls whose signature has no deadline
GRACE_S = 5.0  # a desktop keeps its own deadline; only one that fails to is cut off from outside

T = TypeVar("T")


class GuardedDesktop:
    """One desktop under one epoch of one lease; see `sandbox.desktop.Desktop` for the calls.

    Every call may also raise `LeaseExpired`: the lease is over. A step may raise `ScreenFrozen`.
    """

    def __init__(self, holding: Holding, epoch: int) -> None:
        self._holding = holding
        self._epoch = epoch

    @property
    def id(self) -> str:
        return self._holding.desktop.id

    @property
    def spec(self) -> DesktopSpec:
        return self._holding.desktop.spec

    @property
    def image_digest(self) -> str:
        return self._holding.desktop.image_digest

    async def step(
        self,
        actions: Sequence[Action],
        *,
        settle: Settle | None = None,
        want: Sequence[Want] = ("frame",),
        request_id: str | None = None,
        deadline_s: float = 30.0,
    ) -> StepResult:
        holding = self._holding
        asked = Asked(actions=tuple(actions), settle=settle, want=tuple(want))

        async def run(left_s: float) -> StepResult:
            known = None if request_id is None else holding.recall(request_id, asked)
            if known is not None:
                return known
            began = asyncio.get_running_loop().time()
            answer = await holding.desktop.step(
                asked.actions, settle=settle, want=asked.want, request_id=request_id, deadline_s=left_s
            )
            holding.metrics.step.add(asyncio.get_running_loop().time() - began)
            if request_id is not None:
                holding.remember(request_id, asked, answer)
            holding.screen.see(answer.observation)
            return answer

        return await self._call("step", run, deadline_s, effect=bool(asked.actions))

    async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
        desktop = self._holding.desktop
        return await self._call("observe", lambda s: desktop.observe(want, deadline_s=s), deadline_s, effect=False)

    async def collect(self, requests: Sequence[EvidenceRequest], *, deadline_s: float = 30.0) -> Evidence:
        desktop = self._holding.desktop
        effect = any(isinstance(request, CommandRequest) for request in requests)
        return await self._call("collect", lambda s: desktop.collect(requests, deadline_s=s), deadline_s, effect=effect)

    async def health(self) -> Health:
        desktop = self._holding.desktop
        return await self._call("health", lambda _: desktop.health(), CALL_S, effect=False)

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
        desktop = self._holding.desktop

        def run(left_s: float) -> Coroutine[Any, Any, ExecResult]:
            return desktop.exec(
                argv, user=user, cwd=cwd, env=env, stdin=stdin, deadline_s=left_s, max_output=max_output
            )

        return await self._call("exec", run, deadline_s, effect=True)

    async def spawn(
        self, argv: Sequence[str], *, user: User = "user", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> int:
        desktop = self._holding.desktop
        return await self._call(
            "spawn", lambda _: desktop.spawn(argv, user=user, cwd=cwd, env=env), CALL_S, effect=True
        )

    async def put_file(
        self, path: str, data: bytes, *, user: User = "user", mode: int = 0o644, deadline_s: float = 60.0
    ) -> None:
        desktop = self._holding.desktop
        return await self._call(
            "put_file",
            lambda s: desktop.put_file(path, data, user=user, mode=mode, deadline_s=s),
            deadline_s,
            effect=True,
        )

    async def get_file(self, path: str, *, max_bytes: int = 64 << 20, deadline_s: float = 60.0) -> bytes:
        desktop = self._holding.desktop
        return await self._call(
            "get_file", lambda s: desktop.get_file(path, max_bytes=max_bytes, deadline_s=s), deadline_s, effect=False
        )

    async def upload(
        self, source: Path, path: str, *, user: User = "user", mode: int = 0o644, deadline_s: float = 600.0
    ) -> int:
        desktop = self._holding.desktop
        return await self._call(
            "upload",
            lambda s: desktop.upload(source, path, user=user, mode=mode, deadline_s=s),
            deadline_s,
            effect=True,
        )

    async def download(self, path: str, target: Path, *, max_bytes: int = 16 << 30, deadline_s: float = 600.0) -> int:
        desktop = self._holding.desktop
        return await self._call(
            "download",
            lambda s: desktop.download(path, target, max_bytes=max_bytes, deadline_s=s),
            deadline_s,
            effect=False,
        )

    @contextlib.asynccontextmanager
    async def forward(self, port: int) -> AsyncIterator[Forward]:
        holding = self._holding
        holding.check(self._epoch)
        async with holding.desktop.forward(port) as forward:
            holding.check(self._epoch)
            holding.forwards.add(forward)
            try:
                yield forward
            finally:
                holding.forwards.discard(forward)

    async def close(self) -> None:
        """End the lease; the hub destroys the desktop. Idempotent, and without effect under an older epoch."""
        if self._epoch == self._holding.epoch:
            self._holding.end("closed")

    async def _call(
        self, what: str, run: Callable[[float], Coroutine[Any, Any, T]], deadline_s: float, *, effect: bool
    ) -> T:
        holding, clock = self._holding, asyncio.get_running_loop().time
        ends = clock() + deadline_s
        holding.check(self._epoch)
        try:
            async with asyncio.timeout_at(ends):
                await holding.lock.acquire()
        except TimeoutError:
            raise DeadlineExceeded(
                f"{what} waited {deadline_s} s for another call on the lease of {self.id}; nothing was done"
            ) from None
        try:
            holding.check(self._epoch)
            left_s = ends - clock()
            if left_s <= 0:
                raise DeadlineExceeded(f"{what} had no time left ({deadline_s} s in all); nothing was done")
            return await holding.call(what, run(left_s), limit_s=left_s + GRACE_S, effect=effect)
        finally:
            holding.lock.release()
