"""The online loop: plan, attempt, compare, update, and again, with attempts and updates at the same time.

::

    sampler -> groups -> desktops -> trajectories -> advantages -> learner -> weights -> engine
       ^------------------ outcomes -------------------'                         |
                                          checkpoint: learner, sampler, ledger, ready groups

Guarantees: staleness never exceeds its bound (`trainer.groups`); an infra_error is missing data; each attempt is
trained on at most once in the history of the weights (ledger and weights are one checkpoint); a run that was killed
goes on from its newest whole checkpoint: groups that were ready are kept, groups that ran are planned anew, and an
attempt's id is never used twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.engines.protocol import PolicyEngine, Weights
from agent.engines.tokens import PolicyFormat
from agent.policies.engine_policy import EnginePolicy
from evals.rollouts import Rollout, run_rollouts
from frontier import FrontierConfig, FrontierSampler, RolloutOutcome, Sampler, UniformSampler
from sandbox.hub import Hub
from store import BlobStore, Trajectory, TrajectoryStore
from trainer.config import Practice, RunConfig
from trainer.errors import NothingToDo, TrainerError
from trainer.groups import Group, Groups, Ledger, weigh
from trainer.learner_process import Weighed
from trainer.metrics import MetricsLog
from trainer.progress import LoopView, Tally
from trainer.run_directory import RunDirectory
from trainer.tasks import TrainingTask

__all__ = ["Desktops", "LearnerHandle", "OnlineLoop", "desktops_of", "make_sampler"]

MAX_INFRA_IN_A_ROW = 40
"""Attempts that may fail one after the other before the machine is taken for broken."""


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
class _Saved:
    """The caller's part of a checkpoint, as JSON data."""

    step: int
    seconds: float
    sampler: dict[str, Any]
    ledger: dict[str, int]
    running: list[str]
    ready: list[dict[str, Any]]


