"""A run of practice without a desktop, an engine's model or a learner's: each records what it was asked."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent.engines.protocol import TensorWeights, Weights
from agent.engines.tokens import CompactFormat, ImagePlan, Vocabulary
from evals.rollouts import Rollout
from frontier import Sampler
from store import Trajectory
from store.trajectory import ErrorInfo, Turn
from tests.support.blobs import FakeBlobs
from tests.support.trajectories import make_trajectory
from trainer.config import Practice, RunConfig
from trainer.gate_runs import Prover
from trainer.learner_process import Weighed
from trainer.loop import OnlineLoop
from trainer.metrics import JsonlSink, MetricsLog
from trainer.progress import LoopView
from trainer.run_directory import RunDirectory
from trainer.tasks import TrainingTask
from trainer.warm_start import draw_tasks
from verigen.packs import load_packs
from verigen.proof import GateOutcome, GateResult, Proof

__all__ = ["FakeDesktops", "FakeEngine", "FakeGates", "FakeLearner", "FakeStore", "Stage", "make_tasks"]

UPDATE_S = 0.05
"""How long an update takes: groups finish meanwhile."""


def make_tasks(count: int = 3, *, pack: str = "galculator") -> list[TrainingTask]:
    """Tasks of a pack."""
    return draw_tasks(load_packs([pack]), count, seed=1, known=[])


class FakeEngine:
    """Only takes weights."""

    def __init__(self, version: int = 0) -> None:
        self.version = version
        self.paused = False
        self.released: list[str] = []

    async def pause(self, mode: str = "finish") -> None:
        self.paused = True

    async def load_weights(self, weights: Weights, *, version: int) -> None:
        assert self.paused
        assert version > self.version
        self.version = version

    async def resume(self) -> None:
        self.paused = False

    async def release(self, affinity: str) -> None:
        self.released.append(affinity)

    async def sleep(self) -> None:
        pass

    async def wake(self) -> None:
        pass


class FakeLearner:
    """Every update moves its version by one; checkpoints are kept in memory.

    Args:
        weights: a number that stands for them: what it becomes depends on every update so far.
        update_s: how long an update takes.
    """

    def __init__(self, version: int = 0, weights: int = 0, *, update_s: float = UPDATE_S) -> None:
        self.version = version
        self.weights = weights
        self._update_s = update_s
        self.batches: list[list[Weighed]] = []
        self.saved: list[tuple[int, int, dict[str, Any]]] = []
        """Step, version and the caller's part of each checkpoint."""

    async def update(self, batch: Sequence[Weighed]) -> dict[str, float]:
        await asyncio.sleep(self._update_s)
        self.batches.append(list(batch))
        self.version += 1
        learned = [self.weights, *((each.trajectory.id, each.advantage) for each in batch)]
        self.weights = random.Random(repr(learned)).getrandbits(32)
        return {"version": self.version, "staleness_mean": 0.0}

    async def publish(self) -> tuple[Weights, int]:
        return TensorWeights(tensors={}), self.version

    async def checkpoint(self, root: Any, step: int, extra: dict[str, Any]) -> None:
        self.saved.append((step, self.version, extra))


class FakeDesktops:
    """Attempts that end at once, in random order, with outcomes drawn from a seed.

    Args:
        outcome: of an attempt, drawn with the seed unless given.
    """

    def __init__(
        self,
        store: FakeStore,
        engine: FakeEngine,
        *,
        seed: int = 0,
        outcome: Callable[[random.Random], str] = lambda rng: rng.choice(["pass", "fail", "fail", "infra_error"]),
    ) -> None:
        self.rollouts: list[Rollout] = []
        self._store = store
        self._engine = engine
        self._rng = random.Random(seed)
        self._outcome = outcome

    async def __call__(
        self, rollouts: Sequence[Rollout], on_end: Callable[[Rollout, Trajectory, bool], None]
    ) -> list[Trajectory]:
        self.rollouts += rollouts
        found = []
        for rollout in rollouts:
            version = self._engine.version
            for _ in range(self._rng.randrange(12)):
                await asyncio.sleep(0)
            outcome = self._outcome(self._rng)
            turn = Turn(index=0, frame=None, cursor=(0, 0), visible=(0,), raw="done")
            trajectory = make_trajectory(
                rollout.id,
                task_id=rollout.task.id,
                group_id=rollout.group_id,
                actor="policy",
                policy_version=version,
                turns=(turn,),
                outcome=outcome,
                reward=None if outcome == "infra_error" else float(outcome == "pass"),
                error=ErrorInfo(type="DesktopLost", phase="infra", message="gone")
                if outcome == "infra_error"
                else None,
            )
            self._store.commit(trajectory)
            on_end(rollout, trajectory, False)
            found.append(trajectory)
        return found


