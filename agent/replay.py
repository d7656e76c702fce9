"""A recorded episode played again: do the same actions do the same on a fresh desktop?

::

    prepare -> look -> [ pause as the policy did -> act, settle, look -> compare ] ... -> grade -> compare

Compared are the screen (every pixel), the pointer, the active window's title where it was recorded, what the probe
refused, and in the end the evidence and the checks' scores. Not compared is what a kernel or an X server gives anew in
every desktop: the clock, process ids, window ids.

A screen that differs gets a moment to become the recorded one, because settling is a judgement of time: it is then
equal, but late. The log is played to its end whatever differs, so that the report says whether a difference went away
again or grew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.deadlines import step_deadline_s, within
from agent.errors import GraderFailed, SetupFailed
from agent.harness import Harness, Limits
from agent.task import EpisodeTask
from sandbox.actions import is_terminal, parse_action
from sandbox.desktop import Desktop, Observation, Settle, StepResult, Want
from sandbox.difference import FrameDifference, frame_difference
from sandbox.evidence import Evidence
from sandbox.frame import Frame
from store.errors import BlobMissing
from store.trajectory import Trajectory

__all__ = ["Replay", "ReplayStep", "replay_episode"]

WANT: tuple[Want, ...] = ("frame", "windows")
LATE_S = 1.5
"""How long a screen that differs may take to become the recorded one."""
POLL_S = 0.05
GIVEN_ANEW = frozenset({"pid", "id"})
"""Keys of evidence whose values are another desktop's other names for the same things."""

