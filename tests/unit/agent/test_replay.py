"""Playing an episode again: what is equal, what differs and from which step on, and what is not held against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent import Harness, replay, run_episode
from agent.replay import Replay, replay_episode
from agent.task import Grade
from sandbox.actions import Action
from sandbox.desktop import Observation, Rect, Want
from sandbox.evidence import Evidence, EvidenceItem
from sandbox.frame import Frame
from store.errors import BlobMissing
from store.trajectory import Trajectory
from tests.support.blobs import FakeBlobs
from tests.support.desktop import FakeDesktop
from tests.support.policy import FakePolicy
from tests.support.screen import make_frame, make_window
from tests.support.task import FakeTask, make_grade

FRAMES = [make_frame(shade) for shade in range(4)]
REPLIES = ["move 5 6", "press a\nwait 0", "press b", "done"]


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LATE_S", 0.05)
    monkeypatch.setattr(replay, "POLL_S", 0.005)


def desktop(frames: Sequence[Frame] = FRAMES, title: str = "notes", **options: Any) -> FakeDesktop:
    return FakeDesktop(frames=frames, windows=[make_window("mousepad", title)], **options)


def grading(**items: Any) -> FakeTask:
    """A task that gives these as evidence, and passes."""
    evidence = Evidence(items={name: EvidenceItem(status="ok", data=data) for name, data in items.items()}, clock_s=0.0)
    grade = make_grade(1.0)
    made = Grade(score=1.0, checks=grade.checks, evidence=evidence, verifier_id=grade.verifier_id)
    return FakeTask(grade_with=lambda final: made)


async def record(blobs: FakeBlobs, *, task: FakeTask | None = None, replies: Sequence[str] = REPLIES) -> Trajectory:
    policy = FakePolicy(replies, wants=("windows",))
    return await run_episode(desktop(), task or FakeTask(), Harness(), policy, blobs=blobs, seed_env=1, seed_sampling=2)


async def play(
    trajectory: Trajectory,
    blobs: FakeBlobs,
    on: FakeDesktop | None = None,
    task: FakeTask | None = None,
    **options: Any,
) -> Replay:
    return await replay_episode(
        on or desktop(), task or FakeTask(), trajectory, blobs.get, harness=Harness(), **options
    )


async def test_the_same_desktop_does_the_same() -> None:
    blobs, again = FakeBlobs(), desktop()
    trajectory = await record(blobs)
    told: list[int] = []
    played = await play(trajectory, blobs, again, on_step=lambda step: told.append(step.step))
    assert (played.same, played.first, played.ending, played.frames) == (True, None, {}, None)
    assert told == [0, 1, 2, 3, 4]
    assert [action.kind for action in again.acted] == ["move", "press", "wait", "press"]
    assert all(call["settle"] == Harness().settle.settle() for call in again.calls("step")[:-1])
    assert played.clocks_s == (1_700_000_000.0, 1_700_000_000.0)


async def test_the_first_step_that_differs_is_named_with_where_and_how_much() -> None:
    blobs = FakeBlobs()
    trajectory = await record(blobs)
    pixels = bytearray(FRAMES[2].pixels)
    for x, y in ((10, 20), (13, 21)):
        pixels[(y * 160 + x) * 3] ^= 1
    other = Frame.from_pixels(160, 120, bytes(pixels))
    played = await play(trajectory, blobs, desktop([*FRAMES[:2], other, FRAMES[3]]))
    first = played.first
    assert first is not None
    assert first.difference is not None
    assert (first.step, first.difference.pixels) == (2, 2)
    assert first.difference.box == Rect(x=10, y=20, width=4, height=2)
    assert [step.same for step in played.steps] == [True, True, False, True, True], "it went away again"
    assert played.frames == (FRAMES[2], other)
    assert not played.same


async def test_a_screen_that_is_late_is_equal_and_one_that_never_comes_is_not() -> None:
    blobs = FakeBlobs()
    trajectory = await record(blobs)

    class Late(FakeDesktop):
        async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
            self.frames = FRAMES
            return await super().observe(want, deadline_s=deadline_s)

    unfinished = [*FRAMES[:2], make_frame(99), FRAMES[3]]
    late = Late(frames=unfinished, windows=[make_window("mousepad", "notes")])
    played = await play(trajectory, blobs, late)
    assert played.same
    assert [step.late_ms > 0 for step in played.steps] == [False, False, True, False, False]
    assert not (await play(trajectory, blobs, desktop(unfinished))).same


async def test_state_that_differs_counts_although_the_screen_is_equal() -> None:
    blobs = FakeBlobs()
    trajectory = await record(blobs)
    played = await play(trajectory, blobs, desktop(title="other"))
    assert played.first is not None
    assert (played.first.step, played.first.difference) == (0, None)
    assert played.first.facts == {"active window": ("notes", "other")}

    def elsewhere(moved: FakeDesktop, actions: Sequence[Action]) -> None:
        moved.cursor = (1, 1) if actions else moved.cursor

    first = (await play(trajectory, blobs, desktop(on_step=elsewhere))).first
    assert first is not None
    assert (first.step, first.facts) == (1, {"pointer": ((5, 6), (1, 1))})


async def test_what_the_probe_refuses_is_state() -> None:
    blobs = FakeBlobs()
    trajectory = await record(blobs, replies=["move 5 6", "done"])
    outside = ({"kind": "move", "point": {"x": 5, "y": 500}}, {"kind": "press", "keys": ["a"]})
    refused = ("move: (5, 500) is outside the 160x120 screen",)

    async def first(**changes: Any) -> Any:
        turn = trajectory.turns[0].model_copy(update=changes)
        same_place = trajectory.turns[1].model_copy(update={"cursor": (0, 0)})
        changed = trajectory.model_copy(
            update={"turns": (turn, same_place.model_copy(update={"frame": turn.frame})), "final_frame": turn.frame}
        )
        return (await play(changed, blobs)).first

    assert await first(actions=outside, action_errors=refused) is None
    differs = await first(actions=outside, action_errors=())
    assert (differs.step, differs.facts) == (1, {"refused actions": ((), refused)})


async def test_the_end_is_compared_by_score_and_evidence() -> None:
    blobs = FakeBlobs()
    task = grading(note={"base64": "YQ=="}, windows=[{"id": 7, "title": "a"}], processes=[{"pid": 3, "argv": ["x"]}])
    trajectory = await record(blobs, task=task)
    moved = grading(note={"base64": "YQ=="}, windows=[{"id": 8, "title": "a"}], processes=[{"pid": 4, "argv": ["x"]}])
    assert (await play(trajectory, blobs, task=moved)).same, "ids and pids are given anew"
    differs = grading(note={"base64": "Yg=="}, windows=[{"id": 8, "title": "b"}], processes=[])
    played = await play(trajectory, blobs, task=differs)
    assert not played.same
    assert sorted(played.ending) == ["evidence note", "evidence processes", "evidence windows"]
    fails = FakeTask(grade_with=lambda final: make_grade(0.5))
    assert (await play(trajectory, blobs, task=fails)).ending["score"] == (1.0, 0.5)


async def test_a_screenshot_that_is_gone_is_said_to_be() -> None:
    blobs = FakeBlobs()
    trajectory = await record(blobs)

    def read(name: str) -> bytes:
        raise BlobMissing(name)

    frames = [FRAMES[0], make_frame(99), *FRAMES[2:]]
    played = await replay_episode(desktop(frames), FakeTask(), trajectory, read, harness=Harness())
    assert played.first is not None
    assert (played.first.step, played.first.difference) == (1, None)
    assert played.frames == (None, frames[1])


async def test_the_policys_pace_is_kept_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs, pauses = FakeBlobs(), []
    trajectory = await record(blobs)
    slow = tuple(turn.model_copy(update={"timings_ms": {"policy": 20.0}}) for turn in trajectory.turns)
    trajectory = trajectory.model_copy(update={"turns": slow})

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    await play(trajectory, blobs, paced=False)
    assert 0.02 not in pauses
    await play(trajectory, blobs)
    assert pauses.count(0.02) == 4


async def test_an_episode_without_turns_cannot_be_played() -> None:
    blobs = FakeBlobs()
    trajectory = (await record(blobs)).model_copy(update={"turns": ()})
    with pytest.raises(ValueError, match="no turns to play again"):
        await play(trajectory, blobs)