class OnlineLoop:
    """One run of practice.

    Args:
        tasks: what may be practised.
        engine: serves the learner's weights of `version`.
        version: of the weights.
        shuffle: deal rewards out at random, as a control.
        watched: whatever raises when a part that the loop stands on is gone; see `Child.over`.
        on_view: told after every attempt and update.
        on_sampled: given the sampler after every update, to keep its history.
    """

    def __init__(
        self,
        config: RunConfig,
        tasks: Sequence[TrainingTask],
        directory: RunDirectory,
        desktops: Desktops,
        store: TrajectoryStore,
        blobs: BlobStore,
        engine: PolicyEngine,
        form: PolicyFormat,
        learner: LearnerHandle,
        log: MetricsLog,
        *,
        version: int = 0,
        shuffle: bool = False,
        watched: Sequence[Awaitable[None]] = (),
        on_view: Callable[[LoopView], None] = lambda view: None,
        on_sampled: Callable[[Sampler], None] = lambda sampler: None,
    ) -> None:
        if not tasks:
            raise NothingToDo("there are no training tasks; make some with `frontdesk synth --count 30`")
        self.step = 0
        """Updates so far."""
        self.version = version
        self.ledger = Ledger()
        self._config = config
        self._practice = config.practice
        self._tasks = {task.id: task for task in tasks}
        self._directory = directory
        self._desktops = desktops
        self._store = store
        self._blobs = blobs
        self._engine = engine
        self._learner = learner
        self._log = log
        self._shuffle = shuffle
        self._watched = [asyncio.ensure_future(each) for each in watched]
        self._on_view = on_view
        self._on_sampled = on_sampled
        self._policy = EnginePolicy(engine, form, name="policy", hash=config.name)
        self._groups = Groups(per_update=self._practice.groups_per_update, max_staleness=self._practice.max_staleness)
        self._sampler = make_sampler(self._practice, tasks, seed=config.seed)
        self._changed = asyncio.Event()
        self._tally = Tally()
        self._seconds_before = 0.0
        self._begun = time.monotonic()

    def restore(self, extra: dict[str, Any]) -> None:
        """Go on from what `checkpoint` was given."""
        saved = _Saved(**extra)
        self.step, self._seconds_before = saved.step, saved.seconds
        self.ledger = Ledger(dict(saved.ledger))
        self._sampler.restore(saved.sampler)
        for group_id in saved.running:
            self._sampler.cancel(group_id)
        for fields in saved.ready:
            own = {name: value for name, value in fields.items() if name != "ids"}
            trajectories = [self._store.load(trajectory_id) for trajectory_id in fields["ids"]]
            self._groups.ready.append(Group(trajectories=trajectories, **own))

    async def run(self) -> int:
        """Practise until the run's updates or minutes are over; returns the number of updates.

        Raises:
            ChildDied, StoreError, MissingRequirement: what they say; run again to go on.
        """
        self._begun = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                for each in self._watched:
                    tasks.create_task(_watch(each))
                while not self._over():
                    self._admit(tasks)
                    groups = self._groups.take(self.version)
                    if groups:
                        await self._update(groups)
                        continue
                    self._changed.clear()
                    await self._changed.wait()
                raise _Enough
        except* _Enough:
            pass
        if self.step % self._practice.checkpoint_every:
            await self._checkpoint()
        await self._policy.close()
        return self.step

    def _over(self) -> bool:
        minutes = self._practice.minutes
        return self.step >= self._practice.updates or (minutes is not None and self._seconds() >= 60 * minutes)

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._begun

    def _admit(self, tasks: asyncio.TaskGroup) -> None:
        """Start groups while there are slots and desktops for them."""
        wanted = 1 + -(-self._config.desktops // self._practice.group_size)
        while self._groups.room and len(self._groups.running) < wanted:
            plan = self._sampler.plan(self._practice.group_size, self.version)
            if not plan:
                if not self._groups.running and len(self._groups.ready) < self._practice.groups_per_update:
                    raise NothingToDo("the sampler has no task to practise; make more with `frontdesk synth`")
                return
            for allocation in plan:
                group = Group(id=allocation.group_id, task=allocation.task, n=allocation.n, version=self.version)
                self._groups.admit(group)
                tasks.create_task(self._attempt(group, tasks), name=group.id)

    async def _attempt(self, group: Group, tasks: asyncio.TaskGroup) -> None:
        """Run a group to its end."""
        task = self._tasks[group.task]
        prefix = f"{self._directory.root.name}-{self._directory.start}-{group.id}"
        rollouts = [
            Rollout(
                id=f"{prefix}-{number}",
                task=task.runner,
                spec=task.bundle.task.desktop,
                policy=self._policy,
                group_id=prefix,
                seed_env=self._config.seed,
                seed_sampling=random.Random(f"{self._config.seed}:{group.id}:{number}").getrandbits(62),
                harness=self._config.harness,
            )
            for number in range(group.n)
        ]

        def ended(rollout: Rollout, trajectory: Trajectory, kept: bool) -> None:
            self._tally.attempt(trajectory, task)
            if self._tally.infra_in_a_row >= MAX_INFRA_IN_A_ROW:
                assert trajectory.error is not None
                raise TrainerError(
                    f"the last {MAX_INFRA_IN_A_ROW} attempts all failed for reasons that are not the policy's; the "
                    f"last one by {trajectory.error.type}: {trajectory.error.message}"
                )
            self._on_view(self._view())

        for trajectory in await self._desktops(rollouts, ended):
            await self._policy.finish(trajectory.id)
            reward = await asyncio.to_thread(
                task.reward, trajectory, self._blobs.get, partial=self._practice.partial_credit
            )
            self._sampler.record(
                RolloutOutcome(
                    rollout_id=trajectory.id,
                    group_id=group.id,
                    task=group.task,
                    version=trajectory.policy_version,
                    verdict=trajectory.outcome if reward is not None else "infra_error",
                    reward=reward,
                    seconds=trajectory.seconds,
                )
            )
            # An attempt without a reward is missing, as is one in which nothing was sampled.
            if reward is not None and trajectory.turns:
                group.trajectories.append(trajectory)
                group.rewards.append(reward)
        self._tally.group(informative=self._groups.finish(group))
        if not self._over():
            self._admit(tasks)
        self._changed.set()

    async def _update(self, groups: Sequence[Group]) -> None:
        """Train on groups, hand the weights over, and keep what happened."""
        shuffle = random.Random(f"{self._config.seed}:{self.step}") if self._shuffle else None
        batch = weigh(groups, shuffle=shuffle)
        oldest = min(group.version for group in groups)
        assert self.version - oldest <= self._practice.max_staleness, "a group is staler than its bound"
        self.ledger.enter([each.trajectory for each in batch], self.step + 1)
        begun = time.monotonic()
        metrics = await self._learner.update(batch)
        self._tally.learner_s += time.monotonic() - begun
        await self._hand_over(int(metrics["version"]))
        self.step += 1
        metrics |= self._tally.metrics(groups, seconds=self._seconds())
        self._log.write(self.step, metrics)
        self._on_view(self._view(metrics))
        self._on_sampled(self._sampler)
        if self.step % self._practice.checkpoint_every == 0:
            await self._checkpoint()

    async def _hand_over(self, version: int) -> None:
        if version == self.version:
            return
        begun = time.monotonic()
        weights, version = await self._learner.publish()
        await self._engine.pause()
        await self._engine.load_weights(weights, version=version)
        await self._engine.resume()
        self.version = version
        self._tally.hand_over_s += time.monotonic() - begun

    async def _checkpoint(self) -> None:
        saved = _Saved(
            step=self.step,
            seconds=self._seconds(),
            sampler=self._sampler.state(),
            ledger=dict(self.ledger.trained),
            running=list(self._groups.running),
            ready=[
                {
                    "id": group.id,
                    "task": group.task,
                    "n": group.n,
                    "version": group.version,
                    "rewards": list(group.rewards),
                    "ids": [trajectory.id for trajectory in group.trajectories],
                }
                for group in self._groups.ready
            ],
        )
        await self._learner.checkpoint(self._directory.checkpoints, self.step, vars(saved))

    def _view(self, metrics: dict[str, float] | None = None) -> LoopView:
        return self._tally.view(
            step=self.step,
            updates=self._practice.updates,
            version=self.version,
            seconds=self._seconds(),
            running=len(self._groups.running),
            ready=len(self._groups.ready),
            metrics=metrics,
        )


class _Enough(Exception):
    """Ends the attempts under way when the run is over."""


async def _watch(part: asyncio.Future[None]) -> None:
    await asyncio.shield(part)


def desktops_of(hub: Hub, store: TrajectoryStore, blobs: BlobStore) -> Desktops:
    """Attempts on the desktops of a hub, whose capacity bounds how many run at once."""

    async def run(rollouts: Sequence[Rollout], on_end: Callable[[Rollout, Trajectory, bool], None]) -> list[Trajectory]:
        return await run_rollouts(rollouts, hub, store, blobs, limit=len(rollouts), on_end=on_end)

    return run


def make_sampler(practice: Practice, tasks: Sequence[TrainingTask], *, seed: int) -> Sampler:
    """The sampler that the run file names."""
    infos = [task.info() for task in sorted(tasks, key=lambda task: task.id)]
    if practice.sampler == "uniform":
        return UniformSampler([info.task for info in infos], seed=seed, group_size=practice.group_size)
    return FrontierSampler(infos, seed=seed, config=FrontierConfig(group_sizes=(practice.group_size,)))
