"""A worker's right to one desktop for a while.

A `Holding` is the hub's side of a lease: the desktop, the epoch that may use it, the time it ends, the one call in
flight and the last answers. A `Lease` is what the worker gets. Each desktop is lent once, so the desktop's id names the
lease as well.

::

    lent -> (renewed: later end, or a newer epoch) -> over: released | closed | expired | cancelled | an error's name

Guarantees, enforced here: once a lease is over it stays over, with the first reason kept; calls run one at a time; a
call in flight when the lease ends is cancelled; a call whose effect may or may not have happened ends the lease; a
repeated request id is answered from the last `ANSWERS` answers without another call.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sandbox.actions import Action
from sandbox.desktop import Desktop, Settle, StepResult, Want
from sandbox.errors import (
    BadRequest,
    DeadlineExceeded,
    DesktopError,
    LeaseExpired,
    Phase,
    ProbeLost,
    SandboxError,
    Unavailable,
)
from sandbox.forward import Forward
from sandbox.hub.metrics import Metrics
from sandbox.hub.watch import ScreenWatch

__all__ = ["Asked", "Holding", "Lease"]

ANSWERS = 4  # calls are one at a time, so a retry can only concern the newest; each answer may hold a whole frame
STOP_S = 2.0  # how long a cancelled call may take to give way

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a request id was used for."""

    actions: Sequence[Action]
    settle: Settle | None
    want: Sequence[Want]


