"""Uniform sampling: every task gets the same number of groups, in an order drawn from the seed.

The baseline that the other samplers are measured against. The next group goes to a task with the fewest groups so far
(in flight included); ties go by a random order that is new in each round and depends on the seed alone. So the numbers
of groups of any two tasks differ by at most one while nothing is cancelled, and no task starves.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from frontier.buffered import BufferedSampler, GroupResult
from frontier.protocol import TaskInfo

__all__ = ["UniformSampler"]

_KIND = "uniform"


class UniformSampler(BufferedSampler):
    """A `Sampler` that treats all tasks alike.

    Args:
        tasks: ids of the pool; may be empty, and then every plan is.
        seed: decides the order.
        group_size: rollouts per group.
        prefix: starts every group id; make it the run's id where several runs share a catalog.

    Raises:
        ValueError: an id is there twice, or the group size is below 1.
    """

    def __init__(self, tasks: Iterable[str], *, seed: int, group_size: int = 8, prefix: str = "g") -> None:
        super().__init__(prefix=prefix)
        pool = list(tasks)
        if len(set(pool)) != len(pool):
            raise ValueError(f"the pool names a task twice: {sorted({task for task in pool if pool.count(task) > 1})}")
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1, got {group_size}")
        self._config = {"seed": seed, "group_size": group_size}
        self._rounds: dict[str, int] = {}
        self._queue: dict[str, tuple[int, bytes, str]] = {}
        """The place of each task that is practised: its groups so far, chance, its id."""
        for task in pool:
            self._set(task, 0)

    def _admit(self, infos: list[TaskInfo]) -> None:
        floor = self._floor()
        for info in infos:
            self._set(info.task, floor)

    def _leave(self, task: str) -> None:
        del self._queue[task]

    def _come_back(self, task: str) -> None:
        self._set(task, self._floor())

    def cancel(self, group_id: str) -> None:
        """Close the group; a group without any outcome no longer counts as practice of its task."""
        group = self._open.get(group_id)
        if group is not None and not group.seen and group.task in self._queue:
            self._set(group.task, self._rounds[group.task] - 1)
        super().cancel(group_id)

    def _infos_known(self) -> dict[str, TaskInfo]:
        return {task: TaskInfo(task=task) for task in self._rounds}

    def _knows(self, task: str) -> bool:
        return task in self._rounds

    def _digest(self, results: list[GroupResult], version: int) -> None:
        """What came of the groups does not matter here."""

    def _choose(self, budget: int, version: int) -> list[tuple[str, int]]:
        n = self._config["group_size"]
        queue = list(self._queue.values())
        heapq.heapify(queue)
        chosen: list[tuple[str, int]] = []
        while queue and budget >= n:
            rounds, _, task = queue[0]
            self._set(task, rounds + 1)
            heapq.heapreplace(queue, self._queue[task])
            chosen.append((task, n))
            budget -= n
        return chosen

    def state(self) -> dict[str, Any]:
        """Everything it knows, as JSON data."""
        return self._base_state() | {
            "kind": _KIND,
            "config": dict(self._config),
            "rounds": dict(self._rounds),
        }

    def _read(self, state: Mapping[str, Any]) -> None:
        self._rounds, self._queue = {}, {}
        for task, rounds in state["rounds"].items():
            self._set(task, rounds)
        for task in self._retired:
            del self._queue[task]

    def _floor(self) -> int:
        return min((rounds for rounds, _, _ in self._queue.values()), default=0)

    def _set(self, task: str, rounds: int) -> None:
        chance = hashlib.blake2b(f"{self._config['seed']}:{rounds}:{task}".encode(), digest_size=8).digest()
        self._rounds[task] = rounds
        self._queue[task] = (rounds, chance, task)
