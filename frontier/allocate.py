"""Filling a budget with groups, best first, under caps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cap", "Filling", "best_first", "equal_share"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cap:
    """How many groups one label may have."""

    labels: NDArray[Any]
    """Of every task; -1: none."""
    limit: int
    before: Sequence[int] = ()
    """Tasks of groups that were planned before and count."""


class Filling:
    """The groups of one plan so far.

    Args:
        budget: rollouts.
        caps: hold all at once.
    """

    def __init__(self, budget: int, caps: Iterable[Cap]) -> None:
        self.left = budget
        self.chosen: list[tuple[int, int]] = []
        self._caps = [(cap, Counter[int](cap.labels[list(cap.before)].tolist())) for cap in caps]
        self._tasks: set[int] = set()

    def offer(self, task: int, n: int, *, capped: bool = True) -> bool:
        """Take a group unless it breaks the budget or a cap; a task is taken once."""
        if n > self.left or task in self._tasks:
            return False
        used = [(int(cap.labels[task]), cap.limit, count) for cap, count in self._caps]
        if capped and any(label >= 0 and count[label] >= limit for label, limit, count in used):
            return False
        for label, _, count in used:
            count[label] += 1
        self._tasks.add(task)
        self.chosen.append((task, n))
        self.left -= n
        return True

    def next_round(self) -> None:
        """Allow every task once more."""
        self._tasks = set()


def equal_share(labels: NDArray[Any], groups: int, at_least: int) -> int:
    """How many of these groups one label may have: `at_least`, or more where labels are so few that all need more.

    Args:
        labels: that occur; -1 is none.
    """
    num_labels = max(1, int((np.unique(labels) >= 0).sum()))
    return max(at_least, -(-at_least * groups // num_labels))


def best_first(value: NDArray[np.float64], first: int) -> Iterable[int]:
    """Places of finite values from the largest down; sorts only as far as it is asked for, and then repeats itself.

    Args:
        value: [N]; -inf for places that must not come.
        first: how many are likely to be asked for.
    """
    alive = int(np.isfinite(value).sum())
    given = 0
    while given < alive:
        until = min(alive, max(first, given * 4))
        top = np.argpartition(-value, until - 1)[:until] if until < value.size else np.arange(value.size)
        top = top[np.lexsort((top, -value[top]))][:until]
        # From the top again: places with equal values may have changed sides of the cut.
        yield from top.tolist()
        given = until
