"""The whole loop in small: tasks made and proven, a policy warmed up, practice on them, and what that came to.

::

    demonstrations -> imitation (beside it: new tasks are made and proven, shipped ones proven again, baselines run)
                   -> held-out evaluation -> practice -> held-out evaluation -> LearningRun, to be reported

Every part keeps what it has done under names that follow from the plan, so the same plan goes on wherever it was
interrupted and a finished one is only read again. Held-out tasks are never demonstrated or practised.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from evals.learning import Evaluation, HeldOutTask, LearningRun, Synthesis, TimeUse, training_curve
from evals.rollouts import Rollout
from frontier.view import frontier_map
from sandbox.hub import Lender
from store import BlobStore, Catalog, Trajectory, TrajectoryStore
from store.errors import NotFound
from trainer.engine_process import start_engine
from trainer.evaluate import baseline_rollouts, policy_identity, policy_rollouts, run_all
from trainer.practice import load_sampler
from trainer.quickstart_plan import QuickstartPlan, notes
from trainer.run_directory import attempts_of
from trainer.session import Session, Watcher, read_format
from trainer.tasks import TrainingTask
from verigen.assets import MemoryAssets
from verigen.ledger import Entry, Ledger
from verigen.packs import SkillPack, content_key
from verigen.proof import Proof
from verigen.sets import ProvenBundle
from verigen.synth import CAP, PAUSES_S, Gates, synthesise, yields
from verigen.verify import verify

__all__ = [
    "PAIRS",
    "Stage",
    "Told",
    "held_out_tasks",
    "run_quickstart",
    "training_tasks",
]

PROVING_DESKTOPS = 3
"""For proofs and baselines while the policy imitates, which keeps a core busy."""
PAIRS = (
    ("warm start, greedy", "after practice, greedy"),
    ("warm start, sampled", "after practice, sampled"),
)
BLACK = "after practice, black screens"


@dataclass(kw_only=True)
class Told(Watcher):
    """Who is told what happens, over and above what a session tells."""

    proven: Callable[[str, bool, str], None] = lambda name, passed, why: None
    """A task's gates have answered: its name, whether it passed, and why not."""
    evaluated: Callable[[Rollout, Trajectory, bool], None] = lambda rollout, trajectory, kept: None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a run stands on."""

    hub: Lender
    image_digest: str
    store: TrajectoryStore
    blobs: BlobStore
    blobs_at: Path
    catalog: Catalog
    root: Path
    """The run's directory."""
    ledger: Path
    """Of the new tasks."""
    packs: Sequence[SkillPack]
    shipped: Sequence[ProvenBundle]


async def run_quickstart(plan: QuickstartPlan, stage: Stage, told: Told | None = None) -> LearningRun:
    """Do what is left of the plan, and say what it came to.

    Raises:
        ValueError: another process runs it, or it was begun with another configuration.
        TrainerError, DesktopError, StoreError, VerigenError: what they say; run again to go on.
    """
    return await _Quickstart(plan, stage, told or Told()).run()


