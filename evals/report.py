"""What a report of attempts says, as data; `evals.markdown` and `evals.page` render it.

It always shows infra errors apart from failures, intervals with every rate, the hash of the task set, and says when a
baseline is missing that would show what doing nothing scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.film import BlobSource, Film, film_of
from evals.outcomes import Comparison, OutcomeTable, compare, summarize
from store.trajectory import Trajectory

__all__ = ["PHASES", "Report", "TimeSpent", "build_report"]

PHASES = ("setup", "policy", "desktop", "grade", "other")
"""Where an attempt's time goes: `desktop` is acting, settling and looking; `other` holds the first look."""
BASELINES = {"noop": "doing nothing", "always-infeasible": "calling every task infeasible"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSpent:
    """Where the time of one actor's attempts went."""

    num_attempts: int
    num_turns: int
    seconds: Mapping[str, float]
    """Seconds by phase, all attempts together."""

    @property
    def total_s(self) -> float:
        """All of it."""
        return sum(self.seconds.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A report of attempts."""

    title: str
    table: OutcomeTable
    names: Mapping[str, str]
    """What to call each task."""
    comparisons: tuple[Comparison, ...]
    """Every pair of actors that share tasks."""
    times: Mapping[str, TimeSpent]
    """By actor."""
    films: tuple[Film, ...]
    """One attempt of each actor."""
    notes: tuple[str, ...]
    """What a reader must know to read the numbers right."""


def build_report(
    trajectories: Sequence[Trajectory],
    *,
    title: str,
    blobs: BlobSource,
    names: Mapping[str, str] | None = None,
) -> Report:
    """Collect what a report says.

    Args:
        blobs: holds the screenshots.
        names: what to call tasks; others are called by their instruction.
    """
    table = summarize(trajectories)
    instructions = {trajectory.task_id: trajectory.instruction for trajectory in trajectories}
    by_actor = {actor: [one for one in trajectories if one.actor == actor] for actor in table.actors}
    comparisons = (compare(table, first, second) for first, second in itertools.combinations(table.actors, 2))
    return Report(
        title=title,
        table=table,
        names={task: (names or {}).get(task) or instructions[task] for task in table.tasks},
        comparisons=tuple(comparison for comparison in comparisons if comparison.num_tasks),
        times={actor: _time_spent(attempts) for actor, attempts in by_actor.items()},
        films=tuple(film_of(_most_telling(attempts), blobs) for attempts in by_actor.values()),
        notes=tuple(_notes(table)),
    )


def _time_spent(trajectories: Sequence[Trajectory]) -> TimeSpent:
    seconds = dict.fromkeys(PHASES, 0.0)
    for trajectory in trajectories:
        spent = {
            "setup": trajectory.timings_ms.get("setup", 0.0) / 1000,
            "grade": trajectory.timings_ms.get("grade", 0.0) / 1000,
            "policy": sum(turn.timings_ms.get("policy", 0.0) for turn in trajectory.turns) / 1000,
            "desktop": sum(turn.timings_ms.get("step", 0.0) for turn in trajectory.turns) / 1000,
        }
        spent["other"] = max(0.0, trajectory.seconds - sum(spent.values()))
        for phase, value in spent.items():
            seconds[phase] += value
    num_turns = sum(len(trajectory.turns) for trajectory in trajectories)
    return TimeSpent(num_attempts=len(trajectories), num_turns=num_turns, seconds=seconds)


def _most_telling(trajectories: Sequence[Trajectory]) -> Trajectory:
    """A passed attempt rather than a failed one rather than none, and the longest of those."""
    rank = {"pass": 2, "fail": 1, "infra_error": 0}
    return max(trajectories, key=lambda one: (rank[one.outcome], len(one.turns), one.id))


def _notes(table: OutcomeTable) -> list[str]:
    notes = [
        f"No baseline of {meaning} was run, so what that scores is not known (actor {actor})."
        for actor, meaning in BASELINES.items()
        if actor not in table.actors
    ]
    infra = sum(table.total(actor).infra for actor in table.actors)
    if infra:
        notes.append(f"{infra} of the attempts ended by infra errors; they are in no rate.")
    if any(count.trials > 1 for count in table.cells.values()):
        notes.append(
            "Tasks were attempted several times; the intervals take attempts for independent, so they are too narrow."
        )
    return notes
