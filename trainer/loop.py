"""The online loop: plan, attempt, compare, update, and again, with attempts and updates at the same time.

::

    sampler -> groups -> desktops -> trajectories -> advantages -> learner -> weights -> engine
       ^------------------ outcomes -------------------'                         |
                                          checkpoint: learner, sampler, ledger, ready groups

Guarantees: staleness never exceeds its bound (`trainer.groups`); an infra_error is missing data; each attempt is
trained on at most once in the history of the weights (ledger and weights are one checkpoint); a run that was killed
goes on from its newest whole checkpoint: groups that were ready are kept, groups that ran are planned anew, and an
attempt's id is never used twice. Tasks that the sampler doubts have their gates run again (`trainer.gate_runs`). A run
whose groups teach nothing for long ends with the reason.

A deterministic run does one thing after another, in the order planned: attempts, updates, gates. Then its history is a
function of its configuration and of what the desktops answered. So its attempts keep their ids when it is killed, and
those that were committed are read again instead of made again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agent.engines.protocol import PolicyEngine
from agent.engines.tokens import PolicyFormat
from agent.policies.engine_policy import EnginePolicy
from evals.rollouts import Rollout
from frontier import Allocation, RolloutOutcome, Sampler
from store import BlobStore, Trajectory, TrajectoryStore
from trainer.config import RunConfig
from trainer.errors import NothingToDo, TrainerError
from trainer.gate_runs import GateRuns, Prover
from trainer.groups import Group, Groups, Ledger, weigh
from trainer.loop_parts import Desktops, LearnerHandle, Saved
from trainer.metrics import MetricsLog
from trainer.practice import make_sampler
from trainer.progress import LoopView, Tally
from trainer.run_directory import RunDirectory
from trainer.tasks import TrainingTask

__all__ = ["OnlineLoop"]

MAX_INFRA_IN_A_ROW = 40
"""Attempts that may fail one after the other before the machine is taken for broken."""


class OnlineLoop:
    """One run of practice.

    Args:
        tasks: what may be practised.
        engine: serves the learner's weights of `version`.
        version: of the weights.
        shuffle: deal rewards out at random, as a control.
        prove: runs the gates of doubted tasks; None leaves them held.
        watched: whatever raises when a part that the loop stands on is gone; see `Child.over`.
        on_view: told after every attempt and update.
        on_sampled: given the sampler after every update and every answer of gates, to keep its history.
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
        prove: Prover | None = None,
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
        self._gates = GateRuns(self._sampler, self._tasks, prove)
        self._saved_step = 0
        self._changed = asyncio.Event()
        self._tally = Tally()
        self._seconds_before = 0.0
        self._begun = time.monotonic()

    def restore(self, extra: dict[str, Any]) -> None:
        """Go on from what `checkpoint` was given.

        Raises:
            TrainerError: tasks that the run has practised are gone.
            ValueError, TypeError, KeyError: another version of Frontdesk saved it.
        """
        saved = Saved(**extra)
        if gone := sorted(set(saved.tasks) - self._tasks.keys()):
            raise TrainerError(
                f"{len(gone)} of the tasks that this run practises are no longer there ({gone[0][:12]}...); bring them "
                "back with `frontdesk tasks import`, or begin a run under another name"
            )
        self.step, self._seconds_before = saved.step, saved.seconds
        self._saved_step = saved.step
        self.ledger = Ledger(dict(saved.ledger))
        self._gates.answered = saved.gates_rerun
        if saved.tally:
            self._tally.restore(saved.tally)
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
            NothingToDo: no task is left to practise, or nothing can be learned from what there is.
            ChildDied, StoreError, MissingRequirement: what they say; run again to go on.
        """
        self._begun = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                for each in self._watched:
                    tasks.create_task(_watch(each))
                await (self._in_order() if self._config.deterministic else self._overlapping(tasks))
                raise _Enough
        except* _Enough:
            pass
        if self.step == 0 and self._practice.updates:
            raise NothingToDo(f"the run's {self._practice.minutes} minutes were over before its first update")
        await self._checkpoint()
        await self._policy.close()
        return self.step

    async def _overlapping(self, tasks: asyncio.TaskGroup) -> None:
        """Attempts, gates and updates at the same time."""
        while not self._over():
            self._admit(tasks)
            self._doubt(tasks)
            groups = self._groups.take(self.version)
            if groups:
                await self._update(groups)
                continue
            await self._demand_progress()
            self._changed.clear()
            await self._changed.wait()

    async def _in_order(self) -> None:
        """One thing after another."""
        while not self._over():
            while await self._ask_gates():
                pass
            while not (groups := self._groups.take(self.version)):
                await self._demand_progress()
                plan = self._sampler.plan(self._practice.group_size, self.version)
                for allocation in plan:
                    await self._attempt(self._admitted(allocation))
                if not plan and not await self._ask_gates():
                    raise self._nothing_left()
            await self._update(groups)

    async def _ask_gates(self) -> bool:
        """Run the gates of a doubted task to their end; say whether there was one."""
        doubted = self._gates.begin(self.step)
        if doubted is not None:
            await self._run_gates(doubted)
        return doubted is not None

    def _over(self) -> bool:
        minutes = self._practice.minutes
        return self.step >= self._practice.updates or (minutes is not None and self._seconds() >= 60 * minutes)

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._begun

    async def _demand_progress(self) -> None:
        """End a run that has learned nothing for long; what it had learned is saved."""
        if self._groups.flat.total >= self._practice.max_flat_groups:
            await self._checkpoint()
            raise NothingToDo(f"after {self.step} updates, {self._groups.flat}")

    def _admit(self, tasks: asyncio.TaskGroup) -> None:
        """Start groups while there are slots and desktops for them."""
        wanted = 1 + -(-self._config.desktops // self._practice.group_size)
        while self._groups.room and len(self._groups.running) < wanted:
            plan = self._sampler.plan(self._practice.group_size, self.version)
            if not plan:
                self._doubt(tasks)
                idle = not self._groups.running and not self._gates.running
                if idle and len(self._groups.ready) < self._practice.groups_per_update:
                    raise self._nothing_left()
                return
            for allocation in plan:
                group = self._admitted(allocation)
                tasks.create_task(self._attempt_among_others(group, tasks), name=group.id)

    def _admitted(self, allocation: Allocation) -> Group:
        group = Group(id=allocation.group_id, task=allocation.task, n=allocation.n, version=self.version)
        self._groups.admit(group)
        return group

    def _nothing_left(self) -> NothingToDo:
        held, fault = self._gates.held, self._gates.last_fault
        why = f": {held} of {len(self._tasks)} are held because their check is doubted or broken" if held else ""
        why += f", and their gates could not run ({fault})" if fault else ""
        return NothingToDo(
            f"after {self.step} updates no task is left to practise{why}; `frontdesk tasks stats --frontier` says more "
            "of them, and `frontdesk synth --count 30` makes others"
        )

    def _doubt(self, tasks: asyncio.TaskGroup) -> None:
        """Run the gates of a doubted task, beside everything else."""
        if (doubted := self._gates.begin(self.step)) is not None:
            tasks.create_task(self._run_gates(doubted), name=f"gates of {doubted.id}")

    async def _run_gates(self, doubted: TrainingTask) -> None:
        await self._gates.run(doubted, self.step, version=lambda: self.version)
        self._on_sampled(self._sampler)
        self._on_view(self._view())
        self._changed.set()

    async def _attempt_among_others(self, group: Group, tasks: asyncio.TaskGroup) -> None:
        """Run a group to its end, and start the next at once."""
        await self._attempt(group)
        if not self._over():
            self._admit(tasks)
        self._changed.set()

    async def _attempt(self, group: Group) -> None:
        """Run a group to its end."""
        task = self._tasks[group.task]
        prefix = f"{self._directory.attempts}-{group.id}"
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

        for trajectory in await self._run(rollouts, ended):
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
                    # The clock must not decide what a deterministic run practises: a turn counts as a second there.
                    seconds=len(trajectory.turns) if self._config.deterministic else trajectory.seconds,
                )
            )
            # An attempt without a reward is missing, as is one in which nothing was sampled.
            if reward is not None and trajectory.turns:
                group.trajectories.append(trajectory)
                group.rewards.append(reward)
        self._tally.group(informative=self._groups.finish(group))

    async def _run(
        self, rollouts: Sequence[Rollout], on_end: Callable[[Rollout, Trajectory, bool], None]
    ) -> list[Trajectory]:
        """Make a group's attempts: at the same time, or each by itself and from an engine that remembers nothing."""
        if not self._config.deterministic:
            return await self._desktops(rollouts, on_end)
        found = []
        for rollout in rollouts:
            await self._engine.sleep()
            await self._engine.wake()
            found += await self._desktops([rollout], on_end)
        return found

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
        metrics |= self._gates.metrics()
        metrics |= self._tally.metrics(groups, seconds=self._seconds(), timed=not self._config.deterministic)
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
        """Save everything, unless it was saved after this very update."""
        if self._saved_step == self.step:
            return
        saved = Saved(
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
            tasks=sorted(self._tasks),
            tally=self._tally.state(),
            gates_rerun=self._gates.answered,
        )
        self._saved_step = self.step
        await self._learner.checkpoint(self._directory.checkpoints, self.step, vars(saved))

    def _view(self, metrics: dict[str, float] | None = None) -> LoopView:
        return self._tally.view(
            step=self.step,
            updates=self._practice.updates,
            version=self.version,
            seconds=self._seconds(),
            running=len(self._groups.running),
            ready=len(self._groups.ready),
            tasks_held=self._gates.held,
            gates_rerun=self._gates.answered,
            metrics=metrics,
        )


class _Enough(Exception):
    """Ends the attempts under way when the run is over."""


async def _watch(part: asyncio.Future[None]) -> None:
    await asyncio.shield(part)
