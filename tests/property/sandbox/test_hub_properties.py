"""The hub under seeded storms: slow and failing boots, cancelled workers, expiring leases, desktops that break.

Everything runs on virtual time, so a seed is one exact history.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.actions import Action, TypeText
from sandbox.desktop import DesktopSpec, Settle, StepResult, Want
from sandbox.errors import BootFailed, DeadlineExceeded, DesktopError, DesktopLost, ProbeLost, Unavailable
from sandbox.hub import Hub, Lease
from tests.support.desktop import FakeBackend, FakeDesktop
from tests.support.virtual_time import run_virtual

SPECS = [DesktopSpec(width=160, height=120 + extra) for extra in range(3)]
RARE, SOMETIMES = 0.05, 0.2


class StormDesktop(FakeDesktop):
    """Acts late, breaks, hangs, refuses to close; never answers a repeated request id from memory."""

    def __init__(self, backend: StormBackend, spec: DesktopSpec) -> None:
        super().__init__(spec=spec)
        self.backend = backend
        self.typed: list[str] = []
        self.inside = 0
        self.tries_to_close = 0

    async def step(
        self,
        actions: Sequence[Action],
        *,
        settle: Settle | None = None,
        want: Sequence[Want] = ("frame",),
        request_id: str | None = None,
        deadline_s: float = 30.0,
    ) -> StepResult:
        chance = self.backend.chance
        self.inside += 1
        assert self.inside == 1, "two calls at once on one desktop"
        try:
            await asyncio.sleep(chance.expovariate(5))
            if chance.random() < RARE:
                raise chance.choice([DesktopLost, ProbeLost, Unavailable, DeadlineExceeded])("storm")
            if chance.random() < RARE:
                await asyncio.sleep(1e6)
            for action in actions:
                assert isinstance(action, TypeText)
                self.typed.append(action.text)
            await asyncio.sleep(chance.expovariate(5))
            return await super().step((), want=())
        finally:
            self.inside -= 1

    async def close(self) -> None:
        chance = self.backend.chance
        self.tries_to_close += 1
        await asyncio.sleep(chance.expovariate(2))
        if chance.random() < RARE:
            raise DesktopError("will not go")
        if not self.closed:
            self.closed = True
            self.backend.alive -= 1


class StormBackend(FakeBackend):
    """Counts what lives at each moment."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.alive = self.booting = self.most_alive = self.most_booting = 0
        self.alive_when_closed: int | None = None

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> FakeDesktop:
        self.alive += 1
        self.booting += 1
        self.most_alive = max(self.most_alive, self.alive)
        self.most_booting = max(self.most_booting, self.booting)
        try:
            await asyncio.sleep(self.chance.expovariate(1))
            if self.chance.random() < SOMETIMES:
                raise self.chance.choice([BootFailed("storm"), RuntimeError("storm")])
            if self.chance.random() < RARE:
                await asyncio.sleep(1e6)
            desktop = StormDesktop(self, spec)
            self.booted.append(desktop)
        except BaseException:
            self.alive -= 1
            raise
        finally:
            self.booting -= 1
        return desktop

    async def close(self) -> None:
        self.alive_when_closed = self.alive


