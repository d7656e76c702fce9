"""What an episode needs to know of a task. `verigen` and imported suites provide it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sandbox.actions import Action
from sandbox.desktop import Desktop
from sandbox.evidence import Evidence

__all__ = ["CheckResult", "EpisodeTask", "Grade"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """One check's verdict."""

    name: str
    score: float
    """In [0, 1]."""
    reason: str
    """One sentence for a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """A task's verdict on one attempt."""

    score: float
    """In [0, 1]; 1 is a pass."""
    checks: tuple[CheckResult, ...]
    evidence: Evidence
    verifier_id: str
    """Hash of the checks that judged."""


class EpisodeTask(Protocol):
    """A task as an episode sees it."""

    @property
    def id(self) -> str: ...

    @property
    def instruction(self) -> str: ...

    @property
    def max_steps(self) -> int:
        """Turns after which the episode ends unfinished."""
        ...

    @property
    def time_limit_s(self) -> float:
        """Seconds after which the episode ends unfinished."""
        ...

    @property
    def split(self) -> str: ...

    async def prepare(self, desktop: Desktop) -> None:
        """Bring a fresh desktop into the task's start state.

        Raises:
            agent.errors.SetupFailed: the asserted start state was not reached.
            DesktopError: the desktop failed.
        """
        ...

    async def grade(self, desktop: Desktop, final: Action | None) -> Grade:
        """Settle the applications, collect evidence and judge it.

        Raises:
            agent.errors.GraderFailed: evidence could not be collected or a judge failed.
            DesktopError: the desktop failed.
        """
        ...