Told = dict[str, tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayStep:
    """The screen and state after one step, as recorded and as they are now."""

    step: int
    """0 is the start; k is after the actions of turn k - 1."""
    recorded: str
    """sha256 of the recorded screenshot."""
    replayed: str
    """sha256 of the screenshot now."""
    late_ms: float
    """How long after settling the screen was the recorded one; 0 at once."""
    difference: FrameDifference | None
    """None if the screens are equal, or the recorded one is no longer kept."""
    facts: Told
    """What else differs: name -> (recorded, now)."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.recorded == self.replayed and not self.facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What came of the same actions."""

    steps: tuple[ReplayStep, ...]
    ending: Told
    """What differs in the end: `score`, and evidence by name. Empty where the episode was not graded."""
    frames: tuple[Frame | None, Frame] | None
    """The screenshots of the first step whose screen differs, recorded and now."""
    clocks_s: tuple[float | None, float]
    """The desktop's clock at the start, recorded and now, seconds since the epoch."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.first is None and not self.ending

    @property
    def first(self) -> ReplayStep | None:
        """The first step that differs."""
        return next((step for step in self.steps if not step.same), None)


async def replay_episode(
    desktop: Desktop,
    task: EpisodeTask,
    trajectory: Trajectory,
    read: Callable[[str], bytes],
    *,
    harness: Harness,
    paced: bool = True,
    on_step: Callable[[ReplayStep], None] = lambda step: None,
) -> Replay:
    """Play a recorded episode again and compare.

    Args:
        desktop: fresh, of the image and the spec that the episode had, and used by nobody else.
        read: gives a blob by its name; raises `BlobMissing` for one that is no longer kept.
        harness: the episode's; its settling and its limits are used.
        paced: wait before each step as long as the policy took; what a screen does meanwhile (a tooltip) is part of it.
        on_step: told of each comparison.

    Raises:
        ValueError: the episode has no turn that could be played.
        SetupFailed, GraderFailed, DesktopError: as for an episode.
    """
    if not trajectory.turns:
        raise ValueError(f"episode {trajectory.id} has no turns to play again: it ended by {trajectory.stop_reason}")
    limits = harness.limits
    late = SetupFailed(f"the setup was not over after {limits.setup_limit_s:g} s")
    await within(limits.setup_limit_s, task.prepare(desktop), late)
    player = _Player(desktop, read, harness.settle.settle())
    observation = (await player.step(())).observation
    clock_s = observation.clock_s
    turns = trajectory.turns
    expected: list[tuple[str | None, tuple[int, int] | None, str | None]]
    expected = [(turn.frame, turn.cursor, turn.facts.get("active_window")) for turn in turns]
    expected.append((trajectory.final_frame, None, None))
    steps = []
    for number, (frame, cursor, title) in enumerate(expected):
        refused: Told = {}
        if number:
            turn = turns[number - 1]
            if paced:
                await asyncio.sleep(turn.timings_ms.get("policy", 0.0) / 1000)
            result = await player.step(turn.actions)
            observation = result.observation
            refused = _refusals(turn.action_errors, turn.actions, result)
        if frame is not None:
            steps.append(await player.compare(number, observation, frame, cursor, title, refused))
            on_step(steps[-1])
    return Replay(
        steps=tuple(steps),
        ending=await _compare_ending(desktop, task, trajectory, read, limits),
        frames=player.frames,
        clocks_s=(turns[0].facts.get("clock_s"), clock_s),
    )


class _Player:
    """Acts and compares on one desktop."""

    def __init__(self, desktop: Desktop, read: Callable[[str], bytes], settle: Settle) -> None:
        self._desktop = desktop
        self._read = read
        self._settle = settle
        self.frames: tuple[Frame | None, Frame] | None = None

    async def step(self, recorded: tuple[dict[str, Any], ...]) -> StepResult:
        actions = [action for action in map(parse_action, recorded) if not is_terminal(action)]
        if recorded and not actions:  # an episode that only says how it ends does not look again
            return await self._desktop.step((), want=WANT)
        return await self._desktop.step(
            actions, settle=self._settle, want=WANT, deadline_s=step_deadline_s(tuple(actions))
        )

    async def compare(
        self,
        number: int,
        observation: Observation,
        recorded: str,
        cursor: tuple[int, int] | None,
        title: str | None,
        refused: Told,
    ) -> ReplayStep:
        begun, waited_s = time.monotonic(), 0.0
        frame, facts = _frame_of(observation), _facts(observation, cursor, title)
        while (frame.sha256 != recorded or facts) and waited_s < LATE_S:
            await asyncio.sleep(POLL_S)
            observation = await self._desktop.observe(WANT)
            frame, facts = _frame_of(observation), _facts(observation, cursor, title)
            waited_s = time.monotonic() - begun
        equal = frame.sha256 == recorded
        return ReplayStep(
            step=number,
            recorded=recorded,
            replayed=frame.sha256,
            late_ms=1000 * waited_s if equal else 0.0,
            difference=None if equal else self._difference(recorded, frame),
            facts={**facts, **refused},
        )

    def _difference(self, recorded: str, frame: Frame) -> FrameDifference | None:
        try:
            before = Frame.decode(self._read(recorded))
        except BlobMissing:
            before = None
        if self.frames is None:
            self.frames = before, frame
        if before is None:
            return None
        return frame_difference(before, frame)


def _facts(observation: Observation, cursor: tuple[int, int] | None, title: str | None) -> Told:
    active = next((window.title for window in observation.windows or () if window.active), None)
    facts: Told = {}
    if title is not None and title != active:
        facts["active window"] = title, active
    if cursor is not None and cursor != observation.cursor:
        facts["pointer"] = cursor, observation.cursor
    return facts


def _refusals(recorded: tuple[str, ...], actions: tuple[dict[str, Any], ...], result: StepResult) -> Told:
    now = tuple(
        f"{action['kind']}: {done.error}" for action, done in zip(actions, result.actions, strict=False) if not done.ok
    )
    return {} if now == recorded else {"refused actions": (recorded, now)}


async def _compare_ending(
    desktop: Desktop, task: EpisodeTask, trajectory: Trajectory, read: Callable[[str], bytes], limits: Limits
) -> Told:
    if trajectory.reward is None:
        return {}
    final = None if trajectory.final_action is None else parse_action(trajectory.final_action)
    late = GraderFailed(f"the grading was not over after {limits.grade_limit_s:g} s")
    grade = await within(limits.grade_limit_s, task.grade(desktop, final), late)
    found: Told = {}
    if grade.score != trajectory.reward:
        found["score"] = trajectory.reward, grade.score
    try:
        before = Evidence.model_validate_json(read(trajectory.evidence or ""))
    except BlobMissing:
        return found
    for name in sorted(before.items.keys() | grade.evidence.items.keys()):
        recorded, now = (_settled(evidence.items.get(name)) for evidence in (before, grade.evidence))
        if recorded != now:
            found[f"evidence {name}"] = recorded, now
    return found


def _settled(item: Any) -> Any:
    """Evidence as plain data, without what is given anew in every desktop."""
    data = item.model_dump(mode="json") if hasattr(item, "model_dump") else item
    if isinstance(data, dict):
        return {key: _settled(value) for key, value in data.items() if key not in GIVEN_ANEW}
    return [_settled(value) for value in data] if isinstance(data, list) else data


def _frame_of(observation: Observation) -> Frame:
    assert observation.frame is not None
    return observation.frame
