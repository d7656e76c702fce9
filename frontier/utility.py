"""What a group is worth before it is run. Pure functions of arrays."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_value", "live_probability", "true_rate"]

Floats = NDArray[np.float64]


def live_probability(p: Floats, n: int) -> Floats:
    """Probability that n rollouts at success p neither all pass nor all fail: 1 - p^n - (1-p)^n."""
    return np.asarray(1.0 - p**n - (1.0 - p) ** n)


def group_value(p: Floats, n: int, signal: Literal["normalised", "centred"], size_power: float = 0.5) -> Floats:
    """What a group is expected to teach, per rollout.

    With advantages normalised by their standard deviation the norm of a live group is sqrt(n - 1) whatever p is, so
    only the probability of a live group depends on p; per rollout, middling tasks are worth most in small groups and
    extreme ones in large groups. With advantages that are only centred, a live group is worth 4 p (1 - p) of that.

    Args:
        p: success of each task.
        n: rollouts in the group.
        signal: how the trainer makes advantages.
        size_power: a live group is worth (n - 1) to this power; 0.5 is the norm of its advantages.
    """
    value = live_probability(p, n) * ((n - 1) ** size_power / n)
    return value if signal == "normalised" else np.asarray(value * 4.0 * p * (1.0 - p))


def true_rate(paid: Floats, false_positive: float, false_negative: float) -> Floats:
    """Success behind a rate of passes, for a verifier with known errors: p = (r - f) / (1 - f - m), within [0, 1].

    Args:
        paid: rates of passes.
        false_positive: chance f that a failed attempt is passed.
        false_negative: chance m that a good attempt is failed; f + m < 1.
    """
    if false_positive == 0 and false_negative == 0:
        return paid
    return np.clip((paid - false_positive) / (1.0 - false_positive - false_negative), 0.0, 1.0)
