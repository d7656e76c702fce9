"""The learner in a process of its own: trajectories in, weights out as files.

::

    update(trajectories, advantages) -> metrics        publish() -> DIRECTORY/vN/model.safetensors (renamed into place)
    checkpoint(step, extra) -> complete or absent      restore() -> extra

A directory of weights is there whole or not at all, and the one before it is removed only when the next is published:
the engine has read it by then.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.engines.protocol import DirectoryWeights
from agent.engines.qwen3vl.settings import TinySize
from agent.engines.tokens import Vocabulary
from agent.harness import Harness
from sandbox.frame import Frame
from store.blobs import BlobStore
from store.trajectory import Trajectory
from trainer.child import Child
from trainer.widgets import Widget

if TYPE_CHECKING:
    from trainer.batches import FrameSource, TrainingSequence
    from trainer.learner import LearnerSettings
    from trainer.losses import ClipRange
    from trainer.plans import Plan

__all__ = ["LearnerProcess", "TeachSettings", "Weighed", "start_learner"]

FRAMES_KEPT = 1024
"""Screenshots in memory; a third of a megabyte each at the quickstart's size."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """An attempt and what it was worth."""

    trajectory: Trajectory
    advantage: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TeachSettings:
    """What an update is made of."""

    batch: int = 4
    """Demonstrated segments."""
    pointing: int = 2
    """Exercises in pointing."""
    plans: int = 0
    plan_weight: float = 0.3
    """Of a plan's token beside one of a demonstration."""
    grounding: float = 1.0
    """Weight of naming what every part of the screen shows."""


class LearnerProcess:
    """The parent's end.

    Args:
        child: started; serves a learner.
    """

    def __init__(self, child: Child) -> None:
        self.child = child

    async def demonstrate(
        self, trajectories: Sequence[Trajectory], widgets: dict[str, tuple[Widget, ...]], plans: Sequence[Plan] = ()
    ) -> int:
        """Take demonstrations and plans in; return the number of segments to teach from."""
        number: int = await self.child.call("demonstrate", list(trajectories), widgets, tuple(plans))
        return number

    async def teach(self, num_updates: int, how: TeachSettings) -> dict[str, float]:
        """Make updates from what was taken in; returns the metrics' means."""
        metrics: dict[str, float] = await self.child.call("teach", num_updates, how)
        return metrics

    async def cpu_s(self) -> float:
        """CPU time that the process has used, seconds."""
        used: float = await self.child.call("cpu_s")
        return used

    async def rehearse(self, num_updates: int, how: TeachSettings) -> None:
        """From now on follow each update by reinforcement with some from what was taken in, as one version."""
        await self.child.call("rehearse", num_updates, how)

    async def update(self, batch: Sequence[Weighed]) -> dict[str, float]:
        """One update by reinforcement."""
        metrics: dict[str, float] = await self.child.call("update", list(batch))
        return metrics

    async def publish(self) -> tuple[DirectoryWeights, int]:
        """Write the weights for the engine; returns them and their version."""
        path, version = await self.child.call("publish")
        return DirectoryWeights(path=path), version

    async def checkpoint(self, root: Path, step: int, extra: dict[str, Any]) -> Path:
        """Save everything durably; returns the checkpoint."""
        path: Path = await self.child.call("checkpoint", root, step, extra)
        return path

    async def restore(self, checkpoint: Path) -> tuple[int, dict[str, Any]]:
        """Go on from a checkpoint; returns its version and what was saved with it.

        Raises:
            ValueError: it was made with other settings.
        """
        version, extra = await self.child.call("restore", checkpoint)
        return version, extra

    async def close(self) -> None:
        """End the process. Idempotent."""
        await self.child.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Start:
    """What the process needs to know."""

    source: Path | tuple[Vocabulary, TinySize, int]
    settings: LearnerSettings
    harness: Harness
    clip: ClipRange
    blobs: Path
    weights: Path


async def start_learner(
    source: Path | tuple[Vocabulary, TinySize, int],
    settings: LearnerSettings,
    harness: Harness,
    *,
    clip: ClipRange,
    blobs: Path,
    weights: Path,
) -> LearnerProcess:
    """Start a process that trains one policy.

    Args:
        source: the policy's directory; or vocabulary, size and seed of a new one.
        harness: that its attempts are made under.
        blobs: where screenshots are.
        weights: directory that published weights are put in.

    Raises:
        ValueError: there is no such policy.
        ChildDied: the process ended at once.
    """
    start = _Start(source=source, settings=settings, harness=harness, clip=clip, blobs=blobs, weights=weights)
    child = Child("learner", _LearnerService, start)
    await child.start()
    return LearnerProcess(child)


