"""How much better than its group an attempt was: the advantage of every token it sampled.

    A_i = (r_i - b) / (s + eps)        b, s: mean and standard deviation of the group's rewards

With step weights both are weighted by the attempts' numbers of steps, so that sum_i T_i A_i = 0: a group of short
successes and long failures then pushes neither way on the whole (ComputerRL's and DART's baseline). Attempts that ended
by a failure of infrastructure have no reward and never come here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["group_advantages"]

EPSILON = 1e-6


def group_advantages(
    rewards: Sequence[float], *, steps: Sequence[int] | None = None, normalise: bool = True
) -> list[float]:
    """The advantages of the attempts of one group (GRPO, DeepSeekMath section 4.1).

    Args:
        rewards: [n] of each attempt.
        steps: [n] T_i, turns of each attempt; None weighs all attempts equally.
        normalise: divide by the standard deviation; else only the mean is taken off (Dr.GRPO).

    Returns:
        [n] Exactly 0 for all when the rewards are equal or there is only one.

    Raises:
        ValueError: a reward is not a number, or the steps are not one positive number for each.
    """
    if any(not math.isfinite(reward) for reward in rewards):
        raise ValueError("a reward is not a finite number; attempts without a reward do not belong in a group")
    weights = [1] * len(rewards) if steps is None else list(steps)
    if len(weights) != len(rewards) or any(weight <= 0 for weight in weights):
        raise ValueError(f"need one positive number of steps for each of {len(rewards)} rewards, got {weights}")
    if len(set(rewards)) <= 1:
        return [0.0] * len(rewards)
    total = sum(weights)
    mean = math.fsum(w * r for w, r in zip(weights, rewards, strict=True)) / total
    variance = math.fsum(w * (r - mean) ** 2 for w, r in zip(weights, rewards, strict=True)) / total
    scale = math.sqrt(variance) + EPSILON if normalise else 1.0
    return [(reward - mean) / scale for reward in rewards]
