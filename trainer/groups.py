"""Groups on their way from plan to update, and the rule that bounds how stale they may become.

::

    admit(version v) -> running -> finished: informative? --no--> reported, gone
                                               `--yes--> ready --take--> trained, once

The bound, by construction: a group is admitted under the weights' version v, so none of its tokens is older than v.
At most `groups_per_update * (max_staleness + 1)` groups are out at once, an update takes the oldest ready ones first,
takes more than its share where they would otherwise grow too old, and waits for those that still run and would. So
whatever is trained at version u was admitted at v >= u - max_staleness.

Groups without a difference teach nothing, and a run of nothing but those would never end: `Groups.flat` counts them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from store.trajectory import Trajectory
from trainer.advantages import group_advantages
from trainer.learner_process import Weighed

__all__ = ["FlatRun", "Group", "Groups", "Ledger", "weigh"]


@dataclass(kw_only=True)
class Group:
    """The attempts of one task that are compared with each other."""

    id: str
    task: str
    n: int
    version: int
    """Of the weights when it was admitted."""
    trajectories: list[Trajectory] = field(default_factory=list)
    """With a reward, in the order of their ids; infra errors are missing."""
    rewards: list[float] = field(default_factory=list)

    @property
    def informative(self) -> bool:
        """Whether any attempt was better than another."""
        return len(set(self.rewards)) > 1


@dataclass(kw_only=True, slots=True)
class FlatRun:
    """The groups since the last one that taught anything."""

    solved: int = 0
    """Every attempt passed."""
    unsolved: int = 0
    """No attempt passed, and none was better than another."""
    lost: int = 0
    """Fewer than two attempts had a reward."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.solved + self.unsolved + self.lost

    def add(self, group: Group) -> None:
        """Count a group that is not informative."""
        if len(group.rewards) < 2:
            self.lost += 1
        elif min(group.rewards) >= 1:
            self.solved += 1
        else:
            self.unsolved += 1

    def __str__(self) -> str:
        """For people: what happened, and what to do about it."""
        found = (
            f"the last {self.total} groups taught nothing: {self.solved} were passed by every attempt, in "
            f"{self.unsolved} no attempt was better than another, and {self.lost} were lost to failures of the machine"
        )
        advice = {
            self.lost: "`frontdesk doctor` examines the machine",
            self.unsolved: "the tasks are out of reach: teach more in the warm start (its demonstrations and updates), "
            "or choose easier ones",
            self.solved: "the tasks are mastered: make others with `frontdesk synth --count 30`",
        }
        return f"{found}; {advice[max(self.solved, self.unsolved, self.lost)]}"


class Groups:
    """All groups that are out.

    Args:
        per_update: groups that an update waits for.
        max_staleness: versions.
    """

    def __init__(self, *, per_update: int, max_staleness: int) -> None:
        self.running: dict[str, Group] = {}
        self.ready: list[Group] = []
        """Informative ones, the oldest version first."""
        self.flat = FlatRun()
        self._per_update = per_update
        self._max_staleness = max_staleness

    @property
    def room(self) -> bool:
        """Whether another group may be admitted now."""
        return len(self.running) + len(self.ready) < self._per_update * (self._max_staleness + 1)

    def admit(self, group: Group) -> None:
        """Charge a slot."""
        assert self.room, "no slot is free"
        self.running[group.id] = group

    def finish(self, group: Group) -> bool:
        """A group has ended; say whether it will be trained on."""
        del self.running[group.id]
        if group.informative:
            self.flat = FlatRun()
            self.ready.append(group)
            self.ready.sort(key=lambda each: (each.version, each.id))
        else:
            self.flat.add(group)
        return group.informative

    def take(self, version: int) -> list[Group]:
        """The groups of an update of this version; empty while the update must wait."""
        last_chance = version - self._max_staleness
        if len(self.ready) < self._per_update or any(each.version <= last_chance for each in self.running.values()):
            return []
        num_last = sum(each.version <= last_chance for each in self.ready)
        count = max(self._per_update, num_last)
        taken, self.ready = self.ready[:count], self.ready[count:]
        return taken


class Ledger:
    """Which attempts were trained on, and in which update. Saved with the weights, so both tell of one history."""

    def __init__(self, trained: dict[str, int] | None = None) -> None:
        self.trained = trained or {}

    def enter(self, trajectories: Sequence[Trajectory], step: int) -> None:
        """Note an update's attempts.

        Raises:
            AssertionError: one was trained on before (promise 5).
        """
        for trajectory in trajectories:
            before = self.trained.get(trajectory.id)
            assert before is None, f"{trajectory.id} was trained on in update {before} already"
            self.trained[trajectory.id] = step


def weigh(groups: Sequence[Group], *, shuffle: random.Random | None = None) -> list[Weighed]:
    """The attempts of an update with their advantages.

    Args:
        shuffle: deals the update's rewards out among its attempts at random: the control that must learn nothing.
    """
    rewards = [reward for group in groups for reward in group.rewards]
    if shuffle is not None:
        shuffle.shuffle(rewards)
    weighed = []
    for group in groups:
        mine, rewards = rewards[: len(group.rewards)], rewards[len(group.rewards) :]
        advantages = group_advantages(mine)
        weighed += [
            Weighed(trajectory=trajectory, advantage=advantage)
            for trajectory, advantage in zip(group.trajectories, advantages, strict=True)
        ]
    return weighed