class _LearnerService:
    """What runs in the process."""

    def __init__(self, start: _Start) -> None:
        import torch

        from agent.engines.qwen3vl.checkpoint import build_tiny, load_policy
        from trainer.learner import Learner

        torch.set_num_threads(1)
        if isinstance(start.source, Path):
            policy = load_policy(start.source)
        else:
            vocabulary, size, seed = start.source
            policy = build_tiny(vocabulary, size, seed=seed)
        torch.manual_seed(start.settings.seed)  # torch seeds itself by chance
        self._harness = start.harness
        self._clip = start.clip
        self._weights = start.weights
        self._frames = _frame_source(start.blobs)
        self._learner = Learner(policy, start.settings, frames=self._frames)
        self._segments: list[TrainingSequence] = []
        self._widgets: dict[str, tuple[Widget, ...]] = {}
        self._labels: dict[str, Any] = {}
        self._plans: Sequence[Plan] = ()
        self._rehearsal = 0, TeachSettings()

    def demonstrate(
        self, trajectories: list[Trajectory], widgets: dict[str, tuple[Widget, ...]], plans: Sequence[Plan]
    ) -> int:
        from agent.engines.tokens import CompactFormat
        from trainer.demonstrations import forgiving, with_tokens
        from trainer.widgets import grounding_labels

        form = self._learner.policy.format
        if not isinstance(form, CompactFormat):
            raise ValueError("demonstrations are taught to policies with a vocabulary of our own; this one has another")
        self._segments = []
        for trajectory in trajectories:
            told = with_tokens(trajectory, form, self._harness, frames=self._frames, widgets=widgets)
            self._segments += [forgiving(segment, trajectory, form, widgets) for segment in self._cut(told, 0.0)]
        self._plans = plans
        self._widgets = {name: found for name, found in widgets.items() if found}
        self._labels = {}
        for name, found in widgets.items():
            frame = self._frames(name)
            self._labels[name] = grounding_labels(found, form.vocabulary, form.images, (frame.width, frame.height))
        return len(self._segments)

    def teach(self, num_updates: int, how: TeachSettings) -> dict[str, float]:
        from agent.engines.tokens import CompactFormat
        from trainer.demonstrations import pointing_sequence
        from trainer.objectives import SupervisedObjective
        from trainer.plans import plan_sequence

        learner, form = self._learner, self._learner.policy.format
        assert isinstance(form, CompactFormat), "demonstrate refuses others"
        objective = SupervisedObjective(form.vocabulary, self._labels, grounding=how.grounding)
        names = sorted(self._widgets)
        totals: dict[str, list[float]] = {}
        for _ in range(num_updates):
            sequences = learner.rng.sample(self._segments, min(how.batch, len(self._segments)))
            for name in learner.rng.sample(names, min(how.pointing, len(names))):
                exercise = pointing_sequence(name, self._frames(name), self._widgets[name], form, learner.rng)
                if exercise is not None:
                    sequences.append(exercise)
            for plan in learner.rng.sample(self._plans, min(how.plans, len(self._plans))):
                sequences.append(plan_sequence(plan, form, learner.rng, weight=how.plan_weight))
            for metric, value in learner.update(sequences, objective).items():
                totals.setdefault(metric, []).append(value)
        return {name: sum(values) / len(values) for name, values in totals.items()} | {"updates": learner.step}

    def rehearse(self, num_updates: int, how: TeachSettings) -> None:
        self._rehearsal = num_updates, how

    def update(self, batch: list[Weighed]) -> dict[str, float]:
        from trainer.objectives import GrpoObjective

        objective = GrpoObjective(temperature=self._harness.sampling.temperature, clip=self._clip)
        sequences = [one for each in batch for one in self._cut(each.trajectory, each.advantage)]
        oldest = min((one.oldest_version for one in sequences), default=self._learner.version)
        staleness = self._learner.version - oldest
        mean_lag = sum(self._learner.version - one.oldest_version for one in sequences) / max(1, len(sequences))
        before = self._learner.version
        metrics = self._learner.update(sequences, objective)
        rehearsed, how = self._rehearsal
        if rehearsed:
            taught = self.teach(rehearsed, how)
            metrics |= {"rehearsal_loss": loss} if (loss := taught.get("reply_loss")) is not None else {}
            self._learner.version = metrics["version"] = min(self._learner.version, before + 1)
        return {**metrics, "staleness_max": staleness, "staleness_mean": mean_lag}

    def cpu_s(self) -> float:
        return time.process_time()

    def publish(self) -> tuple[Path, int]:
        from safetensors.torch import save_file

        version = self._learner.version
        final = self._weights / f"v{version}"
        if not final.exists():
            draft = self._weights / f".v{version}"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            tensors = {name: tensor.contiguous() for name, tensor in self._learner.weights().items()}
            if self._learner.policy.model.config.tie_word_embeddings:
                tensors.pop("lm_head.weight", None)  # the embedding itself, which a file may hold only once
            save_file(tensors, draft / "model.safetensors")
            draft.rename(final)
        for old in self._weights.glob("v*"):
            if old != final:
                shutil.rmtree(old, ignore_errors=True)
        return final, version

    def checkpoint(self, root: Path, step: int, extra: dict[str, Any]) -> Path:
        from trainer.checkpoints import CheckpointStore

        return CheckpointStore(root).save(step, lambda directory: self._learner.save(directory, extra=extra))

    def restore(self, checkpoint: Path) -> tuple[int, dict[str, Any]]:
        extra = self._learner.restore(checkpoint)
        return self._learner.version, extra

    def close(self) -> None:
        shutil.rmtree(self._weights, ignore_errors=True)

    def _cut(self, trajectory: Trajectory, advantage: float) -> list[TrainingSequence]:
        from trainer.batches import training_sequences

        return training_sequences(
            trajectory,
            self._learner.policy.format,
            window=self._harness.window,
            delta=self._harness.delta,
            frames=self._frames,
            advantage=advantage,
        )


def _frame_source(blobs: Path) -> FrameSource:
    store = BlobStore(blobs)

    @lru_cache(maxsize=FRAMES_KEPT)
    def frame(name: str) -> Frame:
        return Frame.decode(store.get(name))

    return frame
