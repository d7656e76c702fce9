"""Whose failure it is when time is over."""

from __future__ import annotations

import asyncio

import pytest

from agent.deadlines import STEP_S, clip_waits, step_deadline_s, within
from agent.errors import SetupFailed
from sandbox.actions import Click, Press, TypeText, Wait

LATE = SetupFailed("late")


async def test_work_within_its_limit() -> None:
    assert await within(5, asyncio.sleep(0, "result"), LATE) == "result"


async def test_work_beyond_its_limit_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(SetupFailed, match="late"):
        await within(0.01, work(), LATE)
    assert cancelled.is_set()


async def test_the_works_own_timeout_is_not_the_limit() -> None:
    async def work() -> None:
        raise TimeoutError("a bug inside")

    with pytest.raises(TimeoutError, match="a bug inside"):
        await within(5, work(), LATE)


async def test_cancellation_from_outside_passes_through() -> None:
    task = asyncio.ensure_future(within(5, asyncio.Event().wait(), LATE))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_waits_are_cut_to_the_time_left_in_order() -> None:
    actions = (Wait(seconds=2), Click(), Press(keys=("a",), hold_s=3), Wait(seconds=4))
    assert clip_waits(actions, 100) == actions
    assert clip_waits(actions, 4) == (Wait(seconds=2), Click(), Press(keys=("a",), hold_s=2), Wait(seconds=0))
    assert clip_waits(actions, -1)[0] == Wait(seconds=0)


def test_deadlines_leave_room_for_what_the_actions_ask() -> None:
    assert step_deadline_s(()) == STEP_S
    assert step_deadline_s((Wait(seconds=50), Press(keys=("a",), hold_s=5))) == STEP_S + 55
    assert step_deadline_s((TypeText(text="x" * 1000),)) > STEP_S + 10
