"""What a loop tells of itself: counts that become metrics, and a view for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from store.trajectory import Trajectory

if TYPE_CHECKING:
    from trainer.groups import Group
    from trainer.tasks import TrainingTask

__all__ = ["LoopView", "Tally"]

RECENT = 200
"""Attempts that `recent` rates are of."""
_KEPT = ("episodes", "infra_errors", "learner_s", "hand_over_s", "informative", "flat")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopView:
    """How a loop stands."""

    step: int
    updates: int
    version: int
    seconds: float
    episodes: int
    infra_errors: int
    running: int
    """Groups under way."""
    ready: int
    """Groups that wait for an update."""
    tasks_held: int
    """Tasks that are not practised because their check is doubted or broken."""
    gates_rerun: int
    """How often a doubted task's gates have run again."""
    skills: Mapping[str, tuple[int, int]]
    """Passed and judged of the newest attempts, by skill."""
    shares: Mapping[str, float]
    """Share of attempts' time by phase."""
    metrics: Mapping[str, float] | None
    """Of the update that has just ended; None between updates."""

    @property
    def episodes_per_minute(self) -> float:
        """Since the run began."""
        return 60 * self.episodes / self.seconds if self.seconds else 0.0


@dataclass
class Tally:
    """Counts since the run began, interruptions not counted, and since the last update."""

    episodes: int = 0
    infra_errors: int = 0
    infra_in_a_row: int = 0
    learner_s: float = 0.0
    hand_over_s: float = 0.0
    informative: int = 0
    flat: int = 0
    _recent: deque[tuple[str, bool]] = field(default_factory=lambda: deque(maxlen=RECENT))
    _phases: dict[str, float] = field(default_factory=dict)
    _since: list[Trajectory] = field(default_factory=list)

    def attempt(self, trajectory: Trajectory, task: TrainingTask) -> None:
        """One attempt has ended."""
        self.episodes += 1
        self._since.append(trajectory)
        if trajectory.outcome == "infra_error":
            self.infra_errors += 1
            self.infra_in_a_row += 1
            return
        self.infra_in_a_row = 0
        self._recent.append((task.skills, trajectory.outcome == "pass"))
        phases = {
            "setup": trajectory.timings_ms.get("setup", 0.0),
            "grade": trajectory.timings_ms.get("grade", 0.0),
            "policy": sum(turn.timings_ms.get("policy", 0.0) for turn in trajectory.turns),
            "desktop": sum(turn.timings_ms.get("step", 0.0) for turn in trajectory.turns),
        }
        for name, spent_ms in phases.items():
            self._phases[name] = self._phases.get(name, 0.0) + spent_ms / 1000

    def group(self, *, informative: bool) -> None:
        """One group has ended."""
        self.informative += informative
        self.flat += not informative

    def state(self) -> dict[str, Any]:
        """What a resumed run goes on counting from, as JSON data."""
        counts = {name: getattr(self, name) for name in _KEPT}
        return {**counts, "phases": dict(self._phases)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on counting."""
        for name in _KEPT:
            setattr(self, name, state[name])
        self._phases = dict(state["phases"])

    def metrics(self, groups: Sequence[Group], *, seconds: float, timed: bool = True) -> dict[str, float]:
        """Of the update on these groups and the attempts since the one before; starts counting anew.

        Args:
            timed: tell how long things took, which differs in every run.
        """
        judged = [each for each in self._since if each.outcome != "infra_error"]
        rewards = [reward for group in groups for reward in group.rewards]
        turns = [len(each.turns) for each in judged]
        values = {
            "episodes": self.episodes,
            "infra_errors": self.infra_errors,
            "groups_informative": self.informative,
            "groups_flat": self.flat,
            "reward_mean": sum(rewards) / max(1, len(rewards)),
        }
        if timed:
            values |= {"seconds": seconds, "learner_s": self.learner_s, "hand_over_s": self.hand_over_s}
            values |= {f"time_{name}_s": spent for name, spent in self._phases.items()}
        if judged:  # between two updates nothing may have ended
            values["success"] = sum(each.outcome == "pass" for each in judged) / len(judged)
            values["turns_mean"] = sum(turns) / len(turns)
        self._since = []
        return values

    def view(
        self,
        *,
        step: int,
        updates: int,
        version: int,
        seconds: float,
        running: int,
        ready: int,
        tasks_held: int,
        gates_rerun: int,
        metrics: Mapping[str, float] | None,
    ) -> LoopView:
        """How things stand."""
        skills: dict[str, tuple[int, int]] = {}
        for skill, passed in self._recent:
            before = skills.get(skill, (0, 0))
            skills[skill] = before[0] + passed, before[1] + 1
        total = sum(self._phases.values()) or 1.0
        return LoopView(
            step=step,
            updates=updates,
            version=version,
            seconds=seconds,
            episodes=self.episodes,
            infra_errors=self.infra_errors,
            running=running,
            ready=ready,
            tasks_held=tasks_held,
            gates_rerun=gates_rerun,
            skills=skills,
            shares={name: spent / total for name, spent in self._phases.items()},
            metrics=metrics,
        )
