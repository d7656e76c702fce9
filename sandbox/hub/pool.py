"""Who gets the next desktop, and which desktop is booted next.

One synchronous function, `Pool.dispatch`, decides everything; it runs after every event (a worker asks or leaves, a
boot ends, a desktop is gone, time passed). asyncio runs it without interruption, so its invariants hold between events:

* live desktops (booting, ready, leased, and retired until destroyed) never exceed `capacity`;
* at most `boots_at_once` of them are booting;
* waiters are served by priority, then in the order they came; a waiter takes a ready desktop of its spec, else one is
  booted for it, if need be in the place of an idle desktop of another spec;
* no boot starts that the machine cannot take (`admission`), and the queue keeps its order meanwhile;
* only when no waiter lacks a place are `warm` desktops kept ready for each spec that was asked for, the newest first.

Trade-off accepted: a boot whose waiter left goes on and stays ready for the next one, until `max_age_s` or until its
place is needed. So a worker whose deadline is shorter than a boot succeeds when it asks again.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
from collections import Counter
from collections.abc import Iterable

from sandbox.desktop import Backend, DesktopSpec
from sandbox.errors import BadRequest, BootFailed, DeadlineExceeded, ImageError, LeaseExpired, MissingRequirement
from sandbox.hub.admission import Admission
from sandbox.hub.metrics import Metrics
from sandbox.hub.slots import Slot, Slots, State, Waiter

__all__ = ["Pool"]

ATTEMPTS = 3
ADMISSION_S = 0.5
"""Time between two questions whether an overloaded machine can take a boot now."""
CLOSED = "the hub is closed; no desktop was lent"


class Pool:
    """The desktops of a hub and the queue for them; the arguments are `Hub`'s."""

    def __init__(
        self,
        backend: Backend,
        *,
        capacity: int,
        warm: int,
        specs: Iterable[DesktopSpec],
        boots_at_once: int,
        max_age_s: float,
        boot_s: float,
        close_s: float,
        metrics: Metrics,
        admission: Admission | None = None,
    ) -> None:
        self.waiters: list[Waiter] = []
        self.slots = Slots(
            backend,
            boot_s=boot_s,
            close_s=close_s,
            metrics=metrics,
            changed=self.dispatch,
            failed=self._boot_failed,
        )
        self._capacity = capacity
        self._warm = warm
        self._boots_at_once = boots_at_once
        self._admission = admission
        self._metrics = metrics
        self._asking_again: asyncio.TimerHandle | None = None
        self.held_back: str | None = None  # why the machine can take no boot now
        self._max_age_s = max_age_s
        self._stopped = False
        self._order = itertools.count()
        self._asked = dict.fromkeys(specs)  # an ordered set, the spec asked for last at the end
        self._resting: set[DesktopSpec] = set()  # specs that failed to boot; kept warm again from the next tick on

    def start(self, group: asyncio.TaskGroup) -> None:
        """Begin to boot, as tasks of this group."""
        self.slots.start(group)
        self.dispatch()

    async def take(self, spec: DesktopSpec, *, priority: int, deadline_s: float) -> Slot:
        """Wait for a desktop of this spec; the LEASED slot is the caller's, who gives it a holding before any await.

        Raises:
            SandboxError: as for `Hub.acquire`.
        """
        self._asked.pop(spec, None)
        self._asked[spec] = None
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        waiter = Waiter(spec=spec, rank=(-priority, next(self._order)), future=future)
        try:
            async with asyncio.timeout(deadline_s):
                return await self._wait(waiter)
        except TimeoutError:
            self._withdraw(waiter)
            raise self._late(waiter, deadline_s) from (waiter.failures[-1] if waiter.failures else None)
        except BaseException:
            self._withdraw(waiter)
            raise

    def dispatch(self) -> None:
        """Give ready desktops to waiters, then start the boots that are due."""
        self.waiters = [waiter for waiter in self.waiters if not waiter.future.done()]  # some were cancelled just now
        ready = [slot for slot in self.slots.all if slot.state is State.READY and not self._stale(slot)]
        ready.sort(key=lambda slot: slot.since)
        for waiter in list(self.waiters) if ready else ():
            slot = next((slot for slot in ready if slot.spec == waiter.spec), None)
            if slot is not None:
                ready.remove(slot)
                self.waiters.remove(waiter)
                self.slots.enter(slot, State.LEASED)
                waiter.future.set_result(slot)
        self.held_back = None
        if self.slots.running and self._boot_for_waiters():
            self._keep_warm()
        self._metrics.held_back.set(int(self.held_back is not None), asyncio.get_running_loop().time())

    def tick(self) -> None:
        """Do what only time brings about: age, illness, second tries."""
        self._resting.clear()
        for slot in self.slots.all:
            if slot.state is State.READY and self._stale(slot):
                self.slots.retire(slot, "age")
            elif slot.state is State.READY and self.slots.running:
                self.slots.check(slot)
        self.slots.retry()
        self.dispatch()

    def stop(self, *, destroy: bool) -> None:
        """Refuse all waiters and end all leases; `destroy` as for `Slots.stop`."""
        self._stopped = True
        self._refuse(list(self.waiters), LeaseExpired(CLOSED))
        self.slots.stop(destroy=destroy)

    async def _wait(self, waiter: Waiter) -> Slot:
        while not self._stopped:
            bisect.insort(self.waiters, waiter, key=lambda other: other.rank)
            self.dispatch()
            slot = await waiter.future
            illness = await slot.illness() if slot.stood else None
            if illness is None and slot.state is State.LEASED:
                return slot
            self.slots.retire(slot, illness or "unhealthy")
            waiter.future = asyncio.get_running_loop().create_future()
        raise LeaseExpired(CLOSED)

    def _withdraw(self, waiter: Waiter) -> None:
        """The worker gave up; a desktop that it was just given is thrown away."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)
        future = waiter.future
        if future.done() and not future.cancelled() and future.exception() is None:
            self.slots.retire(future.result(), "unclaimed")
        self.dispatch()

    def _late(self, waiter: Waiter, deadline_s: float) -> DeadlineExceeded:
        counts = ", ".join(f"{state.value} {self.slots.count(state)}" for state in State)
        message = (
            f"no desktop became free within {deadline_s} s: capacity {self._capacity}, {counts}, others waiting "
            f"{len(self.waiters)}. Wait longer, or raise the hub's capacity"
        )
        if self.held_back is not None:
            message += f". No boot starts now: {self.held_back}"
        if waiter.failures:
            message += f". Boots failed meanwhile, the last one: {waiter.failures[-1]}"
        return DeadlineExceeded(message)

    def _boot_for_waiters(self) -> bool:
        """Start what the waiters need; False if there was no place or no boot to spare for one of them."""
        booting = Counter(slot.spec for slot in self.slots.all if slot.state is State.BOOTING)
        leaving = self.slots.leaving()
        for waiter in self.waiters:
            if booting[waiter.spec] > 0:
                booting[waiter.spec] -= 1
            elif self._may_boot():
                self.slots.boot(waiter.spec, waiter)
            elif self.held_back is not None or self.slots.count(State.BOOTING) >= self._boots_at_once:
                return False
            elif leaving > 0:
                leaving -= 1
            elif not self._evict():
                return False
        return True

    def _keep_warm(self) -> None:
        waiting = Counter(waiter.spec for waiter in self.waiters)
        booting = Counter(slot.spec for slot in self.slots.all if slot.state is State.BOOTING)
        for spec in reversed(self._asked):
            spare = len(self.slots.ready(spec)) + booting[spec] - waiting[spec]
            while spare < self._warm and spec not in self._resting and self._may_boot():
                self.slots.boot(spec, None)
                spare += 1

    def _may_boot(self) -> bool:
        booting = self.slots.count(State.BOOTING)
        return len(self.slots.all) < self._capacity and booting < self._boots_at_once and self._is_admitted(booting)

    def _is_admitted(self, booting: int) -> bool:
        """Whether the machine can take one more boot; if not, it is asked again in a moment."""
        if self._admission is not None:
            self.held_back = self._admission.refusal(booting=booting)
        if self.held_back is not None and self._asking_again is None:
            self._asking_again = asyncio.get_running_loop().call_later(ADMISSION_S, self._ask_again)
        return self.held_back is None

    def _ask_again(self) -> None:
        self._asking_again = None
        self.dispatch()

    def _evict(self) -> bool:
        idle = [slot for slot in self.slots.all if slot.state is State.READY]
        if idle:
            self.slots.retire(min(idle, key=lambda slot: slot.since), "evicted")
        return bool(idle)

    def _boot_failed(self, slot: Slot, error: Exception) -> None:
        """Refuse whom the failure concerns: all of the spec if it would fail again, else one that failed too often."""
        self._resting.add(slot.spec)
        concerned = [waiter for waiter in self.waiters if waiter.spec == slot.spec]
        if isinstance(error, (MissingRequirement, ImageError, BadRequest)):
            self._refuse(concerned, error)
            return
        waiter = slot.waiter
        if waiter not in concerned:  # it got a desktop that was booted for another, or left
            waiter = next(iter(concerned), None)
        if waiter is None:
            return
        waiter.failures.append(error)
        if len(waiter.failures) >= ATTEMPTS:
            causes = "; ".join(str(failure) or repr(failure) for failure in waiter.failures)
            failed = BootFailed(f"no desktop of profile {slot.spec.profile!r} after {ATTEMPTS} boots: {causes}")
            failed.__cause__ = error
            self._refuse([waiter], failed)

    def _refuse(self, waiters: list[Waiter], error: Exception) -> None:
        for waiter in waiters:
            self.waiters.remove(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(error)

    def _stale(self, slot: Slot) -> bool:
        return asyncio.get_running_loop().time() - slot.since >= self._max_age_s
