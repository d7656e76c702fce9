"""One run from its file to its last checkpoint: warm start, engine and learner processes, the loop, and their ends.

::

    demonstrations -> imitation -> warm/step-N -> [engine] [learner] <-> loop -> checkpoints/step-N
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.engines.qwen3vl.checkpoint import load_policy
from agent.engines.tokens import CompactFormat, ImagePlan, PolicyFormat, Vocabulary
from frontier import FrontierSampler, Sampler
from sandbox.hub import Lender
from store import BlobStore, Catalog, Trajectory, TrajectoryStore
from trainer.checkpoints import CheckpointStore
from trainer.config import RunConfig, TaskChoice
from trainer.engine_process import MAX_BATCH, start_engine
from trainer.errors import NothingToDo, TrainerError
from trainer.gate_runs import prover_of
from trainer.learner import STATE_FILE
from trainer.learner_process import start_learner
from trainer.loop import OnlineLoop
from trainer.loop_parts import desktops_of
from trainer.losses import ClipRange
from trainer.metrics import JsonlSink, MetricsLog, TensorboardSink
from trainer.plans import Plan, plan_of
from trainer.practice import keep_sampler
from trainer.progress import LoopView
from trainer.run_directory import RunDirectory
from trainer.tasks import TrainingTask
from trainer.warm_start import Demonstrations, collect_demonstrations, draw_tasks, imitate, imitate_further, together
from verigen.packs import SkillPack

__all__ = ["Session", "Watcher", "last_checkpoint", "read_format"]


@dataclass(kw_only=True)
class Watcher:
    """Who is told what happens."""

    phase: Callable[[str, int], None] = lambda name, total: None
    """A phase begins: its name, and how many things it will do."""
    demonstrated: Callable[[Trajectory], None] = lambda trajectory: None
    imitated: Callable[[dict[str, float]], None] = lambda metrics: None
    view: Callable[[LoopView], None] = lambda view: None


@dataclass(kw_only=True)
class Session:
    """One run on this machine."""

    config: RunConfig
    tasks: Sequence[TrainingTask]
    root: Path
    """The run's directory."""
    hub: Lender
    store: TrajectoryStore
    blobs: BlobStore
    blobs_at: Path
    catalog: Catalog | None = None
    """Keeps the sampler's state and history under the run's name, for the map of the frontier."""
    packs: Sequence[SkillPack] = ()
    """Where further demonstrations are drawn from."""
    shuffle: bool = False
    watcher: Watcher = field(default_factory=Watcher)

    async def demonstrate(self) -> None:
        """Only watch the demonstrations, and keep them."""
        with self._directory() as directory:
            if self.config.policy is None and _finished_warm_start(directory) is None:
                await self._watch(directory)

    async def warm_start(self) -> Path:
        """Only make the policy that practice starts from; return its checkpoint."""
        with self._directory() as directory:
            return await self._start(directory)

    async def imitate_further(self, into: Path, *, cpu_s: float) -> Path:
        """A control: go on imitating after the warm start instead of practising; return the checkpoint.

        Args:
            into: directory of its checkpoints.
            cpu_s: of the learner.
        """
        with self._directory() as directory:
            start = await self._start(directory)
            shown = await self._watch(directory)
            return await imitate_further(
                self.config, shown, self._plans(), start, into, self.blobs_at, weights=directory.weights(), cpu_s=cpu_s
            )

    async def run(self) -> Path:
        """Run what is left of the run; return its last checkpoint.

        Raises:
            ValueError: another process runs it, or it was begun with another configuration.
            NothingToDo: there are no tasks.
            TrainerError, DesktopError, StoreError: what they say; run again to go on.
        """
        with self._directory() as directory:
            start = await self._start(directory)
            if self.config.practice.updates == 0:
                return start
            return await self._practise(directory, start)

    def _directory(self) -> AbstractContextManager[RunDirectory]:
        return closing(RunDirectory(self.root, self.config, variant="shuffled rewards" if self.shuffle else ""))

    async def _start(self, directory: RunDirectory) -> Path:
        """The policy that practice starts from."""
        config, watcher = self.config, self.watcher
        if config.policy is not None:
            return Path(config.policy)
        finished = _finished_warm_start(directory)
        if finished is not None:
            return finished
        shown = await self._watch(directory)
        plans = self._plans()
        reading = config.warm_start.reading if plans else 0
        watcher.phase("Imitating them", reading + config.warm_start.updates)
        return await imitate(config, shown, directory, self.blobs_at, plans=plans, on_metrics=watcher.imitated)

    def _plans(self) -> list[Plan]:
        config = self.config
        drawn = draw_tasks(
            self.packs, config.warm_start.plans, seed=config.seed, known=[], choice=config.tasks, purpose="plan"
        )
        return [plan_of(task.bundle) for task in drawn]

    def _demonstrated(self) -> TaskChoice:
        """What is practised, or the part of it that the warm start is narrowed to."""
        practised, narrowed = self.config.tasks, TaskChoice(templates=self.config.warm_start.templates)
        if not narrowed.templates:
            return practised
        names = {str(task.bundle.task.tags.get("template", "")) for task in self.tasks}
        names |= {template.name for pack in self.packs for template in pack.templates}
        both = tuple(sorted(n for n in names if practised.allows_template(n) and narrowed.allows_template(n)))
        if not both:
            raise NothingToDo(
                f"warm_start.templates allows {', '.join(narrowed.templates)}, and no task that is practised was made "
                "from such a template; leave the key out to demonstrate all that is practised"
            )
        return practised.model_copy(update={"templates": both})

    async def _watch(self, directory: RunDirectory) -> Demonstrations:
        """Demonstrations of the tasks and of others that are drawn from the packs."""
        config, watcher = self.config, self.watcher
        choice = self._demonstrated()
        tasks = [task for task in self.tasks if choice.allows(task.bundle.task)]
        extra = draw_tasks(
            self.packs,
            config.warm_start.draws,
            seed=config.seed,
            known=[task.bundle for task in self.tasks],
            choice=choice,
        )
        watcher.phase("Watching solutions", config.warm_start.demonstrations + len(extra))
        return await collect_demonstrations(
            config, tasks, extra, directory, self.hub, self.store, self.blobs, on_end=watcher.demonstrated
        )

    async def _to_rehearse(self, directory: RunDirectory, start: Path) -> Demonstrations | None:
        """What practice rehearses; None where it does not."""
        if not self.config.practice.rehearsal:
            return None
        if not isinstance(read_format(start), CompactFormat):
            raise ValueError(
                f"practice.rehearsal needs a policy with a vocabulary of our own, and {start} has another: leave it out"
            )
        return await self._watch(directory)

    async def _practise(self, directory: RunDirectory, start: Path) -> Path:
        config, practice = self.config, self.config.practice
        checkpoints = CheckpointStore(directory.checkpoints)
        checkpoint = checkpoints.latest()
        version, step = _where(checkpoint)
        if checkpoint is not None and step >= practice.updates:
            return checkpoint
        shown = await self._to_rehearse(directory, start)
        self.watcher.phase("Practising", practice.updates)
        # Starting either takes as long as importing torch.
        learner, engine = await asyncio.gather(
            start_learner(
                start,
                practice.learner,
                config.harness,
                clip=ClipRange(low=practice.clip_low, high=practice.clip_high),
                blobs=self.blobs_at,
                weights=directory.weights(),
            ),
            start_engine(checkpoint or start, version=version, max_batch=1 if config.deterministic else MAX_BATCH),
        )
        try:
            if shown is not None:
                await learner.demonstrate(shown.trajectories, shown.widgets, self._plans())
                await learner.rehearse(practice.rehearsal, together(config.warm_start))
            extra = None if checkpoint is None else (await learner.restore(checkpoint))[1]
            log = MetricsLog(
                [
                    JsonlSink(self.root / "metrics.jsonl", resume_step=step),
                    TensorboardSink(self.root / "tensorboard", resume_step=step),
                ]
            )
            with log:
                loop = OnlineLoop(
                    config,
                    self.tasks,
                    directory,
                    desktops_of(self.hub, self.store, self.blobs),
                    self.store,
                    self.blobs,
                    engine,
                    read_format(start),
                    learner,
                    log,
                    version=version,
                    shuffle=self.shuffle,
                    prove=prover_of(self.hub, self.catalog),
                    watched=[engine.child.over, learner.child.over],
                    on_view=self.watcher.view,
                    on_sampled=self._keep_sampler,
                )
                if extra is not None:
                    _restore(loop, extra, checkpoint)
                await loop.run()
        finally:
            await engine.close()
            await learner.close()
        return checkpoints.latest() or start

    def _keep_sampler(self, sampler: Sampler) -> None:
        if self.catalog is not None and isinstance(sampler, FrontierSampler):
            keep_sampler(self.catalog, self.root.name, sampler)


