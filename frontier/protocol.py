"""What a sampler is: it decides which task is practised next, and by how many rollouts.

::

    plan(budget, version) -> allocations --- rollouts run ---> record(outcome) ... the group closes by itself
                                          |-- given up ------> cancel(group_id)
                                          `-- task is gone --> retire(task)

A sampler is plain arithmetic on outcomes: no clock, no I/O, no thread. Equal seeds, pools and calls give equal plans,
and `restore(state())` changes nothing, so a killed run continues as if it had not been.

Rules that every sampler keeps (property tests):

* A plan never exceeds its budget, and n is chosen before any outcome of the group is known.
* A group in flight counts as practice that its task already has.
* `record` is idempotent by rollout id. Outcomes may come in any order, late (of an older version), for some of a
  group's rollouts only, or after the group was cancelled.
* An infra_error is missing data: never a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = [
    "Allocation",
    "AsksForGates",
    "GateRequest",
    "RolloutOutcome",
    "Sampler",
    "TakesGroups",
    "TaskInfo",
    "Verdict",
]

Verdict = Literal["pass", "fail", "infra_error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskInfo:
    """What is known of a task before anybody practises it."""

    task: str
    """The task's id."""
    cell: str = ""
    """App and skill: tasks of one cell improve together."""
    seed_state: str = ""
    """The start state that it was made from; empty when it shares it with no other."""
    template: str = ""
    """The recipe that it was made by; empty when it shares it with no other."""
    turns: float = 10.0
    """Turns that a rollout is expected to take."""
    seconds_per_turn: float = 1.0
    pilot_passes: int = 0
    """Passes among the pilot rollouts of its gates."""
    pilot_rollouts: int = 0

    def __post_init__(self) -> None:
        if self.turns <= 0 or self.seconds_per_turn <= 0:
            raise ValueError(f"task {self.task}: turns and seconds per turn must be above 0")
        if not 0 <= self.pilot_passes <= self.pilot_rollouts:
            raise ValueError(f"task {self.task}: {self.pilot_passes} passes of {self.pilot_rollouts} pilot rollouts")


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """A group to run: n rollouts of one task."""

    group_id: str
    """Unique in the run."""
    task: str
    """The task's id."""
    n: int
    """Rollouts; at least 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutOutcome:
    """How one rollout of a group ended."""

    rollout_id: str
    """Unique; recording the same id again changes nothing."""
    group_id: str
    task: str
    version: int
    """Weight version that acted; may be older than the version now."""
    verdict: Verdict
    reward: float | None
    """In [0, 1]; None exactly for an infra_error."""
    seconds: float = 0.0
    """What it cost."""

    def __post_init__(self) -> None:
        if (self.verdict == "infra_error") != (self.reward is None):
            raise ValueError(f"rollout {self.rollout_id}: a reward is given exactly when it passed or failed")


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRequest:
    """A task whose check is doubted: its gates should run again, and their answer decides."""

    task: str
    reason: str
    """One sentence."""


class Sampler(Protocol):
    """Decides what is practised."""

    def add(self, tasks: Iterable[TaskInfo]) -> None:
        """Take new tasks into the pool; a retired one comes back with what is known of it.

        Raises:
            ValueError: a task is in the pool already.
        """
        ...

    def retire(self, task: str) -> None:
        """Take a task out of the pool: its groups in flight are cancelled, and it is never planned again.

        Retiring it twice changes nothing.

        Raises:
            ValueError: the task was never in the pool.
        """
        ...

    def plan(self, budget: int, version: int) -> list[Allocation]:
        """Choose the groups to start now.

        Args:
            budget: rollouts that can be started; what is left of it is too little for another group.
            version: the policy's weight version now.
        """
        ...

    def record(self, outcome: RolloutOutcome) -> bool:
        """Take in one outcome.

        Returns:
            False when this rollout was recorded before and nothing changed.

        Raises:
            ValueError: the group belongs to another task.
        """
        ...

    def cancel(self, group_id: str) -> None:
        """Give up the rest of a group; outcomes that were recorded stay. Unknown and closed groups are ignored."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything it knows, as JSON data."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of an equally configured sampler.

        Tasks that only this sampler has join as new ones; those that only the state has are retired.

        Raises:
            ValueError: the state is of another kind, configuration or version; nothing changed.
        """
        ...


@runtime_checkable
class TakesGroups(Protocol):
    """A sampler that takes whole groups at once, which is quicker."""

    def record_group(self, group_id: str, *, version: int, passes: int, graded: int, seconds: float = 0.0) -> bool:
        """Take in a group of which nothing is recorded yet; `seconds` is of one rollout."""
        ...


@runtime_checkable
class AsksForGates(Protocol):
    """A sampler that doubts tasks."""

    def gate_requests(self) -> list[GateRequest]:
        """The tasks whose gates should run now; each stays in the list until an answer decides."""
        ...

    def gate_answer(self, task: str, *, passed: bool, version: int) -> None:
        """Tell what the gates of a task said; of a retired task it is ignored.

        Gates err, so a pass may leave the task held and asked for once more.

        Raises:
            ValueError: no gates were asked for.
        """
        ...

    def held(self) -> dict[str, str]:
        """The tasks that it does not spend rollouts on because their check is doubted (QUARANTINE) or bad (BROKEN)."""
        ...
