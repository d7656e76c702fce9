"""Outcomes counted: by task and actor, with infra errors apart, and two actors compared on the tasks they share.

An infra_error is missing data. It is counted and shown, and is in no rate, interval or test.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from evals.stats import Interval, mcnemar_exact, sign_flip_test, wilson_interval

__all__ = ["Attempt", "Comparison", "OutcomeCount", "OutcomeTable", "compare", "summarize"]


class Attempt(Protocol):
    """What counting needs of an attempt: a trajectory or a catalog row."""

    @property
    def task_id(self) -> str: ...

    @property
    def actor(self) -> str: ...

    @property
    def outcome(self) -> str:
        """pass, fail or infra_error."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeCount:
    """How attempts ended."""

    passed: int = 0
    failed: int = 0
    infra: int = 0
    """Attempts that say nothing about the actor."""

    @property
    def trials(self) -> int:
        """Attempts that were judged."""
        return self.passed + self.failed

    @property
    def rate(self) -> float | None:
        """Share of judged attempts that passed; None without any."""
        return self.passed / self.trials if self.trials else None

    @property
    def interval(self) -> Interval:
        """95 % Wilson interval of the rate, as if attempts were independent."""
        return wilson_interval(self.passed, self.trials)

    def __add__(self, other: OutcomeCount) -> OutcomeCount:
        return OutcomeCount(
            passed=self.passed + other.passed, failed=self.failed + other.failed, infra=self.infra + other.infra
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeTable:
    """Counts by task and actor."""

    tasks: tuple[str, ...]
    """Ids, sorted."""
    actors: tuple[str, ...]
    """In the order in which they first appear."""
    cells: Mapping[tuple[str, str], OutcomeCount]
    """By task and actor; a pair without attempts is not there."""

    def cell(self, task: str, actor: str) -> OutcomeCount:
        """The counts of one pair; zeros when it has no attempts."""
        return self.cells.get((task, actor), OutcomeCount())

    def total(self, actor: str) -> OutcomeCount:
        """The counts of one actor over all tasks."""
        return sum((self.cell(task, actor) for task in self.tasks), OutcomeCount())

    @property
    def task_set_hash(self) -> str:
        """Names the set of tasks: two tables with equal hashes are about the same tasks."""
        return hashlib.sha256("\n".join(self.tasks).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two actors on the tasks that both were judged on."""

    first: str
    second: str
    num_tasks: int
    difference: float
    """Mean over tasks of the first's rate minus the second's."""
    p_value: float
    """Two-sided."""
    method: Literal["McNemar", "sign flips"]
    """McNemar's exact test where each task was judged once for each; else sign flips of per-task differences."""


def summarize(attempts: Iterable[Attempt]) -> OutcomeTable:
    """Count attempts.

    Raises:
        ValueError: an outcome is none of pass, fail and infra_error.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    actors: dict[str, None] = {}
    for attempt in attempts:
        if attempt.outcome not in ("pass", "fail", "infra_error"):
            raise ValueError(f"unknown outcome {attempt.outcome!r} at task {attempt.task_id}")
        actors[attempt.actor] = None
        counts[attempt.task_id, attempt.actor, attempt.outcome] += 1
    cells = {
        (task, actor): OutcomeCount(
            passed=counts[task, actor, "pass"],
            failed=counts[task, actor, "fail"],
            infra=counts[task, actor, "infra_error"],
        )
        for task, actor, _ in counts
    }
    return OutcomeTable(tasks=tuple(sorted({task for task, _ in cells})), actors=tuple(actors), cells=cells)


def compare(table: OutcomeTable, first: str, second: str) -> Comparison:
    """Compare two actors on the tasks that both were judged on."""
    pairs = [(table.cell(task, first), table.cell(task, second)) for task in table.tasks]
    pairs = [(one, other) for one, other in pairs if one.trials and other.trials]
    differences = [one.passed / one.trials - other.passed / other.trials for one, other in pairs]
    once = all(one.trials == 1 and other.trials == 1 for one, other in pairs)
    if once:
        p_value = mcnemar_exact(sum(gap > 0 for gap in differences), sum(gap < 0 for gap in differences))
    else:
        p_value = sign_flip_test(differences)
    return Comparison(
        first=first,
        second=second,
        num_tasks=len(pairs),
        difference=sum(differences) / len(pairs) if pairs else 0.0,
        p_value=p_value,
        method="McNemar" if once else "sign flips",
    )
