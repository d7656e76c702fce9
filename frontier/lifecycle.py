"""The states of a task, what moves it between them, and how that is said.

::

                 upper bound low                   lower bound high
    MONITOR <---------------------- FRONTIER ----------------------> EASY
       |      a pass, or drift        ^  |    success was lost         |
       `------------------------------'  | doubt  ^--------------------'
                                         v
              gates passed <------- QUARANTINE -------> BROKEN (gates failed; they run again later)

    RETIRED: taken out of the pool from whatever state; if it is added again, it comes back to FRONTIER

Bounds are those of the Beta posterior by its mean and standard deviation, on the scale of true success where the
verifier's error rates are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier.config import FrontierConfig
from frontier.utility import true_rate

__all__ = ["STATES", "Event", "State", "bounds", "moves"]

Floats = NDArray[np.float64]


class State:
    """Codes of the life cycle."""

    FRONTIER = 0
    MONITOR = 1
    EASY = 2
    QUARANTINE = 3
    BROKEN = 4
    RETIRED = 5


STATES = ("FRONTIER", "MONITOR", "EASY", "QUARANTINE", "BROKEN", "RETIRED")
"""Names by code."""

Z_UPPER = 1.645
"""One-sided 95 %."""
Z_LOWER = 1.282
"""One-sided 90 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that the sampler noticed or decided."""

    version: int
    kind: str
    """transition | regression | jump"""
    task: str
    """Empty when it is about the whole pool."""
    before: str
    after: str
    """States; empty unless it is a transition."""
    reason: str
    """One sentence."""


def bounds(mean: Floats, strength: Floats, config: FrontierConfig) -> tuple[Floats, Floats]:
    """Lower 90 % and upper 95 % bound of true success."""
    deviation = np.sqrt(mean * (1 - mean) / (strength + 1))
    low = true_rate(np.maximum(mean - Z_LOWER * deviation, 0.0), config.false_positive, config.false_negative)
    high = true_rate(np.minimum(mean + Z_UPPER * deviation, 1.0), config.false_positive, config.false_negative)
    return low, high


def moves(
    state: NDArray[np.int8],
    mean: Floats,
    strength: Floats,
    passed: NDArray[np.bool_],
    tried: NDArray[np.bool_],
    config: FrontierConfig,
) -> list[tuple[NDArray[Any], int, str]]:
    """The moves between FRONTIER, MONITOR and EASY that the beliefs call for.

    Args:
        state: [N]
        mean: [N] success.
        strength: [N]
        passed: [N] whether a group learned just now had a pass.
        tried: [N] whether the task was ever tried; an untried task stays where it is.
        config: thresholds.

    Returns:
        Tasks, their new state, and a sentence with places for the bound's value.
    """
    low, high = bounds(mean, strength, config)
    now = true_rate(mean, config.false_positive, config.false_negative)
    frontier, monitor, easy = (state == code for code in (State.FRONTIER, State.MONITOR, State.EASY))
    found = [
        (
            frontier & tried & (high < config.monitor_below),
            State.MONITOR,
            f"Success is below {config.monitor_below:g} with 95 % confidence, so it is only looked at now and then.",
        ),
        (
            frontier & tried & (low > config.easy_above),
            State.EASY,
            f"Success is above {config.easy_above:g} with 90 % confidence, so groups would teach little.",
        ),
        (monitor & passed, State.FRONTIER, "It was passed while in MONITOR, so it has come within reach."),
        (
            monitor & ~passed & (high > 2 * config.monitor_below),
            State.FRONTIER,
            "Its cell has risen so far that it may have come within reach.",
        ),
        (
            easy & (now < config.easy_lost_below),
            State.FRONTIER,
            f"Success has more likely than not fallen below {config.easy_lost_below:g}: a regression.",
        ),
    ]
    return [(np.flatnonzero(mask), code, reason) for mask, code, reason in found if mask.any()]
