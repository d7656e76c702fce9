"""What a learning run hands over to be reported: counts, attempts and times, as they were recorded."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from store.trajectory import Trajectory

if TYPE_CHECKING:
    from verigen.synth import GateYield

__all__ = [
    "CurvePoint",
    "Evaluation",
    "HeldOutTask",
    "LearningRun",
    "Synthesis",
    "TimeUse",
    "training_curve",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutTask:
    """A task of the suite."""

    id: str
    instruction: str
    apps: tuple[str, ...]
    skills: tuple[str, ...]
    template: str
    """The recipe that it was made by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Attempts of one policy at the suite."""

    name: str
    """E.g. `warm start, greedy`, `black screens`, `noop`."""
    trajectories: Sequence[Trajectory]
    """Whatever their actors are called."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Synthesis:
    """Tasks that this run made, and shipped ones that it proved again."""

    gates: tuple[GateYield, ...] = ()
    """Of the new ones, in their order (`verigen.synth.yields`)."""
    left_open: int = 0
    """New ones that were neither admitted nor rejected, because the machine failed or the run was stopped."""
    reproven: int = 0
    """Shipped tasks whose gates were run again."""
    still_pass: int = 0
    """Of those."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """A success rate at one time of practice."""

    updates: float
    seconds: float
    """Of practice, by the clock."""
    episodes: int
    """Attempts of practice until then."""
    passed: int
    trials: int
    """Judged attempts that the rate is of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeUse:
    """Where the time went, in seconds by name, in the order to show."""

    phases: Mapping[str, float]
    """Of the whole run, by the clock: set-up, proving tasks, demonstrations, imitation, practice, evaluation."""
    attempts: Mapping[str, float]
    """Of practice's attempts, added up: policy, desktop, setup, grade. Many run at once, so this exceeds the clock."""
    learner: Mapping[str, float]
    """Of practice's clock, what the learner took while attempts went on: update, hand-over."""
    practice_s: float
    """Practice by the clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRun:
    """A whole run: tasks made, a policy warmed up, practice, and what it came to on tasks that it never practised."""

    title: str
    tasks: tuple[HeldOutTask, ...]
    evaluations: tuple[Evaluation, ...]
    """In the order to show."""
    pairs: tuple[tuple[str, str], ...]
    """Names of evaluations before and after practice, the headline first; none where practice has not been."""
    synthesis: Synthesis = Synthesis()
    training: tuple[CurvePoint, ...] = ()
    """Attempts of practice, counted in bins (`training_curve`)."""
    held_out: Mapping[str, tuple[CurvePoint, ...]] | None = None
    """Evaluations at times of practice, by the name of their line; without, the pairs are drawn."""
    frontier: Mapping[str, Any] | None = None
    """From `frontier.view.frontier_map`."""
    time: TimeUse | None = None
    notes: tuple[str, ...] = ()
    """Plain sentences: the settings, and what limits the result."""


def training_curve(attempts: Sequence[tuple[float, float, str]], *, num_bins: int = 16) -> tuple[CurvePoint, ...]:
    """Attempts of practice in their order, in bins of equally many judged ones.

    Args:
        attempts: of each the updates so far, the seconds of practice when it ended, and its outcome.

    Returns:
        One point a bin, at the middle of its attempts; infra errors count as episodes and are in no rate.
    """
    judged = [
        (updates, seconds, episodes, outcome == "pass")
        for episodes, (updates, seconds, outcome) in enumerate(sorted(attempts, key=lambda each: each[1]), start=1)
        if outcome != "infra_error"
    ]
    edges = [round(k * len(judged) / num_bins) for k in range(num_bins + 1)]
    bins = [judged[low:high] for low, high in itertools.pairwise(edges) if high > low]
    return tuple(
        CurvePoint(
            updates=sum(each[0] for each in members) / len(members),
            seconds=sum(each[1] for each in members) / len(members),
            episodes=members[-1][2],
            passed=sum(each[3] for each in members),
            trials=len(members),
        )
        for members in bins
    )