def _restore(loop: OnlineLoop, extra: dict[str, Any], checkpoint: Path | None) -> None:
    try:
        loop.restore(extra)
    except (ValueError, TypeError, KeyError) as error:
        why = str(error) if isinstance(error, ValueError) else f"another version of Frontdesk saved it ({error!r})"
        raise TrainerError(
            f"practice cannot go on from {checkpoint}: {why}. Its weights can: begin a run under another name with "
            f'`policy = "{checkpoint}"`'
        ) from error


def _where(checkpoint: Path | None) -> tuple[int, int]:
    """Version and step of a checkpoint of practice."""
    if checkpoint is None:
        return 0, 0
    version: int = json.loads((checkpoint / STATE_FILE).read_text("utf-8"))["version"]
    return version, CheckpointStore.step(checkpoint)


def _finished_warm_start(directory: RunDirectory) -> Path | None:
    """The checkpoint of a warm start that was finished."""
    checkpoint = CheckpointStore(directory.warm).latest() if directory.warm.is_dir() else None
    if checkpoint is None:
        return None
    extra = json.loads((checkpoint / STATE_FILE).read_text("utf-8"))["extra"]
    return checkpoint if extra["finished"] else None


def last_checkpoint(root: Path) -> Path | None:
    """The newest policy of a run: of practice, else of its warm start; None before either."""
    places = [root / "checkpoints", root / "warm"]
    found = (CheckpointStore(place).latest() for place in places if place.is_dir())
    return next((path for path in found if path is not None), None)


def read_format(directory: Path) -> PolicyFormat:
    """How the policy in a directory reads and writes.

    Raises:
        ValueError: there is none.
    """
    try:
        vocabulary = Vocabulary.load(directory)
    except FileNotFoundError:
        return load_policy(directory).format
    vision = json.loads((directory / "config.json").read_text("utf-8"))["vision_config"]
    return CompactFormat(vocabulary, ImagePlan(patch=vision["patch_size"], merge=vision["spatial_merge_size"]))
