"""Learning from demonstrations: the likelihood of what was written, and naming what every part of the screen shows.

The second, *dense grounding*, is what makes a small model point: at every image position the language model's own head
names the widget that lies there and the bins of its middle, each among the tokens of its kind. Without the bins a
policy learns to read the screen and still clicks at random.

Shapes: N trained tokens; P labelled image positions; D width; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["grounding_loss", "likelihood_loss"]


def likelihood_loss(logp_N: Tensor, weight_N: Tensor, *, denominator: float) -> Tensor:
    """[] Minus the weighted log-likelihood of the tokens, over one denominator for the whole update."""
    return -(weight_N * logp_N).sum() / denominator


def grounding_loss(
    logits_PV: Tensor, targets_P3: Tensor, kinds: Sequence[Tensor], *, denominator: float
) -> tuple[Tensor, Tensor]:
    """Cross-entropies of name, x bin and y bin, each over the tokens of its kind.

    Args:
        logits_PV: of the language model's head at image positions.
        targets_P3: the tokens of name, x bin and y bin.
        kinds: the tokens that each of the three is among, ascending.
        denominator: labelled positions of the whole update.

    Returns:
        [] The sum of the three, and [3] how many positions have each right.
    """
    losses, right = [], []
    for column, ids in enumerate(kinds):
        among = logits_PV[:, ids]
        target = torch.searchsorted(ids, targets_P3[:, column].contiguous())
        losses.append(F.cross_entropy(among, target, reduction="sum") / denominator)
        right.append((among.detach().argmax(-1) == target).sum())
    return torch.stack(losses).sum(), torch.stack(right)