class Holding:
    """One desktop while it is lent.

    Args:
        expires_at: loop time at which the lease ends unless it is renewed.
        latest_at: loop time that no renewal may pass.
        on_over: called once, with the reason, when the lease ends; it must destroy the desktop.
    """

    def __init__(
        self,
        *,
        desktop: Desktop,
        epoch: int,
        expires_at: float,
        latest_at: float,
        metrics: Metrics,
        on_over: Callable[[str], None],
    ) -> None:
        self.desktop = desktop
        self.epoch = epoch
        self.expires_at = expires_at
        self.latest_at = latest_at
        self.metrics = metrics
        self.screen = ScreenWatch()
        self.lock = asyncio.Lock()
        self.over: str | None = None
        self.forwards: set[Forward] = set()
        """Open ports that lead to the desktop; they end with the right to it."""
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_at(expires_at, self.end, "expired")
        self._running: asyncio.Task[Any] | None = None
        self._answers: OrderedDict[str, tuple[Asked, StepResult]] = OrderedDict()

    def check(self, epoch: int) -> None:
        """Refuse a caller whose right is over.

        Raises:
            LeaseExpired: the lease is over, or was renewed under a newer epoch.
        """
        if self.over is None and self._loop.time() >= self.expires_at:
            self.end("expired")
        if self.over is not None:
            raise LeaseExpired(f"the lease of {self.desktop.id} is over ({self.over}); nothing was done")
        if epoch != self.epoch:
            raise LeaseExpired(f"the lease of {self.desktop.id} was taken over by a newer epoch; nothing was done")

    def end(self, reason: str) -> None:
        """End the lease; later calls change nothing."""
        if self.over is None:
            self.over = reason
            self._timer.cancel()
            self._cut()
            self._on_over(reason)

    def fence(self, epoch: int) -> None:
        """From now on only this newer epoch may use the desktop."""
        self.epoch = epoch
        self._cut()

    def _cut(self) -> None:
        for forward in self.forwards:
            forward.close()

    def extend(self, ttl_s: float) -> None:
        """Let the lease end `ttl_s` from now, but never after `latest_at`."""
        self.expires_at = min(self._loop.time() + ttl_s, self.latest_at)
        self._timer.cancel()
        self._timer = self._loop.call_at(self.expires_at, self.end, "expired")

    def recall(self, request_id: str, asked: Asked) -> StepResult | None:
        """The answer that this request id already got, if it is still kept.

        Raises:
            BadRequest: the id was used for something else.
        """
        known = self._answers.get(request_id)
        if known is None:
            return None
        if known[0] != asked:
            raise BadRequest(f"request id {request_id!r} was already used for another step; use a new id for each step")
        return known[1]

    def remember(self, request_id: str, asked: Asked, answer: StepResult) -> None:
        """Keep an answer for a repetition of its request id."""
        self._answers[request_id] = (asked, answer)
        while len(self._answers) > ANSWERS:
            self._answers.popitem(last=False)

    async def call(self, what: str, work: Coroutine[Any, Any, T], *, limit_s: float, effect: bool) -> T:
        """Run one call on the desktop; the caller holds `lock`.

        Args:
            what: the call's name, for messages.
            limit_s: the call is given up after this long, whatever the desktop makes of its own deadline.
            effect: whether it may change the desktop; if its fate becomes unknown, the lease ends.

        Raises:
            LeaseExpired: the lease ended during the call.
            DeadlineExceeded: no answer in time; of phase `unknown` if it may have had an effect.
            DesktopError: as the desktop raised it.
        """
        task: asyncio.Task[T] = asyncio.create_task(work, name=f"{what} on {self.desktop.id}")
        self._running = task
        try:
            await asyncio.wait({task}, timeout=limit_s)
        except asyncio.CancelledError:
            try:
                await _stop(task)
            finally:
                if not task.done() or (effect and not _succeeded(task)):
                    self.end("cancelled")
            raise
        late = not task.done()
        if late:
            await _stop(task)
        if late and self.over is None and (task.cancelled() or not task.done()):
            if effect or not task.done():
                self.end("DeadlineExceeded")
            raise DeadlineExceeded(f"{what} gave no answer within {limit_s:.1f} s", phase=_phase(effect))
        return self._outcome(what, task, effect)

    def _outcome(self, what: str, task: asyncio.Task[T], effect: bool) -> T:
        if self.over is not None and not _succeeded(task):
            message = f"the lease of {self.desktop.id} ended ({self.over}) during {what}"
            raise LeaseExpired(message, phase=_phase(effect))
        try:
            return task.result()
        except (Unavailable, LeaseExpired):
            raise
        except DeadlineExceeded as error:
            if effect:
                error.phase = "unknown"
                self.end("DeadlineExceeded")
            raise
        except DesktopError as error:
            self.end(type(error).__name__)
            raise
        except (SandboxError, FileNotFoundError):
            raise  # answers: the desktop refused and is as it was
        except (Exception, asyncio.CancelledError) as error:  # a fault of the backend, whose effects nobody knows
            self.end("ProbeLost")
            raise ProbeLost(f"{what} on {self.desktop.id} broke down: {error!r}") from error

    async def stop(self) -> None:
        """Cancel the call in flight, if any, and wait a bounded time for it to give way."""
        if self._running is not None and not self._running.done():
            await _stop(self._running)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to one desktop, for its holder."""

    epoch: int
    """Higher than any epoch the hub gave before."""
    desktop: Desktop
    """Refuses every call once the lease is over or its epoch is not the newest."""
    holding: Holding
    """The hub's side."""

    @property
    def id(self) -> str:
        """Names the lease; the desktop's id, because a desktop is lent once."""
        return self.desktop.id

    @property
    def over(self) -> str | None:
        """Why the right is over; None while it lasts."""
        if self.holding.over is None and self.epoch != self.holding.epoch:
            return "newer epoch"
        return self.holding.over

    @property
    def expires_in_s(self) -> float:
        """Seconds until it ends unless renewed; 0 once over."""
        if self.over is not None:
            return 0.0
        return max(0.0, self.holding.expires_at - asyncio.get_running_loop().time())


async def _stop(task: asyncio.Task[Any]) -> None:
    task.add_done_callback(_seen)
    task.cancel()
    await asyncio.wait({task}, timeout=STOP_S)


def _seen(task: asyncio.Task[Any]) -> None:
    """Take note of how a call ended whose caller has been answered already, so that asyncio does not complain."""
    if not task.cancelled():
        task.exception()


def _phase(effect: bool) -> Phase:
    return "unknown" if effect else "infra"


def _succeeded(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
