"""What the online loop stands on, and what it leaves behind for the next one to go on from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.engines.protocol import Weights
from evals.rollouts import Rollout, run_rollouts
from sandbox.hub import Lender
from store import BlobStore, Trajectory, TrajectoryStore
from trainer.learner_process import Weighed

__all__ = ["Desktops", "LearnerHandle", "Saved", "desktops_of"]


class LearnerHandle(Protocol):
    """What the loop needs of a learner."""

    async def update(self, batch: Sequence[Weighed]) -> dict[str, float]:
        """One update; returns its metrics, `version` among them."""
        ...

    async def publish(self) -> tuple[Weights, int]:
        """Weights for the engine, and their version."""
        ...

    async def checkpoint(self, root: Any, step: int, extra: dict[str, Any]) -> Any:
        """Save everything durably."""
        ...


class Desktops(Protocol):
    """Runs attempts; `evals.rollouts.run_rollouts` over a hub, or a test's own."""

    async def __call__(
        self, rollouts: Sequence[Rollout], on_end: Callable[[Rollout, Trajectory, bool], None]
    ) -> list[Trajectory]: ...


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The loop's part of a checkpoint, as JSON data."""

    step: int
    seconds: float
    sampler: dict[str, Any]
    ledger: dict[str, int]
    running: list[str]
    """Ids of the groups under way: they are planned anew."""
    ready: list[dict[str, Any]]
    """Groups that wait for an update; their attempts by their ids."""
    tasks: list[str] = field(default_factory=list)
    """Ids of all tasks that are practised."""
    tally: dict[str, Any] = field(default_factory=dict)
    gates_rerun: int = 0


def desktops_of(hub: Lender, store: TrajectoryStore, blobs: BlobStore) -> Desktops:
    """Attempts on the desktops of a hub, whose capacity bounds how many run at once."""

    async def run(rollouts: Sequence[Rollout], on_end: Callable[[Rollout, Trajectory, bool], None]) -> list[Trajectory]:
        return await run_rollouts(rollouts, hub, store, blobs, limit=len(rollouts), on_end=on_end)

    return run
