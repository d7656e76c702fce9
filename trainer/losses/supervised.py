"""Learning from demonstrations: the likelihood of what was written, and naming what every part of the screen shows.

The second, *dense grounding*, is what makes a small model point: at every image position the language model's own head
names the widget that lies there and the bins of its middle, each among the tokens of its kind. Without the bins a
policy learns to read the screen and still clicks at random.

Shapes: N trained tokens; P labelled image positions; D width; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["grounding_loss", "likelihood_loss"]


def likelihood_loss(logp_N: Tensor, weight_N: Tensor, *, denominator: float) -> Tensor:
    """[] Minus the weighted log-likelihood of the tokens, over one denominator for the whole update."""
    return -(weight_N * logp_N).sum() / denominator


def grounding_loss(
    logits_PV: Tensor, wanted_P32: Tensor, kinds: Sequence[Tensor], *, denominator: float
) -> tuple[Tensor, Tensor]:
    """Minus the log-likelihoods of a right name, x bin and y bin, each among the tokens of its kind.

    Args:
        logits_PV: of the language model's head at image positions.
        wanted_P32: first and last of the ids that are right for name, x bin and y bin.
        kinds: the tokens that each of the three is among, ascending.
        denominator: labelled positions of the whole update.

    Returns:
        [] The sum of the three, and [3] how many positions have each right.
    """
    losses, right = [], []
    for column, ids in enumerate(kinds):
        among = logits_PV[:, ids]
        first, last = wanted_P32[:, column].unbind(-1)
        wrong = (ids < first[:, None]) | (ids > last[:, None])
        likelihood = among.log_softmax(-1).masked_fill(wrong, -torch.inf).logsumexp(-1)
        losses.append(-likelihood.sum() / denominator)
        best = ids[among.detach().argmax(-1)]
        right.append(((best >= first) & (best <= last)).sum())
    return torch.stack(losses).sum(), torch.stack(right)
