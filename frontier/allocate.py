"""Filling a budget with groups, best first, under caps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Filling", "best_first"]


class Filling:
    """The groups of one plan so far.

    Args:
        budget: rollouts.
        labels: caps by kind of label; each is the label of every task (-1: none) and the groups that one label may
            have in this plan.
    """

    def __init__(self, budget: int, labels: Iterable[tuple[NDArray[Any], int]]) -> None:
        self.left = budget
        self.chosen: list[tuple[int, int]] = []
        self._labels = [(of_task, cap, Counter[int]()) for of_task, cap in labels]
        self._tasks: set[int] = set()

    def offer(self, task: int, n: int, *, capped: bool = True) -> bool:
        """Take a group unless it breaks the budget or a cap; a task is taken once."""
        if n > self.left or task in self._tasks:
            return False
        used = [(int(of_task[task]), cap, count) for of_task, cap, count in self._labels]
        if capped and any(label >= 0 and count[label] >= cap for label, cap, count in used):
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
