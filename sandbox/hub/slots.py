"""The life of each desktop: booting it, and destroying it whatever happens.

A slot is one place of the hub's capacity. It exists from the start of a boot until the desktop is known to be
destroyed, so the number of slots bounds the number of live desktops. A desktop that cannot be destroyed keeps its slot,
and the destruction is tried again at every tick: the hub rather stalls, visibly in `retiring`, than runs more desktops
than it may.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from sandbox.desktop import Backend, Desktop, DesktopSpec
from sandbox.errors import BootFailed
from sandbox.hub.lease import Holding
from sandbox.hub.metrics import Metrics
from sandbox.hub.watch import MemoryWatch

__all__ = ["Slot", "Slots", "State", "Waiter"]

BOOT_GRACE_S = 5.0  # a backend keeps its own deadline; only one that fails to is cut off from outside
CHECK_S = 5.0

log = logging.getLogger(__name__)


class State(Enum):
    """Where a desktop is in its life; before BOOTING it is COLD, a free place in the capacity."""

    BOOTING = "booting"
    READY = "ready"
    LEASED = "leased"
    RETIRED = "retired"


@dataclass(kw_only=True, slots=True, eq=False)
class Waiter:
    """A worker that waits for a desktop."""

    spec: DesktopSpec
    rank: tuple[int, int]
    """Minus the priority, then the order of asking; lowest first."""
    future: asyncio.Future[Slot]
    """Becomes a LEASED slot, or the reason why there is none."""
    failures: list[Exception] = field(default_factory=list)
    """Boots that failed for it."""


@dataclass(kw_only=True, slots=True, eq=False)
class Slot:
    """One place of the capacity and the desktop in it."""

    spec: DesktopSpec
    state: State
    since: float
    """Loop time at which it became what it is."""
    waiter: Waiter | None
    """Whom it was booted for; another may get it."""
    desktop: Desktop | None = None
    """None while booting."""
    stood: bool = False
    """It stood ready for a while, so it may have died unseen."""
    holding: Holding | None = None
    memory: MemoryWatch = field(default_factory=MemoryWatch)
    task: asyncio.Task[None] | None = None
    """Its boot or its destruction, while that runs."""

    async def illness(self) -> str | None:
        """Why the desktop is of no use any more; None if it says within `CHECK_S` that it is alive."""
        assert self.desktop is not None
        try:
            async with asyncio.timeout(CHECK_S):
                health = await self.desktop.health()
        except Exception:  # noqa: BLE001 - whatever keeps it from saying that it is well, it is not
            return "unhealthy"
        if not health.alive:
            return "unhealthy"
        return "memory" if self.memory.swollen(health) else None


class Slots:
    """All slots of a hub. `start` gives it the task group that boots and destructions belong to.

    Args:
        boot_s: deadline of one boot.
        close_s: bound on one destruction.
        changed: called after a desktop became ready, failed to, or is gone.
        failed: called before that with the slot whose boot failed and the reason.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        boot_s: float,
        close_s: float,
        metrics: Metrics,
        changed: Callable[[], None],
        failed: Callable[[Slot, Exception], None],
    ) -> None:
        self.all: list[Slot] = []
        self._backend = backend
        self._boot_s = boot_s
        self._close_s = close_s
        self._metrics = metrics
        self._changed = changed
        self._failed = failed
        self._group: asyncio.TaskGroup | None = None
        self._stopped = False

    def start(self, group: asyncio.TaskGroup) -> None:
        """Allow boots."""
        self._group = group

    @property
    def running(self) -> bool:
        """Whether the hub is running: started and not stopped."""
        return self._group is not None and not self._stopped

    def count(self, state: State) -> int:
        """How many slots are in this state."""
        return sum(slot.state is state for slot in self.all)

    def ready(self, spec: DesktopSpec) -> list[Slot]:
        """The slots of this spec that wait for a lease."""
        return [slot for slot in self.all if slot.state is State.READY and slot.spec == spec]

    def names(self) -> list[str]:
        """Ids of the desktops that are not destroyed."""
        return [slot.desktop.id for slot in self.all if slot.desktop is not None]

    def boot(self, spec: DesktopSpec, waiter: Waiter | None) -> None:
        """Start a desktop."""
        assert self._group is not None
        now = asyncio.get_running_loop().time()
        slot = Slot(spec=spec, state=State.BOOTING, since=now, waiter=waiter)
        self.all.append(slot)
        slot.task = self._group.create_task(self._boot(slot))

    def enter(self, slot: Slot, state: State) -> None:
        """Move a slot to a state."""
        slot.state, slot.since = state, asyncio.get_running_loop().time()
        self._metrics.lent.set(self.count(State.LEASED), slot.since)

    def retire(self, slot: Slot, reason: str) -> None:
        """End a slot's lease and destroy its desktop in the background; later calls change nothing."""
        if slot.state is State.RETIRED:
            return
        self.enter(slot, State.RETIRED)
        self._metrics.retired[reason] += 1
        log.info("desktop %s retired: %s", slot.desktop and slot.desktop.id, reason)
        if slot.holding is not None:
            slot.holding.end(reason)
        slot.task = None
        self._start_destroying(slot)

    def leaving(self) -> int:
        """How many desktops are being destroyed at this moment."""
        return sum(slot.state is State.RETIRED and slot.task is not None for slot in self.all)

    def check(self, slot: Slot) -> None:
        """Look at a desktop that waits for a lease, in the background; retire it if it is of no use any more."""
        assert self._group is not None
        self._group.create_task(self._check(slot))

    def retry(self) -> None:
        """Try again to destroy what would not go."""
        for slot in self.all:
            if slot.state is State.RETIRED and slot.task is None:
                self._start_destroying(slot)

    def stop(self, *, destroy: bool) -> None:
        """Cancel all boots, end all leases and destroy everything; nothing boots from here on.

        Args:
            destroy: False when the task group is gone and the backend has to destroy the desktops.
        """
        self._stopped = True
        if not destroy:
            self._group = None
        self.retry()
        for slot in list(self.all):
            if slot.state is not State.BOOTING:
                self.retire(slot, "hub closed")
            elif slot.task is not None:
                slot.task.cancel()

    async def _boot(self, slot: Slot) -> None:
        try:
            async with asyncio.timeout(self._boot_s + BOOT_GRACE_S):
                slot.desktop = await self._backend.boot(slot.spec, deadline_s=self._boot_s)
        except TimeoutError:
            self._boot_failed(slot, BootFailed(f"the boot did not end within {self._boot_s} s"))
        except Exception as error:  # noqa: BLE001 - whatever made the boot fail, a worker waits for the answer
            self._boot_failed(slot, error)
        except asyncio.CancelledError:
            self.all.remove(slot)
            raise
        else:
            self._metrics.boots += 1
            self._metrics.boot.add(asyncio.get_running_loop().time() - slot.since)
            self.enter(slot, State.READY)
            if self._stopped:  # the backend finished although it was cancelled
                self.retire(slot, "hub closed")
        self._changed()
        slot.stood = slot.state is State.READY

    async def _check(self, slot: Slot) -> None:
        illness = await slot.illness()
        if illness is not None and slot.state is State.READY:
            self.retire(slot, illness)

    def _boot_failed(self, slot: Slot, error: Exception) -> None:
        self.all.remove(slot)
        self._metrics.boot_failures += 1
        log.warning("boot of a %s desktop failed: %r", slot.spec.profile, error)
        self._failed(slot, error)

    def _start_destroying(self, slot: Slot) -> None:
        if self._group is not None:
            slot.task = self._group.create_task(self._destroy(slot))

    async def _destroy(self, slot: Slot) -> None:
        assert slot.desktop is not None
        if slot.holding is not None:
            await slot.holding.stop()
        try:
            async with asyncio.timeout(self._close_s):
                await slot.desktop.close()
        except Exception as error:  # noqa: BLE001 - the desktop may live on: keep its slot, try again at the next tick
            slot.task = None
            log.error("desktop %s not destroyed: %r", slot.desktop.id, error)
            return
        self.all.remove(slot)
        self._changed()
