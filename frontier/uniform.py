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

from frontier.protocol import Allocation, RolloutOutcome, TaskInfo

__all__ = ["UniformSampler"]

_KIND = "uniform"


class UniformSampler:
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
        pool = list(tasks)
        if len(set(pool)) != len(pool):
            raise ValueError(f"the pool names a task twice: {sorted({task for task in pool if pool.count(task) > 1})}")
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1, got {group_size}")
        self._seed = seed
        self._group_size = group_size
        self._prefix = prefix
        self._rounds: dict[str, int] = {}
        self._queue: dict[str, tuple[int, bytes, str]] = {}
        """The place of each task: its groups so far, chance, its id."""
        for task in pool:
            self._set(task, 0)
        self._open: dict[str, _OpenGroup] = {}
        self._recorded: set[str] = set()
        self._next_group = 0

    def add(self, tasks: Iterable[TaskInfo]) -> None:
        """Take new tasks in, at the fewest groups of the old ones."""
        new = [info.task for info in tasks]
        if taken := sorted({task for task in new if task in self._rounds or new.count(task) > 1}):
            raise ValueError(f"the pool has these tasks already: {taken}")
        floor = min(self._rounds.values(), default=0)
        for task in new:
            self._set(task, floor)

    def plan(self, budget: int, version: int) -> list[Allocation]:
        """Fill the budget with groups of tasks that have had the fewest."""
        queue = list(self._queue.values())
        heapq.heapify(queue)
        plan: list[Allocation] = []
        while queue and budget >= self._group_size:
            rounds, _, task = queue[0]
            group_id = f"{self._prefix}{self._next_group:06d}"
            self._next_group += 1
            self._set(task, rounds + 1)
            heapq.heapreplace(queue, self._queue[task])
            self._open[group_id] = _OpenGroup(task, self._group_size)
            plan.append(Allocation(group_id=group_id, task=task, n=self._group_size))
            budget -= self._group_size
        return plan

    def record(self, outcome: RolloutOutcome) -> bool:
        """Count the rollout towards its group, which closes with the last of them."""
        if outcome.rollout_id in self._recorded:
            return False
        group = self._open.get(outcome.group_id)
        if group is not None and group.task != outcome.task:
            raise ValueError(
                f"rollout {outcome.rollout_id} is of task {outcome.task}, its group {outcome.group_id} of {group.task}"
            )
        self._recorded.add(outcome.rollout_id)
        if group is not None:
            group.missing -= 1
            if group.missing == 0:
                del self._open[outcome.group_id]
        return True

    def record_group(self, group_id: str, *, version: int, passes: int, graded: int, seconds: float = 0.0) -> bool:
        """Close an open group without any outcome yet; what came of it does not matter here."""
        group = self._open.get(group_id)
        if group is None or group.missing != self._group_size:
            return False
        del self._open[group_id]
        return True

    def cancel(self, group_id: str) -> None:
        """Close the group; a group without any outcome no longer counts as practice of its task."""
        group = self._open.pop(group_id, None)
        if group is not None and group.missing == self._group_size and group.task in self._rounds:
            self._set(group.task, self._rounds[group.task] - 1)

    @property
    def in_flight(self) -> dict[str, int]:
        """Rollouts that are still missing, by open group."""
        return {group_id: group.missing for group_id, group in self._open.items()}

    def state(self) -> dict[str, Any]:
        """Everything it knows, as JSON data."""
        return {
            "kind": _KIND,
            "seed": self._seed,
            "group_size": self._group_size,
            "next_group": self._next_group,
            "rounds": dict(self._rounds),
            "open": {group_id: [group.task, group.missing] for group_id, group in self._open.items()},
            "recorded": sorted(self._recorded),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. Tasks that are new since then join at the fewest groups of the old ones.

        Raises:
            ValueError: the state is not of a uniform sampler with this seed and group size.
        """
        mine = {"kind": _KIND, "seed": self._seed, "group_size": self._group_size}
        saved = {key: state.get(key) for key in mine}
        if saved != mine:
            raise ValueError(f"cannot restore a sampler {mine} from the state of {saved}; keep the run's settings")
        known = {task: state["rounds"][task] for task in self._rounds if task in state["rounds"]}
        floor = min(known.values(), default=0)
        for task in self._rounds:
            self._set(task, known.get(task, floor))
        self._open = {group_id: _OpenGroup(task, missing) for group_id, (task, missing) in state["open"].items()}
        self._recorded = set(state["recorded"])
        self._next_group = state["next_group"]

    def _set(self, task: str, rounds: int) -> None:
        chance = hashlib.blake2b(f"{self._seed}:{rounds}:{task}".encode(), digest_size=8).digest()
        self._rounds[task] = rounds
        self._queue[task] = (rounds, chance, task)


class _OpenGroup:
    __slots__ = ("missing", "task")

    def __init__(self, task: str, missing: int) -> None:
        self.task = task
        self.missing = missing
