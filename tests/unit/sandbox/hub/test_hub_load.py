"""Boots wait for the machine, and desktops that are no longer what they were go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandbox.actions import Move, Point, TypeText
from sandbox.desktop import DesktopSpec, Health
from sandbox.errors import DeadlineExceeded, DesktopLost
from sandbox.hub import Hub
from sandbox.hub.admission import Condition, LoadAdmission, read_condition
from sandbox.hub.watch import FROZEN_AFTER, GROWTH_MB
from tests.support.desktop import FakeBackend, FakeDesktop
from tests.support.screen import make_frame
from tests.support.virtual_time import run_virtual

SPEC = DesktopSpec(width=160, height=120)


class Busy:
    """An admission that a test decides."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason
        self.most_booting = 0

    def refusal(self, *, booting: int) -> str | None:
        self.most_booting = max(self.most_booting, booting)
        return self.reason


def condition(
    *, load: float = 0.5, available_mb: float = 8000.0, memory_stalled: float = 0.0, cores: int = 2
) -> Condition:
    return Condition(load=load, cores=cores, available_mb=available_mb, memory_stalled=memory_stalled)


@pytest.mark.parametrize(
    ("seen", "booting", "said"),
    [
        (condition(), 0, None),
        (condition(), 5, None),
        (condition(load=9), 0, None),
        (condition(load=9), 1, "one at a time"),
        (condition(load=9, cores=16), 1, None),
        (condition(available_mb=1000), 0, "1000 MB of memory"),
        (condition(available_mb=1100), 0, None),
        (condition(available_mb=1100), 1, "1100 MB of memory"),
        (condition(memory_stalled=0.5), 0, "50% of the time"),
    ],
)
def test_a_boot_is_admitted_by_the_machines_condition(seen: Condition, booting: int, said: str | None) -> None:
    refusal = LoadAdmission(read=lambda: seen).refusal(booting=booting)
    assert (refusal is None) == (said is None), refusal
    assert said is None or (refusal is not None and said in refusal)


def test_the_condition_is_read_from_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("3.25 2.00 1.00 4/200 999\n")
    (tmp_path / "meminfo").write_text("MemTotal: 4096000 kB\nMemAvailable: 2048000 kB\nHugePages_Total: 0\n")
    assert read_condition(tmp_path).memory_stalled == 0  # a kernel that does not say
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "memory").write_text(
        "some avg10=40.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=12.50 avg60=0.00 avg300=0.00 total=1\n"
    )
    seen = read_condition(tmp_path)
    assert (seen.load, seen.available_mb, seen.memory_stalled) == (3.25, 2000, 0.125)
    assert read_condition().available_mb > 0


def test_boots_wait_for_the_machine_and_the_waiter_is_told_why() -> None:
    async def main() -> None:
        busy = Busy("the machine is on fire")
        backend = FakeBackend()
        async with Hub(backend, capacity=2, boots_at_once=2, warm=1, specs=[SPEC], admission=busy) as hub:
            with pytest.raises(DeadlineExceeded, match="the machine is on fire"):
                await hub.acquire(SPEC, deadline_s=10)
            assert backend.booted == []
            assert hub.stats().held_back == "the machine is on fire"
            waiting = asyncio.create_task(hub.acquire(SPEC, deadline_s=60))
            await asyncio.sleep(10)
            assert not waiting.done()
            busy.reason = None
            assert (await waiting).over is None
            stats = hub.stats()
            assert stats.held_back is None
            assert stats.held_back_share > 0.9

    run_virtual(main())


def test_an_idle_desktop_of_another_spec_still_makes_room_after_the_machine_was_busy() -> None:
    async def main() -> None:
        busy = Busy(None)
        async with Hub(FakeBackend(), capacity=1, warm=1, specs=[SPEC], admission=busy) as hub:
            await asyncio.sleep(1)
            assert hub.stats().ready == 1
            busy.reason = "busy"
            asking = asyncio.create_task(hub.acquire(DesktopSpec(width=320, height=240), deadline_s=60))
            await asyncio.sleep(5)
            busy.reason = None
            await asking

    run_virtual(main())


def test_a_frozen_screen_ends_the_lease_and_a_living_one_does_not() -> None:
    async def steps(desktop: FakeDesktop, moves: bool) -> str | None:
        async with Hub(FakeBackend(make=lambda spec: desktop), capacity=1) as hub:
            lease = await hub.acquire(SPEC)
            for number in range(FROZEN_AFTER * 3):
                action = Move(point=Point(x=number % 100, y=1)) if moves else TypeText(text="x")
                try:
                    await lease.desktop.step((action,))
                except DesktopLost:
                    break
            assert number >= FROZEN_AFTER
            return lease.over

    async def main() -> None:
        many = [make_frame(number) for number in range(FROZEN_AFTER * 4)]
        assert await steps(FakeDesktop(spec=SPEC), moves=True) == "ScreenFrozen"
        assert await steps(FakeDesktop(spec=SPEC, frames=many), moves=True) is None
        assert await steps(FakeDesktop(spec=SPEC), moves=False) is None  # nothing says that it had to change

    run_virtual(main())


class Growing(FakeDesktop):
    """Needs more memory each time it is asked."""

    def __init__(self, step_mb: int) -> None:
        super().__init__(spec=SPEC)
        self._step_mb = step_mb
        self._asked = 0

    async def health(self) -> Health:
        self._asked += 1
        return Health(alive=True, detail={"memory_bytes": str(self._asked * self._step_mb << 20)})


@pytest.mark.parametrize(("step_mb", "retired"), [(GROWTH_MB // 2, True), (0, False)])
def test_an_idle_desktop_whose_memory_grows_is_replaced(step_mb: int, retired: bool) -> None:
    async def main() -> None:
        backend = FakeBackend(make=lambda spec: Growing(step_mb))
        async with Hub(backend, capacity=1, warm=1, specs=[SPEC], reap_every_s=10) as hub:
            await asyncio.sleep(100)
            assert (hub.stats().retired.get("memory", 0) > 0) == retired

    run_virtual(main())


def test_an_idle_desktop_that_died_is_replaced_before_anyone_asks_for_it() -> None:
    async def main() -> None:
        backend = FakeBackend()
        async with Hub(backend, capacity=1, warm=1, specs=[SPEC], reap_every_s=10) as hub:
            await asyncio.sleep(1)
            backend.booted[0].fail("health", DesktopLost("gone"))
            await asyncio.sleep(15)
            assert hub.stats().retired == {"unhealthy": 1}
            assert len(backend.booted) == 2

    run_virtual(main())
