"""GRPO on tokens, with an asymmetric clip and a second clip for negative advantages.

    rho = exp(logp - old_logp)
    J   = min(rho A, clip(rho, 1 - low, 1 + high) A)              (PPO; clip-higher of DAPO, section 3.1)
    J   = max(J, dual A)  where A < 0                             (dual clip, Ye et al. 2020)
    L   = - sum J / D  +  beta sum (exp(ref - logp) - (ref - logp) - 1) / D     (k3 estimate of KL(policy, reference))

`old_logp` are the engine's own log-probabilities, so staleness, engine mismatch and the update's own movement are all
inside the one ratio that is clipped. D is one denominator for the whole update, computed before the first backward
pass, so that neither micro-batches nor ranks change the loss.

Shapes: N trained tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["ClipRange", "GrpoLoss", "grpo_loss"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipRange:
    """How far one update may move a token's probability."""

    low: float = 0.2
    high: float = 0.28
    dual: float = 3.0
    """Cap on the ratio where the advantage is negative; above 1 + high."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GrpoLoss:
    """The loss and sums over its tokens, to be added up over micro-batches."""

    loss: Tensor
    """[] Differentiable."""
    num_tokens: float
    """Tokens that counted."""
    num_dropped: float
    """Tokens left out because a log-probability is not finite."""
    num_clipped: float
    """Tokens whose gradient a clip took away."""
    sum_kl: float
    """Of the k3 estimate of KL(policy now, policy that sampled)."""
    max_ratio: float


def grpo_loss(
    logp_N: Tensor,
    old_logp_N: Tensor,
    advantage_N: Tensor,
    *,
    denominator: float,
    clip: ClipRange | None = None,
    kl_coefficient: float = 0.0,
    reference_logp_N: Tensor | None = None,
) -> GrpoLoss:
    """The loss of some of an update's tokens.

    Args:
        logp_N: under the weights that are trained; differentiable.
        old_logp_N: under the weights that sampled.
        denominator: D, the same for all parts of an update.
        kl_coefficient: beta.
        reference_logp_N: under the reference policy; needed where beta is not 0.

    Raises:
        ValueError: a KL is asked for without a reference, or the denominator is not positive.
    """
    clip = clip or ClipRange()
    if denominator <= 0 or (kl_coefficient and reference_logp_N is None):
        raise ValueError(f"need a positive denominator ({denominator}), and a reference where kl_coefficient is not 0")
    usable = torch.isfinite(logp_N.detach()) & torch.isfinite(old_logp_N)
    logp, old_logp, advantage = logp_N[usable], old_logp_N[usable], advantage_N[usable]
    difference = logp - old_logp
    ratio = difference.exp()
    free = ratio * advantage
    objective = torch.minimum(free, ratio.clamp(1 - clip.low, 1 + clip.high) * advantage)
    objective = torch.where(advantage < 0, torch.maximum(objective, clip.dual * advantage), objective)
    loss = -objective.sum() / denominator
    if kl_coefficient:
        assert reference_logp_N is not None
        gap = reference_logp_N[usable] - logp
        loss = loss + kl_coefficient * (gap.exp() - gap - 1).sum() / denominator
    with torch.no_grad():
        clipped = (objective != free) & (advantage != 0)
        kl = (-difference).exp() + difference - 1
    return GrpoLoss(
        loss=loss,
        num_tokens=float(usable.sum()),
        num_dropped=float((~usable).sum()),
        num_clipped=float(clipped.sum()),
        sum_kl=float(kl.sum()),
        max_ratio=float(ratio.detach().max()) if len(ratio) else 1.0,
    )
