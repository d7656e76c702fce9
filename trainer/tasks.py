"""A task as training sees it: how it is attempted, what it is about, and what an attempt at it is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pydantic import TypeAdapter

from agent.errors import GraderFailed
from agent.policies import ScriptedPolicy
from frontier import TaskInfo
from sandbox.actions import parse_action
from sandbox.evidence import Evidence
from store.trajectory import Trajectory
from verigen.assets import Assets, MemoryAssets
from verigen.bundle import Bundle
from verigen.checks import judge
from verigen.checks.model import CheckNode
from verigen.runner import TaskRunner

__all__ = ["TrainingTask"]

_CHECK: TypeAdapter[CheckNode] = TypeAdapter(CheckNode)
BlobReader = Callable[[str], bytes]
"""Gives a blob by its name."""


@dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """A bundle that is practised or evaluated."""

    bundle: Bundle
    split: str
    assets: Assets | None = None

    @cached_property
    def id(self) -> str:
        """The bundle's."""
        return self.bundle.id

    @cached_property
    def runner(self) -> TaskRunner:
        """What an episode prepares and grades; one serves all."""
        return TaskRunner(self.bundle, self.assets or MemoryAssets(), split=self.split)

    @property
    def skills(self) -> str:
        """Its skills as one name, e.g. `save + toggle`."""
        return " + ".join(sorted(set(self.bundle.task.skills)))

    @property
    def apps(self) -> str:
        """Its applications as one name."""
        return " + ".join(sorted(set(self.bundle.task.apps)))

    def oracle(self) -> ScriptedPolicy:
        """Its own solution."""
        return ScriptedPolicy(self.bundle.oracle)

    def info(self) -> TaskInfo:
        """What a sampler is told of it. Tasks of one template are about as hard as each other, so they share a cell."""
        task = self.bundle.task
        template = str(task.tags.get("template", ""))
        return TaskInfo(
            task=self.id,
            cell=template or f"{task.apps[0]} {task.skills[0]}",
            seed_state=self.bundle.seed_state,
            template=template,
            turns=float(len(self.bundle.oracle)),
        )

    @cached_property
    def milestones(self) -> Sequence[CheckNode]:
        """Checks for partial credit; none where the task defines none."""
        return [_CHECK.validate_python(each["check"]) for each in self.bundle.task.tags.get("milestones", ())]

    def reward(self, trajectory: Trajectory, read: BlobReader, *, partial: float) -> float | None:
        """What an attempt is worth: its score; without a pass at least `partial` times the share of milestones reached.

        Args:
            read: gives the stored evidence.

        Returns:
            In [0, 1]; None for an infra_error, which is missing data.
        """
        if trajectory.reward is None or trajectory.outcome == "pass":
            return trajectory.reward
        if not self.milestones or partial == 0 or trajectory.evidence is None:
            return trajectory.reward
        evidence = Evidence.model_validate_json(read(trajectory.evidence))
        final = None if trajectory.final_action is None else parse_action(trajectory.final_action)
        try:
            reached = sum(judge(check, evidence, final)[0] >= 1 for check in self.milestones)
        except GraderFailed:
            return None
        return max(trajectory.reward, partial * reached / len(self.milestones))
