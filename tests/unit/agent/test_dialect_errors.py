"""A reply that cannot be read is told in the model's own dialect, marked, and does not end the episode."""

from __future__ import annotations

import json

import pytest

from agent import Harness, run_episode
from agent.policy import PolicyReply
from sandbox.actions import Done, Move, Point
from sandbox.dialects import DIALECTS, View, get_dialect
from tests.support.blobs import FakeBlobs
from tests.support.desktop import FakeDesktop
from tests.support.policy import FakePolicy
from tests.support.task import FakeTask

VIEW = View.unscaled(160, 120)
BROKEN = {
    "compact": "jump",
    "pyautogui": "pyautogui.jump()",
    "computer13": '{"action_type": "JUMP"}',
    "openai": '{"type": "computer_call", "call_id": "call_1", "action": {"type": "jump"}}',
    "anthropic": '{"type": "tool_use", "id": "toolu_1", "name": "computer", "input": {"action": "jump"}}',
    "bytebot": '{"type": "tool_use", "id": "toolu_1", "name": "computer_jump", "input": {}}',
    "browsergym": "jump(1, 2)",
    "cua-bench": "Jump(x=1, y=2)",
    "uitars": "Action: jump()",
    "qwen": '<tool_call>{"name": "computer_use", "arguments": {"action": "jump"}}</tool_call>',
}


def broken(name: str) -> str:
    return next(text for family, text in BROKEN.items() if name.startswith(family))


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_parse_error_is_told_and_marked_and_the_episode_goes_on(name: str) -> None:
    dialect = get_dialect(name)
    move = Move(point=Point(x=100, y=60))
    replies = [broken(name), dialect.render(move, VIEW), dialect.render(Done(), VIEW)]
    policy = FakePolicy(replies)
    desktop = FakeDesktop()
    trajectory = await run_episode(
        desktop, FakeTask(), Harness(dialect=name), policy, blobs=FakeBlobs(), seed_env=1, seed_sampling=2
    )
    first, second, last = trajectory.turns
    assert first.parse_error is not None
    assert first.actions == ()
    assert "nothing was done" in first.parse_error
    assert "jump" in first.parse_error.lower()
    assert policy.requests[1].turns[-1].feedback == first.parse_error
    assert (second.parse_error, last.parse_error) == (None, None)
    assert isinstance(desktop.acted[0], Move)
    assert len(desktop.acted) == 1
    assert (trajectory.stop_reason, trajectory.outcome) == ("done", "pass")


@pytest.mark.parametrize("name", DIALECTS)
async def test_unreadable_replies_alone_earn_nothing(name: str) -> None:
    policy = FakePolicy([broken(name)] * 3)
    task = FakeTask()
    trajectory = await run_episode(
        FakeDesktop(), task, Harness(dialect=name), policy, blobs=FakeBlobs(), seed_env=1, seed_sampling=2
    )
    assert (trajectory.stop_reason, trajectory.reward) == ("parse_errors", 0.0)
    assert all(turn.parse_error for turn in trajectory.turns)
    assert task.graded == [None]


async def test_a_tool_use_is_answered_by_its_id_also_when_it_was_cut_off() -> None:
    policy = FakePolicy([PolicyReply(text=BROKEN["anthropic"], truncated=True), '{"type": "text", "text": "DONE"}'])
    trajectory = await run_episode(
        FakeDesktop(), FakeTask(), Harness(dialect="anthropic"), policy, blobs=FakeBlobs(), seed_env=1, seed_sampling=2
    )
    (block,) = json.loads(trajectory.turns[0].parse_error or "")
    assert (block["type"], block["tool_use_id"], block["is_error"]) == ("tool_result", "toolu_1", True)
    assert "cut off" in block["content"]
