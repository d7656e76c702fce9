"""What an update minimises: sums over training sequences, over denominators of the whole update.

An objective is asked twice: once for its denominators, with all sequences of the update, and then for the loss of each
micro-batch. So the loss and its gradient do not depend on how the update is split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from agent.engines.tokens import Vocabulary
from trainer.batches import TrainingSequence
from trainer.forward import Forward, ForwardPass
from trainer.losses import ClipRange, grounding_loss, grpo_loss, likelihood_loss
from trainer.metrics import Reduced
from trainer.widgets import GroundingLabel

__all__ = ["Denominators", "GrpoObjective", "Objective", "SupervisedObjective"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Denominators:
    """Of one update, over all its sequences. Never 0, so that a sum of nothing is 0."""

    tokens: float
    """Trained tokens, by their weights where the objective has weights."""
    positions: float = 1.0
    """Labelled image positions."""


class Objective(Protocol):
    """What an update minimises."""

    @property
    def temperature(self) -> float:
        """That log-probabilities are taken at."""
        ...

    def denominators(self, sequences: Sequence[TrainingSequence]) -> Denominators:
        """Of all sequences of an update."""
        ...

    def teaches(self, sequence: TrainingSequence) -> bool:
        """Whether the sequence can have a gradient; one that cannot is not run, and still counts."""
        ...

    def loss(
        self,
        forward: Forward,
        outcome: ForwardPass,
        sequences: Sequence[TrainingSequence],
        denominators: Denominators,
        metrics: Reduced,
    ) -> Tensor:
        """[] Of one micro-batch; the losses of all micro-batches add up to the update's."""
        ...


@dataclass(frozen=True, kw_only=True)
class GrpoObjective:
    """See `trainer.losses.grpo`."""

    temperature: float
    clip: ClipRange = field(default_factory=ClipRange)

    def denominators(self, sequences: Sequence[TrainingSequence]) -> Denominators:
        """Sampled tokens of all sequences, those without advantage included."""
        return Denominators(tokens=max(1, sum(len(sequence.trained) for sequence in sequences)))

    def teaches(self, sequence: TrainingSequence) -> bool:
        """Only with an advantage."""
        return sequence.advantage != 0.0 and bool(sequence.trained)

    def loss(
        self,
        forward: Forward,
        outcome: ForwardPass,
        sequences: Sequence[TrainingSequence],
        denominators: Denominators,
        metrics: Reduced,
    ) -> Tensor:
        """The clipped objective of the sequences' tokens."""
        device = outcome.logp_N.device
        old = torch.tensor([logp for each in sequences for logp in each.logprobs], device=device)
        advantage = torch.tensor([each.advantage for each in sequences for _ in each.trained], device=device)
        result = grpo_loss(outcome.logp_N, old, advantage, denominator=denominators.tokens, clip=self.clip)
        metrics.mean("clip_fraction", result.num_clipped, result.num_tokens)
        metrics.mean("kl_to_sampler", result.sum_kl, result.num_tokens)
        metrics.mean("entropy", float(outcome.entropy_N.sum()), len(outcome.entropy_N))
        metrics.max("max_ratio", result.max_ratio)
        metrics.sum("dropped_tokens", result.num_dropped)
        return result.loss


class SupervisedObjective:
    """See `trainer.losses.supervised`.

    Args:
        labels: what the image tokens of each screenshot show, by the screenshot's name.
        grounding: weight of the dense grounding loss; 0 leaves it out.
    """

    temperature = 1.0

    def __init__(
        self, vocabulary: Vocabulary, labels: Mapping[str, Sequence[GroundingLabel]], *, grounding: float = 1.0
    ) -> None:
        self.grounding = grounding
        self._labels = labels
        self._kinds = [torch.tensor(vocabulary.of_kind(*kinds)) for kinds in (("byte", "word"), ("x",), ("y",))]

    def denominators(self, sequences: Sequence[TrainingSequence]) -> Denominators:
        """Weights of the trained tokens, and labelled image positions, of all sequences."""
        num_labels = sum(len(self._labels.get(image.name, ())) for each in sequences for image in each.images)
        tokens = math.fsum(sequence.weight * len(sequence.trained) for sequence in sequences)
        return Denominators(tokens=tokens or 1.0, positions=max(1, num_labels))

    def teaches(self, sequence: TrainingSequence) -> bool:
        """Always."""
        return True

    def loss(
        self,
        forward: Forward,
        outcome: ForwardPass,
        sequences: Sequence[TrainingSequence],
        denominators: Denominators,
        metrics: Reduced,
    ) -> Tensor:
        """Likelihood of the replies, and the naming of what each image token shows."""
        device = outcome.logp_N.device
        weight = torch.tensor([each.weight for each in sequences for _ in each.trained], device=device)
        right_logp = outcome.right_logp_N
        loss = likelihood_loss(right_logp, weight, denominator=denominators.tokens)
        metrics.mean("reply_loss", -float(right_logp.detach().sum()), len(right_logp))
        where = [
            (row, image.start + label.index, label)
            for row, sequence in enumerate(sequences)
            for image in sequence.images
            for label in self._labels.get(image.name, ())
        ]
        if not where or self.grounding == 0:
            return loss
        rows, positions, found = zip(*where, strict=True)
        logits = forward.language.logits(outcome.hidden_BLD[list(rows), list(positions)])
        kinds = [ids.to(device) for ids in self._kinds]
        wanted = torch.tensor([_ranges(label) for label in found], device=device)
        naming, right = grounding_loss(logits, wanted, kinds, denominator=denominators.positions)
        metrics.mean("grounding_loss", float(naming.detach()) * denominators.positions, len(where))
        for name, count in zip(("name", "x", "y"), right.tolist(), strict=True):
            metrics.mean(f"grounding_{name}_right", count, len(where))
        return loss + self.grounding * naming


def _ranges(label: GroundingLabel) -> list[tuple[int, int]]:
    x, y = label.bins.x, label.bins.y
    return [(label.name, label.name), (x.start, x.stop - 1), (y.start, y.stop - 1)]
