"""A task made runnable: the `EpisodeTask` that an episode prepares and grades."""

from __future__ import annotations

import asyncio

from agent.errors import GraderFailed
from agent.task import Grade
from sandbox.actions import Action
from sandbox.desktop import Desktop
from sandbox.evidence import Evidence
from verigen.assets import Assets, MemoryAssets
from verigen.bundle import Bundle
from verigen.canonical import content_hash
from verigen.checks import judge, verifier_id
from verigen.settle import run_settle
from verigen.setup import run_setup
from verigen.task import Task

__all__ = ["TaskRunner"]

COLLECT_S = 30.0
RETRY_S = 0.5


class TaskRunner:
    """Prepares and grades one task. Keeps no state between attempts, so one runner may serve many at once.

    Args:
        source: a bundle, whose id becomes the task's, or a bare task, whose id is its content's hash.
        assets: where the setup's files come from.
        split: recorded on trajectories.
    """

    def __init__(self, source: Bundle | Task, assets: Assets | None = None, *, split: str = "train") -> None:
        self.task = source.task if isinstance(source, Bundle) else source
        self.id = source.id if isinstance(source, Bundle) else content_hash(source.model_dump(mode="json"))
        self.split = split
        self.verifier_id = verifier_id(self.task)
        self._assets = assets or MemoryAssets()

    @property
    def instruction(self) -> str:
        return self.task.instruction

    @property
    def max_steps(self) -> int:
        return self.task.limits.max_steps

    @property
    def time_limit_s(self) -> float:
        return self.task.limits.time_limit_s

    async def prepare(self, desktop: Desktop) -> None:
        """Bring a fresh desktop into the start state.

        Raises:
            SetupFailed: the start state was not reached.
            DesktopError: the desktop failed.
        """
        await run_setup(desktop, self.task.setup, self.task.setup_asserts, self._assets)

    async def grade(self, desktop: Desktop, final: Action | None) -> Grade:
        """Settle, collect, judge.

        Raises:
            GraderFailed: evidence could not be collected, or the judge failed.
            DesktopError: the desktop failed.
        """
        await run_settle(desktop, self.task.settle, self._assets)
        evidence = await self._collect(desktop)
        return self.judge(evidence, final)

    def judge(self, evidence: Evidence, final: Action | None) -> Grade:
        """Grade stored evidence; needs no desktop.

        Raises:
            GraderFailed: the evidence is incomplete, or the judge failed.
        """
        try:
            score, checks = judge(self.task.check, evidence, final)
        except GraderFailed:
            raise
        except Exception as error:  # a fault of ours must not become the agent's zero
            raise GraderFailed(f"the judge failed: {type(error).__name__}: {error}") from error
        return Grade(score=score, checks=checks, evidence=evidence, verifier_id=self.verifier_id)

    async def _collect(self, desktop: Desktop) -> Evidence:
        evidence = await desktop.collect(self.task.evidence, deadline_s=COLLECT_S)
        if evidence.errors:  # a busy application may not answer accessibility at once
            await asyncio.sleep(RETRY_S)
            evidence = await desktop.collect(self.task.evidence, deadline_s=COLLECT_S)
        return evidence
