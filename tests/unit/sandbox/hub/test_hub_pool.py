"""The hub's desktops: who gets one, when they boot, and that nothing is ever left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandbox.actions import TypeText
from sandbox.desktop import DesktopSpec, Health
from sandbox.errors import (
    BadRequest,
    BootFailed,
    DeadlineExceeded,
    DesktopError,
    ImageError,
    LeaseExpired,
    MissingRequirement,
)
from sandbox.hub import Hub
from tests.support.desktop import FakeBackend, FakeDesktop
from tests.support.virtual_time import run_virtual

SPEC = DesktopSpec(width=160, height=120)
OTHER = DesktopSpec(width=160, height=121)
THIRD = DesktopSpec(width=160, height=122)


class SlowBackend(FakeBackend):
    """Boots and closes take a second each; `close` leaves the desktops as they are, so that leaks show."""

    def __init__(self) -> None:
        super().__init__(make=lambda spec: SlowDesktop(spec=spec))
        self.booting = 0
        self.most_booting = 0
        self.orphans: list[list[str]] = []

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> FakeDesktop:
        self.booting += 1
        self.most_booting = max(self.most_booting, self.booting)
        try:
            await asyncio.sleep(1)
            return await super().boot(spec, deadline_s=deadline_s)
        finally:
            self.booting -= 1

    async def reap(self) -> list[str]:
        await super().reap()
        return self.orphans.pop() if self.orphans else []

    async def close(self) -> None:
        await self._enter("close")


class SlowDesktop(FakeDesktop):
    async def close(self) -> None:
        await asyncio.sleep(1)
        await super().close()


def on_hub(test: Callable[[Hub, SlowBackend], Awaitable[None]], **options: Any) -> SlowBackend:
    """Run a test inside an open hub on virtual time; afterwards every desktop must be gone."""
    backend = SlowBackend()

    async def main() -> None:
        async with Hub(backend, **{"capacity": 2, "boots_at_once": 2, **options}) as hub:
            await test(hub, backend)

    run_virtual(main())
    assert backend.open_desktops == []
    assert backend.booting == 0
    return backend


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_waiter_gets_the_next_place_and_a_desktop_being_destroyed_still_counts() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        first = await hub.acquire(SPEC)
        assert now() == 1
        second = asyncio.create_task(hub.acquire(SPEC))
        await asyncio.sleep(10)
        assert hub.stats().waiting == 1
        await hub.release(first)
        assert hub.stats().retiring == 1
        await second
        assert now() == 13  # released at 11, destroyed at 12, booted at 13

    on_hub(test, capacity=1)


def test_boots_at_once_bounds_boots() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.gather(*(hub.acquire(SPEC) for _ in range(6)))
        assert now() == 3

    assert on_hub(test, capacity=6, boots_at_once=2).most_booting == 2


def test_waiters_are_served_by_priority_then_in_order() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        served: list[str] = []

        async def worker(name: str, priority: int) -> None:
            async with hub.lease(SPEC, priority=priority):
                served.append(name)

        first = await hub.acquire(SPEC)
        async with asyncio.TaskGroup() as group:
            for name, priority in (("d", 0), ("b", 5), ("e", 0), ("c", 5), ("f", -1)):
                group.create_task(worker(name, priority))
            await asyncio.sleep(1)
            group.create_task(worker("a", 9))
            await hub.release(first)
        assert served == ["a", "b", "c", "d", "e", "f"]

    on_hub(test, capacity=1)


def test_an_idle_desktop_of_another_spec_makes_room() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.sleep(5)
        assert hub.stats().ready == 1
        async with hub.lease(OTHER) as lease:
            assert lease.desktop.spec == OTHER
        assert hub.stats().retired["evicted"] == 1

    on_hub(test, capacity=1, warm=1, specs=[SPEC])


def test_no_more_is_evicted_than_the_waiters_need() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.sleep(5)
        assert hub.stats().ready == 4
        await asyncio.gather(hub.acquire(OTHER), hub.acquire(OTHER))
        assert hub.stats().retired == {"evicted": 2}

    on_hub(test, capacity=4, warm=4, specs=[SPEC])


def test_warm_desktops_are_refilled_behind_the_lease() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.sleep(5)
        assert (hub.stats().ready, len(backend.booted)) == (2, 2)
        began = now()
        async with hub.lease(SPEC):
            assert now() == began  # no boot to wait for
            await asyncio.sleep(5)
            assert (hub.stats().ready, hub.stats().leased) == (2, 1)

    on_hub(test, capacity=4, warm=2, specs=[SPEC])


def test_a_spec_becomes_warm_by_being_asked_for() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.sleep(5)
        assert backend.booted == []
        async with hub.lease(SPEC):
            await asyncio.sleep(5)
            assert hub.stats().ready == 1

    on_hub(test, warm=1)


def test_a_failing_warm_boot_rests_until_the_next_tick() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        for nth in (1, 2):
            backend.fail("boot", BootFailed("no"), nth=nth)
        await asyncio.sleep(9)
        assert hub.stats().boot_failures == 1
        await asyncio.sleep(20)
        assert (hub.stats().boot_failures, hub.stats().ready) == (2, 1)

    on_hub(test, warm=1, specs=[SPEC], reap_every_s=10)


def test_a_desktop_that_stood_ready_too_long_is_not_lent() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.sleep(100)
        lease = await hub.acquire(SPEC)
        assert lease.id != backend.booted[0].id
        await asyncio.sleep(200)
        assert hub.stats().retired["age"] >= 2

    on_hub(test, warm=1, specs=[SPEC], max_age_s=95, lease_ttl_s=90, reap_every_s=60)


@pytest.mark.parametrize("how", ["dead", "raises", "silent"])
def test_a_desktop_that_died_while_it_stood_ready_is_not_lent(how: str) -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.sleep(5)
        stale = backend.booted[0]
        if how == "dead":
            stale.closed = True
        elif how == "raises":
            stale.fail("health", RuntimeError("bug"))
        else:
            stale.hang("health")
        lease = await hub.acquire(SPEC)
        assert lease.id != stale.id
        assert hub.stats().retired == {"unhealthy": 1}

    on_hub(test, capacity=1, warm=1, specs=[SPEC])


def test_a_failed_boot_is_tried_again() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        backend.fail("boot", BootFailed("no"), nth=1)
        backend.fail("boot", RuntimeError("bug"), nth=2)
        await hub.acquire(SPEC)
        assert (hub.stats().boots, hub.stats().boot_failures) == (1, 2)

    on_hub(test)


def test_after_three_failed_boots_the_waiter_is_told_why_and_the_next_one_is_served() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        for nth, cause in ((1, "first"), (2, "second"), (3, "third")):
            backend.fail("boot", BootFailed(cause), nth=nth)
        results = await asyncio.gather(hub.acquire(SPEC), hub.acquire(SPEC), return_exceptions=True)
        assert isinstance(results[0], BootFailed)
        assert "first; second; third" in str(results[0])
        assert str(results[0].__cause__) == "third"
        assert not isinstance(results[1], BaseException)

    on_hub(test, capacity=1)


def test_a_failed_boot_counts_against_the_waiter_it_was_for() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        backend.hang("boot", nth=1)
        for nth in (2, 3, 4):
            backend.fail("boot", BootFailed("no"), nth=nth)
        first, second = await asyncio.gather(hub.acquire(SPEC), hub.acquire(SPEC), return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert isinstance(second, BootFailed)

    on_hub(test, boot_s=10)


@pytest.mark.parametrize("error", [MissingRequirement("no bwrap", fix="install it"), ImageError("no image")])
def test_what_would_fail_again_is_told_at_once_to_all_who_wait_for_it(error: Exception) -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        backend.fail("boot", error, nth=1)
        results = await asyncio.gather(hub.acquire(SPEC), hub.acquire(OTHER), hub.acquire(SPEC), return_exceptions=True)
        assert results[0] is error
        assert results[2] is error
        assert not isinstance(results[1], BaseException)

    on_hub(test, capacity=2, boots_at_once=1)


def test_a_boot_that_hangs_is_cut_off() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        backend.hang("boot", nth=1)
        await hub.acquire(SPEC)
        assert (hub.stats().boots, hub.stats().boot_failures) == (1, 1)

    on_hub(test, boot_s=10)


def test_a_waiter_that_leaves_loses_nothing_for_the_next() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        with pytest.raises(DeadlineExceeded, match=r"within 0\.5 s: capacity 1, booting 1.*raise the hub's capacity"):
            await hub.acquire(SPEC, deadline_s=0.5)
        waiter = asyncio.create_task(hub.acquire(SPEC))
        await asyncio.sleep(0.1)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        lease = await hub.acquire(SPEC)
        assert now() == pytest.approx(1)  # the boot that the first one started
        assert lease.id == backend.booted[0].id
        assert len(backend.booted) == 1

    on_hub(test, capacity=1)


def test_a_waiter_cancelled_while_its_boot_ends_is_passed_over() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        plain = backend.boot

        async def boot(spec: DesktopSpec, *, deadline_s: float = 60.0) -> FakeDesktop:
            desktop = await plain(spec, deadline_s=deadline_s)
            waiter.cancel()  # it has not run yet when the desktop becomes ready
            return desktop

        backend.boot = boot  # type: ignore[method-assign]
        waiter = asyncio.create_task(hub.acquire(SPEC))
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert (hub.stats().ready, hub.stats().waiting) == (1, 0)

    on_hub(test)


def test_the_deadline_error_names_the_boots_that_failed() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        backend.fail("boot", BootFailed("no X server"), nth=1)
        with pytest.raises(DeadlineExceeded, match="no X server"):
            await hub.acquire(SPEC, deadline_s=1.5)

    on_hub(test, capacity=1)


def test_a_desktop_given_to_a_worker_that_left_in_that_moment_is_destroyed() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        plain = backend.boot

        async def boot(spec: DesktopSpec, *, deadline_s: float = 60.0) -> FakeDesktop:
            desktop = await plain(spec, deadline_s=deadline_s)
            asyncio.get_running_loop().call_soon(waiter.cancel)  # runs after the desktop was given to the waiter
            return desktop

        backend.boot = boot  # type: ignore[method-assign]
        waiter = asyncio.create_task(hub.acquire(SPEC))
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert hub.stats().retired == {"unclaimed": 1}

    on_hub(test)


def test_a_desktop_that_will_not_go_keeps_its_place_until_it_does() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        first = await hub.acquire(SPEC)
        backend.booted[0].fail("close", DesktopError("busy"), nth=1)
        backend.booted[0].hang("close", nth=2)
        await hub.release(first)
        with pytest.raises(DeadlineExceeded, match="retired 1"):
            await hub.acquire(SPEC, deadline_s=5)
        assert len(backend.booted) == 1
        await hub.acquire(SPEC, deadline_s=60)
        assert len(backend.booted[0].calls("close")) == 3

    on_hub(test, capacity=1, reap_every_s=10, close_s=5)


def test_a_place_that_a_stuck_desktop_keeps_is_not_waited_for() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        stuck = await hub.acquire(SPEC)
        await asyncio.sleep(5)  # another one of the spec becomes ready behind it
        backend.booted[0].fail("close", DesktopError("busy"), nth=1)
        await hub.release(stuck)
        await asyncio.sleep(5)
        assert (hub.stats().ready, hub.stats().retiring) == (1, 1)
        await hub.acquire(OTHER, deadline_s=5)

    on_hub(test, capacity=2, warm=1)


def test_orphans_are_removed_at_the_start_and_by_the_timer_even_after_it_failed() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        assert hub.stats().reaped == 2
        backend.fail("reap", RuntimeError("bug"), nth=2)
        backend.orphans.append(["c"])
        await asyncio.sleep(15)
        assert hub.stats().reaped == 2
        await asyncio.sleep(10)
        assert hub.stats().reaped == 3

    backend = SlowBackend()
    backend.orphans.append(["a", "b"])

    async def main() -> None:
        async with Hub(backend, capacity=1, reap_every_s=10) as hub:
            await test(hub, backend)

    run_virtual(main())


def test_opening_tells_what_the_machine_lacks() -> None:
    async def main() -> None:
        backend = FakeBackend()
        backend.fail("reap", MissingRequirement("no root", fix="run it as root"))
        with pytest.raises(MissingRequirement, match="run it as root"):
            await Hub(backend, capacity=1).open()

    run_virtual(main())


def test_closing_refuses_waiters_ends_leases_and_stops_boots() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        lease = await hub.acquire(SPEC)
        backend.booted[0].hang("step")
        acting = asyncio.create_task(lease.desktop.step((TypeText(text="x"),)))
        booting = asyncio.create_task(hub.acquire(SPEC))
        queued = asyncio.create_task(hub.acquire(SPEC))
        await asyncio.sleep(0.5)
        await asyncio.gather(hub.close(), hub.close())
        await hub.close()
        for task in (acting, booting, queued):
            with pytest.raises(LeaseExpired):
                await task
        assert lease.over == "hub closed"
        with pytest.raises(LeaseExpired, match="closed"):
            await hub.acquire(SPEC)
        await hub.release(lease)
        stats = hub.stats()
        assert (stats.leased, stats.ready, stats.booting, stats.retiring, stats.waiting) == (0, 0, 0, 0, 0)

    backend = on_hub(test)
    assert len(backend.calls("close")) == 1


def test_closing_does_not_wait_for_boots() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        backend.hang("boot")
        waiter = asyncio.create_task(hub.acquire(SPEC))
        await asyncio.sleep(5)
        await hub.close()
        assert now() == 5
        with pytest.raises(LeaseExpired):
            await waiter

    on_hub(test)


@pytest.mark.parametrize("answers", [True, False])
def test_a_desktop_that_is_being_looked_at_when_the_hub_closes_is_not_lent(answers: bool) -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        await asyncio.sleep(5)

        async def health() -> Health:
            await asyncio.sleep(4)
            return Health(alive=answers, detail={})

        backend.booted[0].health = health  # type: ignore[method-assign]
        waiter = asyncio.create_task(hub.acquire(SPEC))
        await asyncio.sleep(1)
        await hub.close()
        with pytest.raises(LeaseExpired):
            await waiter

    on_hub(test, warm=1, specs=[SPEC])


def test_closing_lasts_a_bounded_time_whatever_hangs() -> None:
    async def main() -> None:
        backend = SlowBackend()
        hub = Hub(backend, capacity=2, close_s=5)
        await hub.open()
        await hub.acquire(SPEC)
        backend.booted[0].hang("close")
        backend.hang("close")
        began = now()
        with pytest.raises(DesktopError, match=backend.booted[0].id):
            await hub.close()
        assert now() - began <= 22

    run_virtual(main())


def test_a_backend_that_others_use_is_left_open() -> None:
    async def main() -> None:
        backend = FakeBackend()
        theirs = await backend.boot(SPEC)
        async with Hub(backend, capacity=2, close_backend=False) as hub:
            await hub.acquire(SPEC)
        assert backend.open_desktops == [theirs]
        assert backend.calls("close") == []
        hub = Hub(backend, capacity=2, close_backend=False)
        await hub.open()
        await hub.acquire(SPEC)
        backend.booted[-1].fail("close", DesktopError("busy"))
        with pytest.raises(DesktopError, match="perhaps still alive"):
            await hub.close()

    run_virtual(main())


def test_closing_lasts_a_bounded_time_when_a_boot_ignores_its_cancellation() -> None:
    async def main() -> None:
        backend = SlowBackend()
        deaf = True

        async def boot(spec: DesktopSpec, *, deadline_s: float = 60.0) -> FakeDesktop:
            while deaf:
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    continue
            raise BootFailed("at last")

        backend.boot = boot  # type: ignore[method-assign]
        hub = Hub(backend, capacity=2, close_s=5)
        await hub.open()
        waiter = asyncio.create_task(hub.acquire(SPEC))
        await asyncio.sleep(1)
        began = now()
        with pytest.raises(DesktopError, match="did not close"):
            await hub.close()
        assert now() - began <= 22
        with pytest.raises(LeaseExpired):
            await waiter
        deaf = False
        await asyncio.sleep(2000)

    run_virtual(main())


def test_a_boot_that_ends_well_although_it_was_cancelled_leaves_nothing() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        plain = backend.boot

        async def boot(spec: DesktopSpec, *, deadline_s: float = 60.0) -> FakeDesktop:
            task = asyncio.ensure_future(plain(spec, deadline_s=deadline_s))
            while not task.done():
                try:
                    await asyncio.shield(task)
                except asyncio.CancelledError:
                    continue
            return task.result()

        backend.boot = boot  # type: ignore[method-assign]
        waiter = asyncio.create_task(hub.acquire(SPEC))
        await asyncio.sleep(0.5)
        await hub.close()
        with pytest.raises(LeaseExpired):
            await waiter
        assert len(backend.booted) == 1

    on_hub(test)


def test_when_the_program_is_torn_down_the_backend_is_still_closed() -> None:
    backend = FakeBackend()

    async def worker(hub: Hub) -> None:
        async with hub.lease(SPEC):
            await asyncio.sleep(1e6)

    async def main() -> None:
        hub = Hub(backend, capacity=10)
        await hub.open()
        kept = [asyncio.create_task(worker(hub)) for _ in range(10)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in kept)

    run_virtual(main())
    assert len(backend.booted) == 10
    assert backend.open_desktops == []


def test_the_snapshot_counts() -> None:
    async def test(hub: Hub, backend: SlowBackend) -> None:
        assert hub.stats().boot_p50_s is None
        async with hub.lease(SPEC) as lease:
            await lease.desktop.step(())
            await asyncio.sleep(9)
            stats = hub.stats()
            assert (stats.capacity, stats.leased, stats.boots) == (2, 1, 1)
            assert (stats.boot_p50_s, stats.boot_p95_s) == (1, 1)
            assert (stats.lease_wait_p50_s, stats.lease_wait_p95_s) == (1, 1)
            assert (stats.step_p50_s, stats.step_p95_s) == (0, 0)
            assert stats.utilisation == pytest.approx(9 / 10 / 2)
        await asyncio.sleep(10)
        assert hub.stats().utilisation == pytest.approx(9 / 20 / 2)

    on_hub(test)


@pytest.mark.parametrize(
    "options", [{"capacity": 0}, {"boots_at_once": 0}, {"warm": -1}, {"reap_every_s": 0}, {"max_age_s": 10}]
)
def test_senseless_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        Hub(FakeBackend(), **{"capacity": 1, **options})


def test_a_hub_must_be_open_and_opens_once() -> None:
    async def main() -> None:
        hub = Hub(FakeBackend(), capacity=1)
        with pytest.raises(BadRequest, match="not open"):
            await hub.acquire(SPEC)
        await hub.close()
        async with hub:
            with pytest.raises(BadRequest, match="once"):
                await hub.open()
            with pytest.raises(BadRequest, match="max_age_s"):
                await hub.acquire(SPEC, ttl_s=1e9)

    run_virtual(main())