class Storm:
    """Workers that use a hub without manners, and what they asked for."""

    def __init__(self, hub: Hub, seed: int) -> None:
        self.hub = hub
        self.chance = random.Random(seed)
        self.kept: list[Lease] = []
        """Leases held on to for ever, to be used after their end."""
        self.wrong: set[str] = set()
        """Texts sent when the lease was known to be over: none may ever be typed."""
        self.sent = Counter[str]()

    async def send(self, lease: Lease, number: int) -> None:
        text = f"{lease.id} {lease.epoch} {number}"
        if lease.over is not None:
            self.wrong.add(text)
        for _ in range(1 if self.chance.random() > SOMETIMES else 2):
            self.sent[text] += 1
            try:
                await lease.desktop.step(
                    (TypeText(text=text),), request_id=text, deadline_s=self.chance.uniform(0.5, 5)
                )
                assert text not in self.wrong
            except (DesktopError, TimeoutError):
                pass

    async def hold(self, lease: Lease) -> None:
        for number in range(self.chance.randrange(6)):
            await self.send(lease, number)
            await asyncio.sleep(self.chance.expovariate(2))
            if self.chance.random() < SOMETIMES:
                old = self.chance.choice(self.kept)
                await self.send(old, 1000 + len(self.sent))
            if self.chance.random() < RARE and lease.over is None:
                lease = await self.hub.renew(lease, fence=self.chance.random() < 0.5, ttl_s=20)
                self.kept.append(lease)

    async def worker(self) -> None:
        for _ in range(3):
            try:
                async with self.hub.lease(
                    self.chance.choice(SPECS),
                    ttl_s=self.chance.uniform(0.5, 30),
                    priority=self.chance.randrange(3),
                    deadline_s=self.chance.uniform(0.1, 60),
                ) as lease:
                    self.kept.append(lease)
                    await self.hold(lease)
            except (DesktopError, TimeoutError):
                pass

    async def run(self, num_workers: int) -> None:
        workers = [asyncio.create_task(self.worker()) for _ in range(num_workers)]
        while not all(worker.done() for worker in workers):
            await asyncio.sleep(self.chance.expovariate(0.5))
            if self.chance.random() < 0.5:
                self.chance.choice(workers).cancel()
        results = await asyncio.gather(*workers, return_exceptions=True)
        assert not [result for result in results if isinstance(result, Exception)]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    capacity=st.integers(1, 6),
    boots_at_once=st.integers(1, 4),
    warm=st.integers(0, 2),
    num_workers=st.integers(1, 20),
    impatient=st.booleans(),
)
def test_no_storm_breaks_the_promises(
    seed: int, capacity: int, boots_at_once: int, warm: int, num_workers: int, impatient: bool
) -> None:
    backend = StormBackend(seed)
    storms: list[Storm] = []

    async def main() -> None:
        async with Hub(
            backend,
            capacity=capacity,
            boots_at_once=boots_at_once,
            warm=warm,
            boot_s=10,
            lease_ttl_s=20,
            max_age_s=30,
            reap_every_s=7,
        ) as hub:
            storm = Storm(hub, seed + 1)
            storms.append(storm)
            await storm.run(num_workers)
            if not impatient:
                await asyncio.sleep(100)
                for lease in storm.kept:
                    assert lease.over is not None
                    await storm.send(lease, -1)
                stats = hub.stats()
                assert (stats.leased, stats.waiting) == (0, 0)
        final = hub.stats()
        assert (final.leased, final.ready, final.booting, final.retiring) == (0, 0, 0, 0)
        assert all(lease.over is not None for lease in storm.kept)

    run_virtual(main())
    (storm,) = storms
    assert backend.most_alive <= capacity
    assert backend.most_booting <= boots_at_once
    assert backend.alive_when_closed == len(backend.open_desktops)  # no boot was left half done
    typed = Counter[str]()
    for desktop in backend.booted:
        assert isinstance(desktop, StormDesktop)
        typed.update(desktop.typed)
        assert desktop.tries_to_close >= 1, "a desktop was left alive"
        assert {text.split()[0] for text in desktop.typed} <= {desktop.id}, (
            "an action landed on another lease's desktop"
        )
    assert not storm.wrong & typed.keys(), "an action of a lease that was over landed"
    assert all(count == 1 for count in typed.values()), "a repeated request acted twice"


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    capacity=st.integers(1, 4),
    boots_at_once=st.integers(1, 4),
    priorities=st.lists(st.integers(-2, 2), min_size=1, max_size=20),
)
def test_waiters_of_one_spec_are_served_by_priority_then_first_come(
    seed: int, capacity: int, boots_at_once: int, priorities: list[int]
) -> None:
    backend = StormBackend(seed)
    served: list[tuple[int, int]] = []

    async def worker(hub: Hub, rank: tuple[int, int], hold_s: float) -> None:
        async with hub.lease(SPECS[0], priority=-rank[0], deadline_s=1e6):
            served.append(rank)
            await asyncio.sleep(hold_s)

    async def main() -> None:
        chance = random.Random(seed)
        async with Hub(backend, capacity=capacity, boots_at_once=boots_at_once, boot_s=10) as hub:
            ranks = [(-priority, number) for number, priority in enumerate(priorities)]
            jobs: list[Any] = [worker(hub, rank, chance.uniform(0, 9)) for rank in ranks]
            results = await asyncio.gather(*jobs, return_exceptions=True)
            assert {type(result) for result in results} <= {type(None), BootFailed}

    run_virtual(main())
    assert served == sorted(served)


def test_a_hundred_workers_share_a_few_desktops() -> None:
    backend = FakeBackend()
    owners: dict[str, set[str]] = {}

    async def worker(hub: Hub, name: str) -> None:
        for _ in range(3):
            async with hub.lease(SPECS[0], deadline_s=1e6) as lease:
                for number in range(4):
                    await lease.desktop.step((TypeText(text=name),), want=(), request_id=str(number))
                owners.setdefault(lease.id, set()).add(name)

    async def main() -> None:
        async with Hub(backend, capacity=8, boots_at_once=4, warm=2) as hub:
            await asyncio.gather(*(worker(hub, f"w{number}") for number in range(100)))
            assert hub.stats().retired["released"] == 300

    run_virtual(main())
    assert all(len(names) == 1 for names in owners.values())
    for desktop in backend.booted:
        typed = {action.text for action in desktop.acted if isinstance(action, TypeText)}
        assert typed == owners.get(desktop.id, set())
        assert len(desktop.acted) in (0, 4)
