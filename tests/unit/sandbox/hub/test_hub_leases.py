"""One lease: what its holder may do, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandbox.actions import TypeText
from sandbox.desktop import Desktop, DesktopSpec
from sandbox.errors import (
    BadRequest,
    BootFailed,
    DeadlineExceeded,
    DesktopError,
    DesktopLost,
    LeaseExpired,
    ProbeLost,
    RecordingMiss,
    Unavailable,
)
from sandbox.evidence import CommandRequest, FileRequest
from sandbox.hub import Hub, Lease
from tests.support.desktop import FakeBackend, FakeDesktop
from tests.support.virtual_time import run_virtual

SPEC = DesktopSpec(width=160, height=120)
HI = (TypeText(text="hi"),)

CALLS: dict[str, Callable[[Desktop], Awaitable[Any]]] = {
    "step": lambda desktop: desktop.step(HI),
    "observe": lambda desktop: desktop.observe(),
    "collect": lambda desktop: desktop.collect([FileRequest(name="a", path="a")]),
    "health": lambda desktop: desktop.health(),
    "exec": lambda desktop: desktop.exec(["true"]),
    "spawn": lambda desktop: desktop.spawn(["true"]),
    "put_file": lambda desktop: desktop.put_file("/a", b"x"),
    "get_file": lambda desktop: desktop.get_file("/a"),
}
READS = {"observe", "collect", "health", "get_file"}


class Bench:
    """A hub over a fake backend, and a shorthand to the desktop behind a lease."""

    def __init__(self, **options: Any) -> None:
        self.backend = FakeBackend()
        self.hub = Hub(self.backend, **{"capacity": 2, "boots_at_once": 2, **options})

    async def lease(self, **options: Any) -> tuple[Lease, FakeDesktop]:
        lease = await self.hub.acquire(SPEC, **options)
        return lease, next(desktop for desktop in self.backend.booted if desktop.id == lease.id)


def on_hub(test: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    """Run a test inside an open hub on virtual time."""

    async def main() -> None:
        bench = Bench(**options)
        async with bench.hub:
            await test(bench)

    run_virtual(main())


def test_a_lease_hands_out_a_working_desktop_and_its_end_destroys_it() -> None:
    async def test(bench: Bench) -> None:
        async with bench.hub.lease(SPEC) as lease:
            assert isinstance(lease.desktop, Desktop)
            desktop = bench.backend.booted[0]
            assert (lease.desktop.id, lease.desktop.spec) == (desktop.id, SPEC)
            assert lease.desktop.image_digest == desktop.image_digest
            desktop.files["/a"] = b"x"
            for call in CALLS.values():
                await call(lease.desktop)
            assert desktop.acted == list(HI)
        await asyncio.sleep(1)
        assert desktop.closed
        async with bench.hub.lease(SPEC) as second:
            assert second.id != lease.id
            assert second.epoch > lease.epoch

    on_hub(test)


def test_arguments_reach_the_desktop_unchanged() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        await lease.desktop.exec(["ls", "-l"], user="root", cwd="/", env={"A": "1"}, stdin=b"in")
        await lease.desktop.put_file("/a", b"x", user="root", mode=0o600)
        await lease.desktop.step(HI, want=("frame", "windows"), request_id="r", deadline_s=7)
        assert desktop.calls("exec")[0] == {
            "argv": ("ls", "-l"),
            "user": "root",
            "cwd": "/",
            "env": {"A": "1"},
            "stdin": b"in",
        }
        assert desktop.calls("put_file")[0] == {"path": "/a", "data": b"x", "user": "root", "mode": 0o600}
        step = desktop.calls("step")[0]
        assert (step["want"], step["request_id"], step["deadline_s"]) == (("frame", "windows"), "r", 7)

    on_hub(test)


@pytest.mark.parametrize("call", CALLS)
def test_after_its_release_a_lease_reaches_nothing(call: str) -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        await bench.hub.release(lease)
        before = len(desktop.events)
        with pytest.raises(LeaseExpired, match="released"):
            await CALLS[call](lease.desktop)
        assert len(desktop.events) == before
        assert lease.over == "released"
        assert lease.expires_in_s == 0

    on_hub(test)


def test_closing_the_guarded_desktop_ends_the_lease_and_releasing_twice_is_harmless() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        await lease.desktop.close()
        await lease.desktop.close()
        await bench.hub.release(lease)
        await asyncio.sleep(1)
        assert desktop.closed
        assert len(desktop.calls("close")) == 1
        assert bench.hub.stats().retired == {"closed": 1}

    on_hub(test)


def test_an_expired_lease_is_destroyed_by_the_timer_and_its_running_call_cut_off() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease(ttl_s=10)
        desktop.hang("step")
        assert lease.expires_in_s == 10
        with pytest.raises(LeaseExpired, match="expired") as caught:
            await lease.desktop.step(HI, deadline_s=100)
        assert caught.value.phase == "unknown"
        assert asyncio.get_running_loop().time() == pytest.approx(10)
        await asyncio.sleep(1)
        assert desktop.closed
        assert bench.hub.stats().retired == {"expired": 1}

    on_hub(test)


def test_a_call_waiting_for_its_turn_is_refused_when_the_lease_ends() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease(ttl_s=10)
        desktop.hang("observe")
        results = await asyncio.gather(
            lease.desktop.observe(deadline_s=50), lease.desktop.step(HI, deadline_s=50), return_exceptions=True
        )
        assert [type(result) for result in results] == [LeaseExpired, LeaseExpired]
        assert desktop.calls("step") == []

    on_hub(test)


def test_renewing_lets_a_lease_last_longer_but_not_beyond_the_age_limit() -> None:
    async def test(bench: Bench) -> None:
        lease, _ = await bench.lease(ttl_s=10)
        await asyncio.sleep(9)
        assert await bench.hub.renew(lease, ttl_s=30) is lease
        await asyncio.sleep(29)
        await lease.desktop.observe()
        await bench.hub.renew(lease, ttl_s=30)
        assert lease.expires_in_s == pytest.approx(12)
        with pytest.raises(BadRequest, match="max_age_s"):
            await bench.hub.renew(lease, ttl_s=51)
        await asyncio.sleep(13)
        with pytest.raises(LeaseExpired):
            await bench.hub.renew(lease)

    on_hub(test, lease_ttl_s=20, max_age_s=50)


def test_a_newer_epoch_shuts_the_older_one_out() -> None:
    async def test(bench: Bench) -> None:
        old, desktop = await bench.lease()
        new = await bench.hub.renew(old, fence=True)
        assert (new.id, new.epoch > old.epoch, old.over, new.over) == (old.id, True, "newer epoch", None)
        with pytest.raises(LeaseExpired, match="newer epoch"):
            await old.desktop.step(HI)
        assert desktop.acted == []
        await bench.hub.release(old)
        await old.desktop.close()
        await new.desktop.step(HI)
        assert desktop.acted == list(HI)
        with pytest.raises(LeaseExpired):
            await bench.hub.renew(old)

    on_hub(test)


def test_fencing_waits_for_the_running_call_and_refuses_the_queued_ones() -> None:
    async def test(bench: Bench) -> None:
        old, desktop = await bench.lease()
        running = asyncio.Event()

        async def slow(*args: Any, **kwargs: Any) -> Any:
            running.set()
            await asyncio.sleep(5)
            return await FakeDesktop.step(desktop, *args, **kwargs)

        desktop.step = slow  # type: ignore[method-assign]
        first = asyncio.create_task(old.desktop.step(HI, request_id="1"))
        await running.wait()
        second = asyncio.create_task(old.desktop.step(HI, request_id="2"))
        await asyncio.sleep(1)
        new = await bench.hub.renew(old, fence=True)
        assert first.done()
        with pytest.raises(LeaseExpired):
            await second
        assert len(desktop.acted) == 1
        assert (await new.desktop.step(HI, request_id="1")) is first.result()
        assert len(desktop.acted) == 1

    on_hub(test)


def test_calls_on_one_lease_run_one_at_a_time_in_the_order_they_came() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        log: list[str] = []

        async def slow(actions: Any, **kwargs: Any) -> Any:
            log.append(f"begin {actions[0].text}")
            await asyncio.sleep(1)
            log.append(f"end {actions[0].text}")
            return await FakeDesktop.step(desktop, actions, **kwargs)

        desktop.step = slow  # type: ignore[method-assign]
        await asyncio.gather(*(lease.desktop.step((TypeText(text=name),)) for name in "abc"))
        assert log == [f"{what} {name}" for name in "abc" for what in ("begin", "end")]

    on_hub(test)


def test_time_spent_waiting_for_the_turn_counts_against_the_deadline() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        desktop.hang("observe", nth=1)
        first = asyncio.create_task(lease.desktop.observe(deadline_s=3))
        await asyncio.sleep(1)
        with pytest.raises(DeadlineExceeded, match="nothing was done"):
            await lease.desktop.step(HI, deadline_s=2)
        third = asyncio.create_task(lease.desktop.step(HI, deadline_s=20))
        with pytest.raises(DeadlineExceeded):
            await first
        await third
        assert desktop.calls("step")[-1]["deadline_s"] == pytest.approx(15)
        assert lease.over is None

    on_hub(test)


def test_a_repeated_request_id_is_answered_without_acting_again() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        first, again = await asyncio.gather(*(lease.desktop.step(HI, request_id="r") for _ in range(2)))
        assert again is first
        assert len(desktop.calls("step")) == 1
        with pytest.raises(BadRequest, match="already used"):
            await lease.desktop.step((TypeText(text="other"),), request_id="r")
        for number in range(20):
            await lease.desktop.step(HI, request_id=f"n{number}")
        await lease.desktop.step(HI, request_id="r")  # no longer kept here: the desktop is asked with the same id
        assert desktop.calls("step")[-1]["request_id"] == "r"
        assert len(desktop.acted) == 21

    on_hub(test)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", [DesktopLost, ProbeLost, BootFailed, RecordingMiss, DesktopError])
def test_a_fatal_error_reaches_the_holder_and_retires_the_desktop(call: str, error: type[DesktopError]) -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        desktop.fail(call, error("boom"))
        with pytest.raises(error, match="boom"):
            await CALLS[call](lease.desktop)
        with pytest.raises(LeaseExpired, match=error.__name__):
            await lease.desktop.observe()
        await asyncio.sleep(1)
        assert desktop.closed

    on_hub(test)


@pytest.mark.parametrize(
    "error", [Unavailable("no bus"), LeaseExpired("inner"), BadRequest("no"), FileNotFoundError("a")]
)
def test_an_answer_that_leaves_the_desktop_as_it_was_keeps_the_lease(error: Exception) -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        desktop.fail("step", error)
        with pytest.raises(type(error)):
            await lease.desktop.step(HI)
        await lease.desktop.step(HI)
        assert lease.over is None

    on_hub(test)


@pytest.mark.parametrize("call", CALLS)
def test_a_missed_deadline_ends_the_lease_only_where_an_effect_may_have_happened(call: str) -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        desktop.files["/a"] = b"x"
        desktop.fail(call, DeadlineExceeded("late"))
        with pytest.raises(DeadlineExceeded) as caught:
            await CALLS[call](lease.desktop)
        if call in READS:
            assert caught.value.phase == "infra"
            await CALLS[call](lease.desktop)
        else:
            assert caught.value.phase == "unknown"
            assert lease.over == "DeadlineExceeded"

    on_hub(test)


@pytest.mark.parametrize("call", CALLS)
def test_a_desktop_that_never_answers_is_cut_off(call: str) -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        desktop.hang(call)
        with pytest.raises(DeadlineExceeded) as caught:
            await CALLS[call](lease.desktop)
        assert (caught.value.phase, lease.over) == (
            ("infra", None) if call in READS else ("unknown", "DeadlineExceeded")
        )

    on_hub(test)


def test_collecting_by_command_counts_as_an_effect_and_a_step_without_actions_does_not() -> None:
    async def test(bench: Bench) -> None:
        first, desktop = await bench.lease()
        desktop.fail("step", DeadlineExceeded("late"))
        with pytest.raises(DeadlineExceeded):
            await first.desktop.step(())
        assert first.over is None
        desktop.fail("collect", DeadlineExceeded("late"))
        with pytest.raises(DeadlineExceeded):
            await first.desktop.collect([CommandRequest(name="c", argv=("true",))])
        assert first.over == "DeadlineExceeded"

    on_hub(test)


def test_a_fault_of_the_backend_is_typed_and_ends_the_lease() -> None:
    async def test(bench: Bench) -> None:
        for error in (RuntimeError("bug"), ConnectionResetError("gone"), asyncio.CancelledError()):
            lease, desktop = await bench.lease()
            desktop.fail("observe", error)
            with pytest.raises(ProbeLost) as caught:
                await lease.desktop.observe()
            assert caught.value.phase == "unknown"
            assert lease.over == "ProbeLost"

    on_hub(test)


@pytest.mark.parametrize("call", CALLS)
def test_a_holder_that_abandons_a_call_loses_the_desktop_unless_the_call_only_read(call: str) -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()
        desktop.hang(call)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await CALLS[call](lease.desktop)
        assert lease.over == (None if call in READS else "cancelled")

    on_hub(test)


def test_a_call_that_ignores_its_cancellation_ends_the_lease() -> None:
    async def test(bench: Bench) -> None:
        lease, desktop = await bench.lease()

        async def deaf(*args: Any, **kwargs: Any) -> Any:
            for _ in range(4):
                try:
                    await asyncio.sleep(20)
                except asyncio.CancelledError:
                    continue
            raise ProbeLost("at last")

        desktop.observe = deaf  # type: ignore[method-assign]
        with pytest.raises(DeadlineExceeded):
            await lease.desktop.observe(deadline_s=1)
        assert lease.over == "DeadlineExceeded"
        await asyncio.sleep(100)

    on_hub(test)


def test_the_desktop_is_closed_when_the_block_fails_or_is_cancelled() -> None:
    async def test(bench: Bench) -> None:
        with pytest.raises(ZeroDivisionError):
            async with bench.hub.lease(SPEC):
                raise ZeroDivisionError
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5), bench.hub.lease(SPEC):
                await asyncio.sleep(60)
        await asyncio.sleep(1)
        assert bench.backend.open_desktops == []
        assert len(bench.backend.booted) == 2

    on_hub(test)
