"""A whole attempt on a real desktop: a script finds its targets, acts, and is judged by what it left behind."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agent import Harness, run_episode
from agent.policies import (
    ClickOn,
    ClickWindow,
    Do,
    NoopPolicy,
    RandomPolicy,
    SayDone,
    ScriptedPolicy,
    ScriptStep,
    WaitWindow,
)
from agent.policy import Policy
from agent.task import Grade
from sandbox.actions import Action, Press, TypeText
from sandbox.backends.local import LocalBackend
from sandbox.desktop import Desktop, DesktopSpec
from sandbox.frame import Frame
from store.trajectory import Trajectory
from tests.support.blobs import FakeBlobs
from tests.support.task import make_grade

pytestmark = pytest.mark.desktop

TEXT = "naïve café ✓"
SCRIPT: tuple[ScriptStep, ...] = (
    WaitWindow(app="mousepad", title_contains="notes", looks=40),
    ClickWindow(app="mousepad", y=0.6),
    Do(action=TypeText(text=TEXT)),
    ClickOn(app="mousepad", role="menu", name="File"),
    ClickOn(app="mousepad", role="menu item", name="Save"),
    SayDone(),
)


@dataclass(frozen=True, kw_only=True)
class WriteNote:
    """Write a text into the open note and save it."""

    id: str = "write-note"
    instruction: str = "Write the text into the note and save it."
    max_steps: int = 60
    time_limit_s: float = 60.0
    split: str = "train"

    async def prepare(self, desktop: Desktop) -> None:
        await desktop.put_file("notes.txt", b"")
        await desktop.spawn(["mousepad", "notes.txt"])

    async def grade(self, desktop: Desktop, final: Action | None) -> Grade:
        saved = await desktop.get_file("notes.txt")
        return make_grade(float(saved.decode().strip() == TEXT))


async def attempt(
    backend: LocalBackend, policy: Policy, blobs: FakeBlobs, *, max_steps: int | None = None
) -> Trajectory:
    limits = Harness().limits.model_copy(update={"max_steps": max_steps})
    desktop = await backend.boot(DesktopSpec(width=640, height=480))
    try:
        return await run_episode(
            desktop,
            WriteNote(),
            Harness(limits=limits, max_side=320),
            policy,
            blobs=blobs,
            seed_env=1,
            seed_sampling=2,
        )
    finally:
        await desktop.close()


async def test_a_script_does_the_task(backend: LocalBackend) -> None:
    blobs = FakeBlobs()
    trajectory = await attempt(backend, ScriptedPolicy(SCRIPT), blobs)
    assert trajectory.error is None
    assert (trajectory.outcome, trajectory.stop_reason) == ("pass", "done")
    assert trajectory.blobs <= set(blobs.data)
    frames = [Frame.decode(blobs.data[turn.frame or ""]) for turn in trajectory.turns]
    assert {(frame.width, frame.height) for frame in frames} == {(640, 480)}
    kinds = [action["kind"] for turn in trajectory.turns for action in turn.actions]
    assert [kind for kind in kinds if kind != "wait"] == ["click", "type", "click", "click", "done"]
    assert all(not turn.action_errors for turn in trajectory.turns)
    typed = next(turn for turn in trajectory.turns if turn.actions[0]["kind"] == "type")
    assert typed.changed
    assert "notes" in typed.facts["active_window"]


async def test_nothing_and_chance_do_not(backend: LocalBackend) -> None:
    for policy in (NoopPolicy(), RandomPolicy()):
        trajectory = await attempt(backend, policy, FakeBlobs(), max_steps=6)
        assert trajectory.error is None
        assert trajectory.outcome == "fail"


async def test_a_target_that_is_not_there_is_named(backend: LocalBackend) -> None:
    script = ScriptedPolicy([*SCRIPT[:1], ClickOn(app="mousepad", role="menu", name="Fil", looks=1), SayDone()])
    trajectory = await attempt(backend, script, FakeBlobs())
    assert trajectory.outcome == "infra_error"
    assert trajectory.error is not None
    assert (trajectory.error.type, trajectory.error.phase) == ("ScriptFailed", "policy")
    assert "'File'" in trajectory.error.message


async def test_a_near_miss_fails(backend: LocalBackend) -> None:
    script = ScriptedPolicy([*SCRIPT[:3], Do(action=Press(keys=("ctrl", "n"))), SayDone()])
    trajectory = await attempt(backend, script, FakeBlobs())
    assert trajectory.error is None
    assert trajectory.outcome == "fail"
