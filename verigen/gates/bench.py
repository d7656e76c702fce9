"""Where the gates that need desktops do their work: fresh desktops, scripts run on them, retries of nobody's faults.

An infrastructure failure is tried again on a fresh desktop, at most `MAX_RETRIES` times, and every time is reported. If
it stays, there is no result (`Report.value` is None) and the gate is unproven, never failed.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from agent.episode import run_episode
from agent.errors import GraderFailed
from agent.harness import Harness
from agent.policies import ScriptedPolicy
from agent.task import EpisodeTask, Grade
from agent.turns import BlobSink
from sandbox.actions import Action, parse_action
from sandbox.desktop import Desktop
from sandbox.errors import DesktopError
from sandbox.evidence import Evidence
from sandbox.hub import Lender
from store.trajectory import Trajectory
from verigen.assets import Assets
from verigen.bundle import Bundle, Script
from verigen.errors import VerigenError
from verigen.runner import TaskRunner

__all__ = ["MAX_RETRIES", "Bench", "DiscardBlobs", "Prepared", "Progress", "Report", "ScriptRun"]

MAX_RETRIES = 2
LEASE_WAIT_S = 600.0

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a gate's work on desktops is."""

    gates: str
    """The gates that this work serves, e.g. `G2-G4`."""
    done: int
    total: int
    note: str
    """What just ended, and how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report(Generic[T]):
    """What work on fresh desktops gave."""

    value: T | None
    """None when the infrastructure failed every time, or the work was not begun."""
    failures: tuple[str, ...] = ()
    """Infrastructure failures on the way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptRun:
    """How a script's episode went."""

    score: float | None
    """None when the script could not be carried out to its end."""
    reason: str
    """Why it has this score, or what the script did not find."""
    seconds: float
    evidence: Evidence | None = None
    """What was graded; None when the script could not be carried out."""
    final: Action | None = None
    """How the script ended the episode."""


class DiscardBlobs:
    """Keeps nothing: gates need no screenshots unless somebody wants to look at them."""

    def put(self, data: bytes) -> str:
        """The bytes' sha256."""
        return hashlib.sha256(data).hexdigest()


class Prepared:
    """A task whose desktop is in its start state already; keeps its last grade."""

    def __init__(self, task: EpisodeTask) -> None:
        self._task = task
        self.last_grade: Grade | None = None

    @property
    def id(self) -> str:
        return self._task.id

    @property
    def instruction(self) -> str:
        return self._task.instruction

    @property
    def max_steps(self) -> int:
        return self._task.max_steps

    @property
    def time_limit_s(self) -> float:
        return self._task.time_limit_s

    @property
    def split(self) -> str:
        return self._task.split

    async def prepare(self, desktop: Desktop) -> None:
        """Nothing is left to do."""

    async def grade(self, desktop: Desktop, final: Action | None) -> Grade:
        """As the task grades."""
        self.last_grade = await self._task.grade(desktop, final)
        return self.last_grade


@dataclass(kw_only=True)
class Bench:
    """What the gates of one bundle share.

    Args:
        image_digest: the image that the desktops must be of, if it matters.
        limit: desktops used at once.
        on_trajectory: given every episode's record.
    """

    bundle: Bundle
    assets: Assets
    hub: Lender
    image_digest: str | None = None
    harness: Harness = field(default_factory=Harness)
    blobs: BlobSink = field(default_factory=DiscardBlobs)
    limit: int = 2
    progress: Callable[[Progress], None] = lambda progress: None
    on_trajectory: Callable[[Trajectory], None] = lambda trajectory: None

    def __post_init__(self) -> None:
        self.runner = TaskRunner(self.bundle, self.assets)
        self._slots = asyncio.Semaphore(self.limit)

    async def each(
        self,
        gates: str,
        items: Sequence[Item],
        work: Callable[[Desktop, Item], Awaitable[T]],
        *,
        note: Callable[[Item, T], str],
        unless: Callable[[Item, Sequence[T]], bool] = lambda item, found: False,
    ) -> list[Report[T]]:
        """Do work for each item on a fresh desktop of its own, several at once.

        Args:
            gates: the gates that it serves, for progress.
            note: says how an item went.
            unless: asked before an item is begun, with what was found so far; true leaves the item out.
        """
        found: list[T] = []
        done = 0

        async def one(item: Item) -> Report[T]:
            nonlocal done
            async with self._slots:
                if unless(item, found):
                    return Report(value=None)
                report = await self._on_fresh(lambda desktop: work(desktop, item))
            done += 1
            if report.value is not None:
                found.append(report.value)
            said = "no result" if report.value is None else note(item, report.value)
            self.progress(Progress(gates=gates, done=done, total=len(items), note=said))
            return report

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except ExceptionGroup as error:  # callers know single errors; the first is as good as any
            raise error.exceptions[0] from error
        return [task.result() for task in tasks]

    async def _on_fresh(self, work: Callable[[Desktop], Awaitable[T]]) -> Report[T]:
        failures: list[str] = []
        while len(failures) <= MAX_RETRIES:
            try:
                async with self.hub.lease(self.bundle.task.desktop, deadline_s=LEASE_WAIT_S) as lease:
                    self._demand_image(lease.desktop)
                    return Report(value=await work(lease.desktop), failures=tuple(failures))
            except (DesktopError, GraderFailed) as error:
                failures.append(f"infrastructure, {type(error).__name__}: {error}")
        return Report(value=None, failures=tuple(failures))

    async def run_script(
        self, desktop: Desktop, script: Script, *, name: str, seed: int = 0, delays_s: tuple[float, float] | None = None
    ) -> ScriptRun:
        """Let a script act on a prepared desktop, and grade what it leaves.

        Raises:
            DesktopError: the desktop failed.
            GraderFailed: the grading failed.
        """
        task = Prepared(self.runner)
        started = time.monotonic()
        trajectory = await run_episode(
            desktop,
            task,
            self.harness,
            ScriptedPolicy(script, name=name, delays_s=delays_s),
            blobs=self.blobs,
            seed_env=0,
            seed_sampling=seed,
        )
        self.on_trajectory(trajectory)
        seconds = time.monotonic() - started
        if trajectory.error is not None:
            if trajectory.error.type == "ScriptFailed":
                return ScriptRun(score=None, reason=trajectory.error.message, seconds=seconds)
            failure = f"{trajectory.error.type} in phase {trajectory.error.phase}: {trajectory.error.message}"
            raise DesktopError(failure, state=trajectory.error.state)
        assert task.last_grade is not None, "an episode without an error was graded"
        reasons = [f"{check.name}: {check.reason}" for check in task.last_grade.checks if check.score < 1.0]
        reasons += [f"turn {turn.index + 1}: {error}" for turn in trajectory.turns for error in turn.action_errors]
        if trajectory.final_action is None:
            reasons.append(f"the script did not come to its end ({trajectory.stop_reason})")
        return ScriptRun(
            score=task.last_grade.score,
            reason="; ".join(reasons) or "all checks hold",
            seconds=seconds,
            evidence=task.last_grade.evidence,
            final=None if trajectory.final_action is None else parse_action(trajectory.final_action),
        )

    def _demand_image(self, desktop: Desktop) -> None:
        if self.image_digest is not None and desktop.image_digest != self.image_digest:
            raise VerigenError(
                f"the desktops are of image {desktop.image_digest}, but the proof is to be for {self.image_digest}"
            )
