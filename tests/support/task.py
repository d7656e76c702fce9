"""A task whose setup and grading are functions of the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.task import CheckResult, Grade
from sandbox.actions import Action
from sandbox.desktop import Desktop
from sandbox.evidence import Evidence

__all__ = ["FakeTask", "make_grade"]


def make_grade(score: float, *, reason: str = "as scripted") -> Grade:
    """A grade with one check of this score."""
    check = CheckResult(name="check", score=score, reason=reason)
    return Grade(score=score, checks=(check,), evidence=Evidence(items={}, clock_s=0.0), verifier_id="fake-verifier")


@dataclass(kw_only=True)
class FakeTask:
    """An EpisodeTask. By default it needs no setup and passes exactly when the policy ends with `done`."""

    id: str = "task-1"
    instruction: str = "Do the scripted thing."
    max_steps: int = 10
    time_limit_s: float = 30.0
    split: str = "train"
    setup_error: BaseException | None = None
    """Raised by prepare."""
    grade_with: Callable[[Action | None], Grade] | None = None
    """Gives the grade, or raises."""
    prepared: list[Desktop] = field(default_factory=list)
    graded: list[Action | None] = field(default_factory=list)
    """The final action of every grading."""

    async def prepare(self, desktop: Desktop) -> None:
        self.prepared.append(desktop)
        if self.setup_error is not None:
            raise self.setup_error

    async def grade(self, desktop: Desktop, final: Action | None) -> Grade:
        self.graded.append(final)
        if self.grade_with is not None:
            return self.grade_with(final)
        return make_grade(1.0 if final is not None and final.kind == "done" else 0.0)
