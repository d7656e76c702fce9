"""Running planned attempts on many desktops at once, each committed as it ends.

::

    Rollout (id fixed by the plan) -> kept already? skip : lease a fresh desktop -> episode -> commit

Guarantees: an attempt that was committed is never run again, so an interrupted run goes on where it was; an attempt
without a desktop is an infra_error like any other, never a gap; Ctrl-C loses only the attempts in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent import Harness, run_episode
from agent.policy import Policy
from agent.task import EpisodeTask
from sandbox.desktop import DesktopSpec
from sandbox.errors import DesktopError
from sandbox.hub import Lender
from store import BlobStore, Trajectory, TrajectoryStore
from store.errors import TrajectoryMissing
from store.trajectory import ErrorInfo

__all__ = ["Rollout", "run_rollouts"]

LEASE_WAIT_S = 600.0
"""Rollouts queue for desktops; only a host that gives none for so long has failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """One attempt that is to be made."""

    id: str
    """The trajectory's id; the same in every run of the same plan."""
    task: EpisodeTask
    spec: DesktopSpec
    policy: Policy
    group_id: str
    seed_env: int
    seed_sampling: int
    harness: Harness = field(default_factory=Harness)


async def run_rollouts(
    rollouts: Sequence[Rollout],
    hub: Lender,
    store: TrajectoryStore,
    blobs: BlobStore,
    *,
    limit: int,
    on_end: Callable[[Rollout, Trajectory, bool], None] = lambda rollout, trajectory, kept: None,
) -> list[Trajectory]:
    """Run all rollouts and return their trajectories in the order given.

    Args:
        limit: attempts under way at once.
        on_end: told of each attempt that ended; the flag says that it was committed before.

    Raises:
        MissingRequirement, ImageError: this machine cannot run the desktops.
        StoreError: a trajectory could not be kept.
    """
    slots = asyncio.Semaphore(limit)

    async def one(rollout: Rollout) -> Trajectory:
        async with slots:
            kept = await asyncio.to_thread(_load, store, rollout.id)
            trajectory = kept or await _attempt(rollout, hub, blobs)
            if kept is None:
                await asyncio.to_thread(store.commit, trajectory)
        on_end(rollout, trajectory, kept is not None)
        return trajectory

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(rollout), name=rollout.id) for rollout in rollouts]
    except ExceptionGroup as error:  # callers know single errors; the first is as good as any
        raise error.exceptions[0] from error
    return [task.result() for task in tasks]


def _load(store: TrajectoryStore, trajectory_id: str) -> Trajectory | None:
    try:
        return store.load(trajectory_id)
    except TrajectoryMissing:
        # One that was killed between its record and its row is there: made again, its record would be refused.
        return store.load(trajectory_id) if store.recover([trajectory_id]).added else None


async def _attempt(rollout: Rollout, hub: Lender, blobs: BlobStore) -> Trajectory:
    started_at = time.time()
    try:
        async with hub.lease(rollout.spec, deadline_s=LEASE_WAIT_S) as lease:
            return await run_episode(
                lease.desktop,
                rollout.task,
                rollout.harness,
                rollout.policy,
                blobs=blobs,
                seed_env=rollout.seed_env,
                seed_sampling=rollout.seed_sampling,
                group_id=rollout.group_id,
                trajectory_id=rollout.id,
            )
    except DesktopError as error:
        return _without_desktop(rollout, error, started_at)


def _without_desktop(rollout: Rollout, error: DesktopError, started_at: float) -> Trajectory:
    """The record of an attempt that never got a desktop."""
    return Trajectory(
        id=rollout.id,
        task_id=rollout.task.id,
        instruction=rollout.task.instruction,
        group_id=rollout.group_id,
        actor=rollout.policy.name,
        harness_hash=rollout.harness.hash,
        image_digest="",
        policy_hash=rollout.policy.hash,
        seed_env=rollout.seed_env,
        seed_sampling=rollout.seed_sampling,
        split=rollout.task.split,
        turns=(),
        stop_reason="infra_error",
        outcome="infra_error",
        reward=None,
        error=ErrorInfo(type=type(error).__name__, phase=error.phase, message=str(error), state=error.state),
        started_at=started_at,
        seconds=time.time() - started_at,
    )