class _Quickstart:
    def __init__(self, plan: QuickstartPlan, stage: Stage, told: Told) -> None:
        self.plan, self.stage, self.told = plan, stage, told
        self.clock = _Clock(stage.root / "phases.json")
        self.train = training_tasks(stage.shipped, plan)
        self.held_out = held_out_tasks(stage.shipped, plan)
        if not self.held_out or not self.train:
            raise ValueError("the plan's choice of tasks leaves no shipped task to train or to evaluate on")

    async def run(self) -> LearningRun:
        stage, plan = self.stage, self.plan
        stage.root.mkdir(parents=True, exist_ok=True)
        async with self.clock.phase("demonstrations"):
            await self._session(self.train).demonstrate()
        synthesis: Synthesis
        async with self.clock.phase("imitation, and proofs and baselines beside it"), asyncio.TaskGroup() as group:
            imitation = group.create_task(self._session(self.train).warm_start())
            others = group.create_task(self._beside_imitation())
        warm, (synthesis, made, evaluations) = imitation.result(), others.result()
        async with self.clock.phase("evaluation"):
            self.told.phase("Evaluating the warm start", 2 * len(self.held_out))
            evaluations |= await self._evaluate(warm, PAIRS[0][0], PAIRS[1][0])
        async with self.clock.phase("practice"):
            last = await self._session([*self.train, *made]).run()
        async with self.clock.phase("evaluation"):
            self.told.phase("Evaluating what it learned", 3 * len(self.held_out))
            evaluations |= await self._evaluate(last, PAIRS[0][1], PAIRS[1][1], black=BLACK)
        return LearningRun(
            title="Quickstart" if plan.run.name == "quickstart" else f"Quickstart: {plan.run.name}",
            tasks=tuple(map(_held_out_task, self.held_out)),
            evaluations=tuple(Evaluation(name=name, trajectories=each) for name, each in evaluations.items()),
            pairs=PAIRS,
            synthesis=synthesis,
            training=training_curve(self._attempts()),
            frontier=self._frontier(),
            time=self._time(),
            notes=notes(plan, num_train=len(self.train), num_made=len(made)),
        )

    def _session(self, tasks: Sequence[TrainingTask]) -> Session:
        stage = self.stage
        return Session(
            config=self.plan.run,
            tasks=tasks,
            root=stage.root,
            hub=stage.hub,
            store=stage.store,
            blobs=stage.blobs,
            blobs_at=stage.blobs_at,
            catalog=stage.catalog,
            packs=stage.packs,
            watcher=self.told,
        )

    async def _prove(self) -> tuple[Synthesis, list[TrainingTask]]:
        """Make and prove new tasks, and prove some shipped ones again."""
        stage, plan = self.stage, self.plan
        still = [await self._prove_again(task) for task in self._again()]
        known = {content_key(task.bundle) for task in stage.shipped}
        allowed = {
            template.name
            for pack in stage.packs
            for template in pack.templates
            if plan.run.tasks.allows_template(template.name)
        }
        gates = Gates(hub=stage.hub, image_digest=stage.image_digest, catalog=stage.catalog, limit=PROVING_DESKTOPS)
        with Ledger(stage.ledger) as ledger:
            await synthesise(
                stage.packs,
                ["train"],
                gates,
                ledger,
                seed=plan.run.seed,
                known=known,
                wanted=lambda template, split: CAP if template in allowed else 0,
                count=plan.new_tasks,
                workers=2,
                on_settled=self._settled,
            )
            made = [entry.bundle for entry in ledger.entries.values() if entry.outcome == "admitted"]
            synthesis = Synthesis(
                gates=tuple(yields(ledger)),
                left_open=len(ledger.open_entries()),
                reproven=len(still),
                still_pass=sum(still),
            )
        tasks = [TrainingTask(bundle=bundle, assets=MemoryAssets(), split="train") for bundle in made]
        return synthesis, [task for task in tasks if plan.run.tasks.allows(task.bundle.task)]

    def _again(self) -> list[TrainingTask]:
        """Shipped training tasks, spread over all there are."""
        count = min(self.plan.proven_again, len(self.train))
        return [self.train[number * len(self.train) // count] for number in range(count)]

    async def _prove_again(self, task: TrainingTask) -> bool:
        """Run a shipped task's gates, unless this run has done so."""
        stage = self.stage
        done = stage.root / "proven.jsonl"
        before = dict(map(json.loads, done.read_text("utf-8").splitlines())) if done.exists() else {}
        if task.id in before:
            return bool(before[task.id])
        proof = await verify(
            task.bundle,
            MemoryAssets(),
            stage.hub,
            image_digest=stage.image_digest,
            catalog=stage.catalog,
            force=True,
            limit=PROVING_DESKTOPS,
            delays_s=PAUSES_S,
        )
        with done.open("a", encoding="utf-8") as file:
            file.write(json.dumps([task.id, proof.passed]) + "\n")
        failed = next((gate for gate in proof.gates if not gate.passed), None)
        self.told.proven(
            task.bundle.task.name, proof.passed, "" if failed is None else f"{failed.gate}: {failed.detail}"
        )
        return proof.passed

    def _settled(self, entry: Entry, proof: Proof | None) -> None:
        if entry.outcome != "open":
            why = f"{entry.gate}: {entry.reason}" if entry.reason else ""
            self.told.proven(entry.bundle.task.name, entry.outcome == "admitted", why)

    async def _beside_imitation(self) -> tuple[Synthesis, list[TrainingTask], dict[str, list[Trajectory]]]:
        """What needs no policy, on the core that imitation leaves."""
        synthesis, made = await self._prove()
        return synthesis, made, await self._evaluate_baselines()

    async def _evaluate_baselines(self) -> dict[str, list[Trajectory]]:
        """Attempts of those that cannot see; not counted on the screen, where imitation is."""
        stage = self.stage
        rollouts = baseline_rollouts(self.held_out, self.plan.run.harness, seed=self.plan.run.seed)
        by_actor: dict[str, list[Trajectory]] = {}
        for trajectory in await run_all(rollouts, stage.hub, stage.store, stage.blobs, limit=PROVING_DESKTOPS):
            by_actor.setdefault(trajectory.actor, []).append(trajectory)
        return by_actor

    async def _evaluate(
        self, directory: Path, greedy: str, sampled: str, *, black: str | None = None
    ) -> dict[str, list[Trajectory]]:
        config = self.plan.run
        engine = await start_engine(directory)
        try:
            rollouts: dict[str, list[Rollout]] = {}
            for name, best, blind in ((greedy, True, False), (sampled, False, False), (black, True, True)):
                if name is not None:
                    rollouts[name] = policy_rollouts(
                        self.held_out,
                        engine,
                        read_format(directory),
                        config.harness,
                        label=name,
                        identity=policy_identity(directory),
                        greedy=best,
                        black=blind,
                        seed=config.seed,
                    )
            trajectories = iter(await self._attempt([each for group in rollouts.values() for each in group]))
            return {name: [next(trajectories) for _ in group] for name, group in rollouts.items()}
        finally:
            await engine.close()

    async def _attempt(self, rollouts: Sequence[Rollout]) -> list[Trajectory]:
        stage = self.stage
        return await run_all(
            rollouts,
            stage.hub,
            stage.store,
            stage.blobs,
            limit=self.plan.run.desktops,
            on_end=self.told.evaluated,
        )

    def _attempts(self) -> list[tuple[float, float, str]]:
        """Updates, seconds of practice and outcome of each attempt of practice."""
        prefix = attempts_of(self.stage.root)
        rows = [row for row in self.stage.catalog.episodes(actor="policy") if row.id.startswith(prefix)]
        rows.sort(key=lambda row: row.started_at + row.seconds)
        if not rows:
            return []
        begun = min(row.started_at for row in rows)
        return [(float(row.policy_version or 0), row.started_at + row.seconds - begun, row.outcome) for row in rows]

    def _frontier(self) -> dict[str, object] | None:
        try:
            return frontier_map(load_sampler(self.stage.catalog, self.stage.root.name)[0])
        except (NotFound, ValueError):
            return None

    def _time(self) -> TimeUse:
        metrics: dict[str, float] = {}
        file = self.stage.root / "metrics.jsonl"
        if file.exists() and (lines := file.read_text("utf-8").splitlines()):
            metrics = json.loads(lines[-1])
        return TimeUse(
            phases=self.clock.seconds,
            attempts={name: metrics.get(f"time_{name}_s", 0.0) for name in ("policy", "desktop", "setup", "grade")},
            learner={"updates": metrics.get("learner_s", 0.0), "hand-over": metrics.get("hand_over_s", 0.0)},
            practice_s=metrics.get("seconds", 0.0),
        )


class _Clock:
    """Adds up how long each phase took, over all starts of a run."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: dict[str, float] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[None]:
        """Count a block's time; what a kill cuts off is not counted."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun
            draft = self.file.with_suffix(".tmp")
            draft.write_text(json.dumps(self.seconds), "utf-8")
            draft.replace(self.file)


def training_tasks(shipped: Sequence[ProvenBundle], plan: QuickstartPlan) -> list[TrainingTask]:
    """Shipped tasks that a plan practises, in the order of their ids."""
    return _tasks(shipped, plan, "train")


def held_out_tasks(shipped: Sequence[ProvenBundle], plan: QuickstartPlan) -> list[TrainingTask]:
    """Shipped tasks that a plan evaluates on, in the order of their ids."""
    return _tasks(shipped, plan, "held-out")[: plan.held_out]


def _tasks(shipped: Sequence[ProvenBundle], plan: QuickstartPlan, split: str) -> list[TrainingTask]:
    found = [
        TrainingTask(bundle=each.bundle, assets=MemoryAssets(), split=split)
        for each in shipped
        if each.split == split and plan.run.tasks.allows(each.bundle.task)
    ]
    return sorted(found, key=lambda task: task.id)


def _held_out_task(task: TrainingTask) -> HeldOutTask:
    about = task.bundle.task
    return HeldOutTask(
        id=task.id,
        instruction=about.instruction,
        apps=tuple(about.apps),
        skills=tuple(about.skills),
        template=str(about.tags.get("template", "")),
    )
