"""Intervals and tests for success rates. Pure functions of counts.

Attempts at one task are not independent of each other, so where tasks have several attempts the interval of the pooled
rate is too narrow; `sign_flip_test` on per-task differences is the comparison that stays valid.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

__all__ = ["Interval", "mcnemar_exact", "sign_flip_test", "wilson_interval"]

EXACT_UP_TO = 14
"""Differences up to which the sign-flip test enumerates all signs (2^14)."""
NUM_DRAWS = 20_000
"""Random sign vectors beyond that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A confidence interval of a rate."""

    low: float
    high: float


def wilson_interval(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """The score interval of a binomial rate; it stays inside [0, 1] and is sane at 0 and at all successes.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    Args:
        successes: 0 <= successes <= trials.
        trials: without any trial the interval is [0, 1].
        confidence: in (0, 1).

    Raises:
        ValueError: an argument is out of its range.
    """
    if not 0 <= successes <= trials or not 0 < confidence < 1:
        raise ValueError(
            f"need 0 <= successes <= trials and 0 < confidence < 1, got {successes}/{trials}, {confidence}"
        )
    if trials == 0:
        return Interval(low=0.0, high=1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / trials
    scale = 1 + z * z / trials
    center = (rate + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # At the ends the formula is exactly 0 or 1; rounding must not put the rate outside its own interval.
    low = 0.0 if successes == 0 else center - half
    high = 1.0 if successes == trials else center + half
    return Interval(low=low, high=high)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p-value that two paired success rates are equal.

    Under equality each pair that disagrees falls to either side with probability 1/2.
    Source: Q. McNemar, Psychometrika 12 (1947); exact binomial form.

    Args:
        only_first: pairs that only the first passed.
        only_second: pairs that only the second passed.

    Raises:
        ValueError: a count is negative.
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"counts cannot be negative, got {only_first} and {only_second}")
    total = only_first + only_second
    tail = sum(math.comb(total, k) for k in range(min(only_first, only_second) + 1))
    return min(1.0, tail / 2 ** (total - 1)) if total else 1.0


def sign_flip_test(differences: Sequence[float], *, seed: int = 0) -> float:
    """Two-sided p-value that paired differences are symmetric around 0 (Fisher's randomisation test).

    Exact for up to 14 differences that are not 0, and by 20 000 random sign vectors beyond, where the observed one
    counts too, so that the p-value is never 0.
    Source: R. A. Fisher, "The Design of Experiments" (1935), section 21; counting the observed one:
    B. Phipson and G. K. Smyth (2010).

    Args:
        differences: one per task (first minus second); zeros carry no information.
        seed: of the random signs.
    """
    nonzero = [difference for difference in differences if difference]
    # Sums that are equal on paper differ by rounding; a relative margin keeps ties on the side of caution.
    bound = abs(math.fsum(nonzero)) * (1 - 1e-12) - 1e-12
    if len(nonzero) <= EXACT_UP_TO:
        signs = itertools.product((1, -1), repeat=len(nonzero))
        sums = [math.fsum(sign * value for sign, value in zip(row, nonzero, strict=True)) for row in signs]
        return sum(abs(total) >= bound for total in sums) / len(sums)
    rng = random.Random(seed)
    extreme = sum(
        abs(math.fsum(value if rng.random() < 0.5 else -value for value in nonzero)) >= bound for _ in range(NUM_DRAWS)
    )
    return (extreme + 1) / (NUM_DRAWS + 1)
