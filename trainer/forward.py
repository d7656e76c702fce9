"""What the weights that are trained say of training sequences: the log-probability of every trained token.

The model, the masks and the temperature are those of the engine, in the engine's own code, so that the ratio of the two
log-probabilities is 1 until the weights move.

Shapes: B sequences, L tokens, D width; N trained tokens of all sequences, in order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from agent.engines.qwen3vl.checkpoint import PolicyModel
from agent.engines.qwen3vl.language import LanguageModel
from agent.engines.qwen3vl.sampling import MaskTable, log_probs
from agent.engines.qwen3vl.sequences import embed, place
from agent.engines.qwen3vl.vision import Patches, VisionEncoder
from trainer.batches import FrameSource, SequenceImage, TrainingSequence

__all__ = ["Forward", "ForwardPass"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardPass:
    """The outcome of one micro-batch."""

    logp_N: Tensor
    """Of the trained tokens under the sampling distribution; differentiable."""
    right_logp_N: Tensor
    """Of any token that `TrainingSequence.as_right` takes for right; differentiable."""
    entropy_N: Tensor
    """Of the distributions they were sampled from; not differentiable."""
    hidden_BLD: Tensor
    """The final hidden states; differentiable."""


class Forward:
    """Runs training sequences through a model; differentiable.

    Args:
        frames: gives the sequences' screenshots.
        max_patches: images whose patches are kept between calls.
    """

    def __init__(self, policy: PolicyModel, frames: FrameSource, *, max_patches: int = 2048) -> None:
        form = policy.format
        self.language = LanguageModel(policy.model)
        self._plan = form.images
        self._encoder = VisionEncoder(policy.model.model.visual)
        self._frames = frames
        self._max_patches = max_patches
        self._patches: OrderedDict[str, Patches] = OrderedDict()
        self._masks = MaskTable(len(self.language.embedding), form.grammar, form.banned_ids)

    def __call__(self, sequences: Sequence[TrainingSequence], *, temperature: float) -> ForwardPass:
        """Run one micro-batch.

        Args:
            temperature: that they were sampled at; 0 is taken as 1.

        Raises:
            ValueError: a reply holds a token that could not have been sampled.
        """
        named = {image.name: image for sequence in sequences for image in sequence.images}
        encoded = self._encoder([self._patch(image) for image in named.values()])
        images = dict(zip(named, encoded, strict=True))
        runs = [
            place(
                sequence.ids,
                [image.start for image in sequence.images],
                [image.name for image in sequence.images],
                [image.grid for image in sequence.images],
                self._plan.merge,
            )
            for sequence in sequences
        ]
        batch = embed(self.language, runs, images)
        hidden = self.language.forward(
            batch.x_BLD,
            self.language.rotary(batch.positions_3BL),
            self.language.stack(),
            deepstack=batch.deepstack,
        )
        device = hidden.device
        rows = [row for row, sequence in enumerate(sequences) for _ in sequence.trained]
        before = [index - 1 for sequence in sequences for index in sequence.trained]
        tokens = [sequence.ids[index] for sequence in sequences for index in sequence.trained]
        states = list(chain.from_iterable(map(self._states, sequences)))
        logits = self.language.logits(hidden[rows, before])
        all_logp = log_probs(logits, self._masks.table[states], temperature)
        chosen = torch.tensor(tokens, dtype=torch.long, device=device)
        with torch.no_grad():
            entropy = -(all_logp.exp() * all_logp.nan_to_num(neginf=0.0)).sum(-1)
        logp = all_logp.gather(1, chosen[:, None])[:, 0]
        return ForwardPass(
            logp_N=logp, right_logp_N=_any_right(sequences, all_logp, logp), entropy_N=entropy, hidden_BLD=hidden
        )

    def _states(self, sequence: TrainingSequence) -> list[int]:
        """The grammar's state at each trained token."""
        at: dict[int, int] = {}
        for reply in sequence.replies:
            at.update(zip(reply, self._masks.states(sequence.ids[reply.start : reply.stop]), strict=True))
        return [at[index] for index in sequence.trained]

    def _patch(self, image: SequenceImage) -> Patches:
        if image.name not in self._patches:
            values = self._plan.patches(self._frames(image.name))
            self._patches[image.name] = Patches(grid=image.grid, values=values)
            while len(self._patches) > self._max_patches:
                self._patches.popitem(last=False)
        return self._patches[image.name]


def _any_right(sequences: Sequence[TrainingSequence], all_logp: Tensor, logp: Tensor) -> Tensor:
    ranges = [sequence.as_right.get(index) for sequence in sequences for index in sequence.trained]
    rows = [row for row, ids in enumerate(ranges) if ids is not None]
    if not rows:
        return logp
    right = torch.zeros(len(rows), all_logp.shape[1], dtype=torch.bool)
    for index, row in enumerate(rows):
        ids = ranges[row]
        assert ids is not None
        right[index, ids.start : ids.stop] = True
    any_of_them = all_logp[rows].masked_fill(~right.to(all_logp.device), -torch.inf).logsumexp(-1)
    return logp.index_copy(0, torch.tensor(rows, device=logp.device), any_of_them)
