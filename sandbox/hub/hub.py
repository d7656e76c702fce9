"""The shared interaction probe of a host: it owns the desktops and lends them to many workers.

::

    async with Hub(backend, capacity=8, warm=2) as hub:
        async with hub.lease(spec) as lease:
            await lease.desktop.step(actions)

    COLD --boot--> BOOTING --ready--> READY --lent--> LEASED --over--> RETIRED --destroyed--> COLD
                      `--failed: COLD, tried again       `--too old, or its place is needed--> RETIRED

A desktop is lent once. Reset is destroying it and booting a fresh one, never cleaning up, so nothing of one worker can
reach the next.

Guarantees, and who enforces them: desktops never exceed the capacity, boots never exceed `boots_at_once`, waiters are
served by priority and then in order (`pool`, `slots`); a lease that is over reaches no desktop, calls on a lease run
one at a time, an effect of unknown fate ends the lease (`lease`, `guard`); every task belongs to one task group that
`close` waits for, and `close` ends within a bound with every desktop destroyed (here). docs/design/hub.md has more.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType

from sandbox.desktop import Backend, DesktopSpec
from sandbox.errors import BadRequest, DesktopError, LeaseExpired
from sandbox.hub.admission import Admission
from sandbox.hub.guard import GuardedDesktop
from sandbox.hub.lease import STOP_S, Holding, Lease
from sandbox.hub.metrics import HubStats, Metrics
from sandbox.hub.pool import Pool
from sandbox.hub.slots import State

__all__ = ["Hub"]

REAP_S = 60.0

log = logging.getLogger(__name__)


class Hub:
    """Lends desktops. Opens once, closes once.

    Args:
        capacity: most desktops that live at once.
        warm: desktops kept ready for each spec that was asked for, as far as the capacity allows.
        specs: specs that count as asked for from the start.
        boots_at_once: None takes the number of cores this process may use.
        lease_ttl_s: how long a lease lasts unless it asks otherwise.
        max_age_s: a desktop that stood ready this long is replaced, and no renewal lets a lease last longer.
        reap_every_s: time between rounds of upkeep: orphans, age, desktops that would not go.
        boot_s: deadline of one boot.
        close_s: bound on destroying one desktop.
        close_backend: the hub owns its backend and closes it at its end. False where others use the backend as well.
        admission: whether the machine can take another boot; None asks nobody. See `sandbox.hub.admission`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        capacity: int,
        warm: int = 0,
        specs: Sequence[DesktopSpec] = (),
        boots_at_once: int | None = None,
        lease_ttl_s: float = 900.0,
        max_age_s: float = 3600.0,
        reap_every_s: float = 30.0,
        boot_s: float = 60.0,
        close_s: float = 20.0,
        close_backend: bool = True,
        admission: Admission | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        if boots_at_once is None:
            boots_at_once = len(os.sched_getaffinity(0))
        if capacity < 1 or boots_at_once < 1 or warm < 0:
            given = f"{capacity}, {boots_at_once} and {warm}"
            raise BadRequest(f"capacity and boots_at_once must be at least 1 and warm at least 0, not {given}")
        if min(lease_ttl_s, max_age_s, reap_every_s, boot_s, close_s) <= 0 or lease_ttl_s > max_age_s:
            raise BadRequest("every time must be above 0 s, and lease_ttl_s not above max_age_s")
        self._backend = backend
        self._capacity = capacity
        self._lease_ttl_s = lease_ttl_s
        self._max_age_s = max_age_s
        self._reap_every_s = reap_every_s
        self._close_s = close_s
        self._close_backend = close_backend
        self._metrics = metrics or Metrics()
        self._pool = Pool(
            backend,
            capacity=capacity,
            warm=warm,
            specs=specs,
            boots_at_once=boots_at_once,
            max_age_s=max_age_s,
            boot_s=boot_s,
            close_s=close_s,
            metrics=self._metrics,
            admission=admission,
        )
        self._epochs = itertools.count(1)
        self._closing = asyncio.Event()
        self._main: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Hub:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Remove what dead owners left behind and begin to keep desktops ready.

        Raises:
            SandboxError: as the backend's `reap` raised it.
        """
        if self._main is not None:
            raise BadRequest("a hub opens once; make a new one")
        try:
            async with asyncio.timeout(REAP_S):
                self._metrics.reaped += len(await self._backend.reap())
        except TimeoutError:
            raise DesktopError(f"the backend did not remove the leftovers of dead owners within {REAP_S} s") from None
        self._metrics.lent.set(0, asyncio.get_running_loop().time())
        self._main = asyncio.create_task(self._run(), name="hub")

    async def close(self) -> None:
        """End all leases, refuse all waiters and destroy everything. Idempotent.

        It lasts at most four times `close_s` and 2 s.

        Raises:
            DesktopError: something would not be destroyed; the message names it.
        """
        if self._main is None:
            return
        self._closing.set()
        await asyncio.wait({self._main}, timeout=STOP_S + 3 * self._close_s)
        if not self._main.done():
            self._main.cancel()
            await asyncio.wait({self._main}, timeout=self._close_s)
            raise self._undestroyed()
        if not self._main.cancelled():
            self._main.result()

    @asynccontextmanager
    async def lease(
        self,
        spec: DesktopSpec | None = None,
        *,
        ttl_s: float | None = None,
        priority: int = 0,
        deadline_s: float = 120.0,
    ) -> AsyncIterator[Lease]:
        """Hold a desktop for the length of a block; arguments and errors as for `acquire`."""
        lease = await self.acquire(spec, ttl_s=ttl_s, priority=priority, deadline_s=deadline_s)
        try:
            yield lease
        finally:
            await self.release(lease)

    async def acquire(
        self,
        spec: DesktopSpec | None = None,
        *,
        ttl_s: float | None = None,
        priority: int = 0,
        deadline_s: float = 120.0,
    ) -> Lease:
        """Wait for a fresh desktop and hold it until `release`, or until the lease expires.

        Args:
            spec: None asks for the default desktop.
            ttl_s: seconds the lease lasts; at most `max_age_s`.
            priority: higher is served first.
            deadline_s: seconds to wait at most.

        Raises:
            DeadlineExceeded: no desktop became free in time.
            BootFailed: several boots for this lease failed; the last one is the cause.
            MissingRequirement, ImageError: this machine cannot run such a desktop.
            LeaseExpired: the hub is closed or closes.
        """
        ttl_s = self._ttl(ttl_s)
        if self._main is None:
            raise BadRequest("the hub is not open; use `async with Hub(...) as hub`")
        if self._closing.is_set() or self._main.done():
            raise LeaseExpired("the hub is closed")
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        slot = await self._pool.take(spec or DesktopSpec(), priority=priority, deadline_s=deadline_s)
        now = loop.time()
        self._metrics.lease_wait.add(now - asked_at)
        assert slot.desktop is not None
        holding = slot.holding = Holding(
            desktop=slot.desktop,
            epoch=next(self._epochs),
            expires_at=now + ttl_s,
            latest_at=now + self._max_age_s,
            metrics=self._metrics,
            on_over=lambda reason: self._pool.slots.retire(slot, reason),
        )
        return self._lease(holding)

    async def release(self, lease: Lease) -> None:
        """Give a desktop back to be destroyed in the background. Idempotent; without effect under an older epoch."""
        if lease.epoch == lease.holding.epoch:
            lease.holding.end("released")

    async def renew(self, lease: Lease, *, ttl_s: float | None = None, fence: bool = False) -> Lease:
        """Let a lease last `ttl_s` from now, but never longer than `max_age_s` in all.

        Args:
            fence: give the lease a newer epoch, so that only the returned lease works from here on. For taking a lease
                over from a connection that may still have calls under way: no call of the older epoch begins after
                this, and one that is running has ended when it returns.

        Returns:
            the lease to use from now on (the same right, if `fence` is False).

        Raises:
            LeaseExpired: it is over already.
        """
        ttl_s = self._ttl(ttl_s)
        holding = lease.holding
        holding.check(lease.epoch)
        holding.extend(ttl_s)
        if not fence:
            return lease
        epoch = next(self._epochs)
        holding.fence(epoch)
        async with holding.lock:
            holding.check(epoch)
        return self._lease(holding)

    def stats(self) -> HubStats:
        """What the hub is and has done."""
        slots = self._pool.slots
        return self._metrics.snapshot(
            capacity=self._capacity,
            booting=slots.count(State.BOOTING),
            ready=slots.count(State.READY),
            leased=slots.count(State.LEASED),
            retiring=slots.count(State.RETIRED),
            waiting=len(self._pool.waiters),
            held_back=self._pool.held_back,
            now=asyncio.get_running_loop().time(),
        )

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                upkeep = group.create_task(self._upkeep())
                self._pool.start(group)
                try:
                    await self._closing.wait()
                except asyncio.CancelledError:  # the group dies with this task; leave the rest to the backend
                    self._pool.stop(destroy=False)
                    raise
                upkeep.cancel()
                self._pool.stop(destroy=True)
        finally:
            self._pool.stop(destroy=False)
            if self._close_backend:
                await self._end_backend()
        if self._pool.slots.names():
            raise self._undestroyed()

    async def _end_backend(self) -> None:
        try:
            async with asyncio.timeout(self._close_s):
                await self._backend.close()
        except TimeoutError:
            raise self._undestroyed() from None
        self._pool.slots.all.clear()

    def _undestroyed(self) -> DesktopError:
        return DesktopError(f"the hub did not close within its bound; perhaps still alive: {self._pool.slots.names()}")

    async def _upkeep(self) -> None:
        while True:
            await asyncio.sleep(self._reap_every_s)
            try:
                async with asyncio.timeout(REAP_S):
                    self._metrics.reaped += len(await self._backend.reap())
            except Exception as error:  # noqa: BLE001 - orphans can wait for the next round; the live desktops cannot
                log.warning("reaping failed: %r", error)
            self._pool.tick()

    def _ttl(self, ttl_s: float | None) -> float:
        ttl_s = self._lease_ttl_s if ttl_s is None else ttl_s
        if not 0 < ttl_s <= self._max_age_s:
            raise BadRequest(f"a lease can last up to max_age_s = {self._max_age_s} s, not {ttl_s} s")
        return ttl_s

    def _lease(self, holding: Holding) -> Lease:
        return Lease(epoch=holding.epoch, desktop=GuardedDesktop(holding, holding.epoch), holding=holding)
