"""What samplers that learn from outcomes share: groups in flight, and outcomes kept until the next plan.

::

    plan -> open group -- record x n --> closed --.
                |`-- cancel, retire ---> ended ----+--> next plan: digested in the order of the groups' numbers
                |                          `-- late outcomes of an ended group count as well
                `-- never ended: in flight

Outcomes change nothing until the next plan, which takes them in the order of their groups. So what a sampler knows
does not depend on the order in which outcomes came between two plans.

An outcome of a group that is complete, unknown or cancelled more than `LATE_VERSIONS` ago is dropped. So the memory of
rollout ids is bounded by the groups in flight and the recently cancelled ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from frontier.protocol import Allocation, RolloutOutcome, TaskInfo
from frontier.saved import check_saved

__all__ = ["LATE_VERSIONS", "BufferedSampler", "GroupResult"]

LATE_VERSIONS = 64
"""Versions after which a cancelled group's stragglers are no news."""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What a group, or the late part of a cancelled one, has to say."""

    number: int
    """The group's place in the order of planning."""
    task: str
    version: int
    """The oldest version that acted in it."""
    passes: int
    graded: int
    """Rollouts that passed or failed; 0 when the infrastructure failed them all."""
    seconds_ms: int
    """Of the graded rollouts together. Whole, so that their sum has no order."""