class FakeGates:
    """Gates whose outcome is a function of the task and of how often it was asked."""

    def __init__(
        self, outcome: Callable[[str, int], GateOutcome], *, on_run: Callable[[], object] = lambda: None
    ) -> None:
        self.asked: list[str] = []
        self.at_once = 0
        self._under_way = 0
        self._outcome = outcome
        self._on_run = on_run

    async def __call__(self, task: TrainingTask) -> Proof:
        self.asked.append(task.id)
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        self._on_run()
        for _ in range(30):
            await asyncio.sleep(0)
        self._under_way -= 1
        gate = GateResult(
            gate="G4", outcome=self._outcome(task.id, self.asked.count(task.id)), detail="as planned", seconds=0.1
        )
        return Proof(bundle_id=task.id, image_digest="", gates=(gate,), created_at=time.time(), seconds=0.1)


class FakeStore:
    """Trajectories in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Trajectory] = {}

    def commit(self, trajectory: Trajectory) -> None:
        assert trajectory.id not in self.kept
        self.kept[trajectory.id] = trajectory

    def load(self, trajectory_id: str) -> Trajectory:
        return self.kept[trajectory_id]


class Stage:
    """Everything that a loop stands on, in a directory."""

    def __init__(self, root: Path, **practice: Any) -> None:
        fields = {"updates": 6, "group_size": 4, "groups_per_update": 2, "checkpoint_every": 2, "sampler": "uniform"}
        deterministic = practice.pop("deterministic", False)
        self.config = RunConfig(
            name="stage",
            desktops=6,
            deterministic=deterministic,
            practice=Practice.model_validate(fields | practice),
        )
        self.root = root
        self.tasks = make_tasks()
        self.views: list[LoopView] = []
        self.sampler: Sampler | None = None
        """Of the loop, once it has sampled."""
        self.store = FakeStore()

    async def run(
        self,
        learner: FakeLearner,
        desktops: FakeDesktops,
        engine: FakeEngine,
        *,
        saved: dict[str, Any] | None = None,
        shuffle: bool = False,
        watched: Sequence[asyncio.Future[None]] = (),
        prove: Prover | None = None,
    ) -> OnlineLoop:
        """Run the loop to its end."""
        directory = RunDirectory(self.root / "run", self.config)
        try:
            step = 0 if saved is None else saved["step"]
            with MetricsLog([JsonlSink(self.root / "run" / "metrics.jsonl", resume_step=step)]) as log:
                loop = OnlineLoop(
                    self.config,
                    self.tasks,
                    directory,
                    desktops,
                    self.store,  # type: ignore[arg-type]
                    FakeBlobs(),  # type: ignore[arg-type]
                    engine,  # type: ignore[arg-type]
                    CompactFormat(Vocabulary(width=32, height=32, words=()), ImagePlan()),
                    learner,
                    log,
                    version=learner.version,
                    shuffle=shuffle,
                    watched=watched,
                    prove=prove,
                    on_view=self.views.append,
                    on_sampled=self._sampled,
                )
                if saved is not None:
                    loop.restore(saved)
                await loop.run()
        finally:
            directory.close()
        return loop

    def _sampled(self, sampler: Sampler) -> None:
        self.sampler = sampler