class BufferedSampler(ABC):
    """A `Sampler` whose subclass says which groups to start and what closed groups mean.

    Args:
        prefix: starts every group id.
    """

    def __init__(self, *, prefix: str) -> None:
        self._prefix = prefix
        self._next_group = 0
        self._open: dict[str, _Group] = {}
        self._ended: dict[str, _Group] = {}
        self._news: dict[int, GroupResult] = {}
        self._version = 0
        self._retired: set[str] = set()

    @abstractmethod
    def _admit(self, infos: list[TaskInfo]) -> None:
        """Take tasks in that were never in the pool, in the order of their names."""

    @abstractmethod
    def _leave(self, task: str) -> None:
        """Note that a task was retired."""

    @abstractmethod
    def _come_back(self, task: str) -> None:
        """Note that a retired task is in the pool again."""

    @abstractmethod
    def _digest(self, results: list[GroupResult], version: int) -> None:
        """Learn from closed groups, given in the order of their numbers."""

    @abstractmethod
    def _choose(self, budget: int, version: int) -> list[tuple[str, int]]:
        """Tasks and rollouts of the groups to start, within the budget."""

    @abstractmethod
    def _infos_known(self) -> dict[str, TaskInfo]:
        """The tasks that are or were in the pool, by id."""

    @abstractmethod
    def _read(self, state: Mapping[str, Any]) -> None:
        """Take over what the subclass has put into `state`."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything it knows, as JSON data."""

    @abstractmethod
    def _knows(self, task: str) -> bool:
        """Whether the task is or was in the pool."""

    def add(self, tasks: Iterable[TaskInfo]) -> None:
        """Take new tasks into the pool; retired ones come back as they were."""
        infos = sorted(tasks, key=lambda info: info.task)
        names = [info.task for info in infos]
        taken = {name for name in names if self._knows(name) and name not in self._retired}
        if taken or len(set(names)) != len(names):
            twice = taken or {name for name, number in Counter(names).items() if number > 1}
            raise ValueError(f"a task is in the pool already: {sorted(twice)[0]}")
        self._admit([info for info in infos if info.task not in self._retired])
        for name in [name for name in names if name in self._retired]:
            self._retired.discard(name)
            self._come_back(name)

    def retire(self, task: str) -> None:
        """Take a task out of the pool; its groups in flight are cancelled, and it is not planned again."""
        if not self._knows(task):
            raise ValueError(f"task {task} was never in the pool, so it cannot be retired")
        if task in self._retired:
            return
        for group_id in [group_id for group_id, group in self._open.items() if group.task == task]:
            self.cancel(group_id)
        self._retired.add(task)
        self._leave(task)

    def plan(self, budget: int, version: int) -> list[Allocation]:
        """Learn from what was recorded, then choose the groups to start."""
        self._absorb(version)
        chosen = self._choose(budget, version) if budget > 0 else []
        return [self._start(task, n, version) for task, n in chosen]

    def record(self, outcome: RolloutOutcome) -> bool:
        """Take in one outcome; it tells at the first plan after its group has closed."""
        group = self._open.get(outcome.group_id)
        late = group is None
        if group is None:
            group = self._ended.get(outcome.group_id)
        if group is None:
            return False
        if group.task != outcome.task:
            raise ValueError(
                f"rollout {outcome.rollout_id} is of task {outcome.task}, its group {outcome.group_id} of {group.task}"
            )
        if outcome.rollout_id in group.seen or len(group.seen) == group.n:
            return False
        group.seen.add(outcome.rollout_id)
        if outcome.verdict != "infra_error":
            passed = outcome.verdict == "pass"
            group.take(passed=passed, version=outcome.version, seconds_ms=round(outcome.seconds * 1000))
        if late:
            self._report(group)
        elif len(group.seen) == group.n:
            del self._open[outcome.group_id]
            self._report(group)
        return True

    def record_group(self, group_id: str, *, version: int, passes: int, graded: int, seconds: float = 0.0) -> bool:
        """Take in a whole group at once: the same as recording its rollouts one by one.

        Args:
            group_id: an open group without any outcome yet.
            version: weight version that acted.
            passes: rollouts that passed.
            graded: rollouts that passed or failed; the rest of the group are infra errors.
            seconds: of one rollout.

        Returns:
            False when the group is not open or has outcomes already; nothing changed.

        Raises:
            ValueError: the counts do not fit the group.
        """
        group = self._open.get(group_id)
        if group is None or group.seen:
            return False
        if not 0 <= passes <= graded <= group.n:
            raise ValueError(f"group {group_id} has {group.n} rollouts, not {passes} passes of {graded}")
        del self._open[group_id]
        group.passes, group.graded, group.seconds_ms = passes, graded, graded * round(seconds * 1000)
        if graded:
            group.oldest = min(group.oldest, version)
        self._report(group)
        return True

    def cancel(self, group_id: str) -> None:
        """Close the group early; outcomes that still come count as news of their own."""
        group = self._open.pop(group_id, None)
        if group is not None:
            self._ended[group_id] = group
            self._report(group)

    @property
    def in_flight(self) -> dict[str, int]:
        """Rollouts that are still missing, by open group."""
        return {group_id: group.n - len(group.seen) for group_id, group in self._open.items()}

    def _absorb(self, version: int) -> None:
        """Digest the news; time does not run backwards."""
        self._version = max(self._version, version)
        results = [self._news[number] for number in sorted(self._news)]
        self._news = {}
        self._digest([result for result in results if self._knows(result.task)], self._version)
        limit = self._version - LATE_VERSIONS
        self._ended = {group_id: group for group_id, group in self._ended.items() if group.planned >= limit}

    def _start(self, task: str, n: int, version: int) -> Allocation:
        group_id = f"{self._prefix}{self._next_group:06d}"
        self._open[group_id] = _Group(self._next_group, task, n, version)
        self._next_group += 1
        return Allocation(group_id=group_id, task=task, n=n)

    def _report(self, group: _Group) -> None:
        """Move what the group has gathered to the news."""
        told = self._news.get(group.number)
        passes, graded, spent, version = group.passes, group.graded, group.seconds_ms, group.oldest
        if told is not None:
            passes, graded, spent = passes + told.passes, graded + told.graded, spent + told.seconds_ms
            version = min(version, told.version)
        self._news[group.number] = GroupResult(group.number, group.task, version, passes, graded, spent)
        group.passes = group.graded = group.seconds_ms = 0

    def _base_state(self) -> dict[str, Any]:
        return {
            "prefix": self._prefix,
            "next_group": self._next_group,
            "version": self._version,
            "open": {group_id: group.state() for group_id, group in sorted(self._open.items())},
            "ended": {group_id: group.state() for group_id, group in sorted(self._ended.items())},
            "news": [
                [news.number, news.task, news.version, news.passes, news.graded, news.seconds_ms]
                for _, news in sorted(self._news.items())
            ],
            "retired": sorted(self._retired),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; tasks that are new since then join, and those that are gone are retired.

        Raises:
            ValueError: the state is of another kind, configuration or version; nothing changed.
        """
        check_saved(state, self.state())
        mine = {name: info for name, info in self._infos_known().items() if name not in self._retired}
        self._prefix = state["prefix"]
        self._next_group = state["next_group"]
        self._version = state["version"]
        self._open = {group_id: _Group.restored(saved) for group_id, saved in state["open"].items()}
        self._ended = {group_id: _Group.restored(saved) for group_id, saved in state["ended"].items()}
        self._news = {row[0]: GroupResult(*row) for row in state["news"]}
        self._retired = set(state["retired"])
        self._read(state)
        for name in sorted(self._infos_known().keys() - mine.keys() - self._retired):
            self.retire(name)
        self.add([info for name, info in mine.items() if not self._knows(name)])


class _Group:
    """A group that was planned: who it is, and what came back since it was last reported."""

    __slots__ = ("graded", "n", "number", "oldest", "passes", "planned", "seconds_ms", "seen", "task")

    def __init__(self, number: int, task: str, n: int, planned: int) -> None:
        self.number = number
        self.task = task
        self.n = n
        self.planned = planned
        self.oldest = planned
        self.passes = 0
        self.graded = 0
        self.seconds_ms = 0
        self.seen: set[str] = set()

    def take(self, *, passed: bool, version: int, seconds_ms: int) -> None:
        self.oldest = min(self.oldest, version)
        self.passes += passed
        self.graded += 1
        self.seconds_ms += seconds_ms

    def state(self) -> list[Any]:
        head = [self.number, self.task, self.n, self.planned, self.oldest, self.passes, self.graded, self.seconds_ms]
        return [*head, sorted(self.seen)]

    @classmethod
    def restored(cls, saved: list[Any]) -> _Group:
        number, task, n, planned, oldest, passes, graded, seconds_ms, seen = saved
        group = cls(number, task, n, planned)
        group.oldest, group.passes, group.graded, group.seconds_ms = oldest, passes, graded, seconds_ms
        group.seen = set(seen)
        return group
