"""What the simulator's learners and worlds are drawn from.

Every number here was set before samplers were first compared, with only the uniform sampler run to see that learners
start low and neither stand still nor finish at once. A change of a prior makes every earlier comparison void.

A family fixes how growth follows from a group (`credit`) and gives its own ranges; everything else comes from
`COMMON`. A range is drawn uniformly, a `log` one uniformly in its logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["COMMON", "DEVELOPMENT_SEEDS", "FAMILIES", "REPORTED_SEEDS", "WORLD", "Credit", "Family", "Range"]

Credit = Literal["live", "norm", "signal", "centred"]


@dataclass(frozen=True, slots=True)
class Range:
    """From where a parameter is drawn."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """A kind of learner."""

    about: str
    credit: Credit
    """How much a group with k passes of n teaches, 1 for k = 4 of n = 8. `live`: 1 if it is live; `norm`: the norm
    of its normalised advantages, sqrt(n - 1); `signal`: the expected gradient under normalised advantages,
    sqrt(k (n - k)); `centred`: that under centred ones, k (n - k) / n."""
    ranges: Mapping[str, Range]
    """Parameters that differ from `COMMON`."""


DEVELOPMENT_SEEDS = tuple(range(6))
"""For tuning, of our sampler and of the baselines alike."""
REPORTED_SEEDS = tuple(range(1000, 1020))
"""For the comparison; never run before it."""

WORLD: Mapping[str, int] = {"tasks": 1000, "cells": 40, "held_out_per_cell": 12, "iterations": 200, "budget": 256}
"""Sizes; the budget is in rollouts per iteration, gate runs included."""

COMMON: Mapping[str, Range] = {
    "start": Range(-1.6, -0.6),  # mean logit of success at the beginning
    "cell_sd": Range(0.6, 1.2),  # of cell difficulties
    "task_sd": Range(1.8, 2.6),  # of task difficulties inside a cell
    "gain_task": Range(0.03, 0.12, log=True),  # logits on the task itself per unit of credit
    "gain_cell": Range(0.014, 0.035, log=True),  # logits on the cell: transfer to its other tasks, held-out ones too
    "gain_general": Range(0.0001, 0.0003, log=True),  # logits on everything
    "ceiling": Range(3.0, 5.0),  # logits that a cell can gain
    "harm": Range(0.2, 0.8),  # of a live group of a coin-flip task, relative to the gain of an honest one
    "fade": Range(20.0, 60.0),  # visits of one task after which its transfer has fallen to 1/e
    "forget_cell": Range(0.0, 0.003),  # share of the gain lost per iteration without practice
    "forget_task": Range(0.0, 0.01),
    "prerequisite": Range(0.0, 0.0),  # how much a weak cell holds back the next one of its ladder
    "jumps": Range(0.0, 0.0),  # number of sudden changes of the policy
    "arrivals": Range(0.1, 0.4),  # share of the tasks that arrive later
    "false_positive": Range(0.0, 0.03),  # mean over tasks; each honest task has its own rate
    "false_negative": Range(0.0, 0.08),
    "infra": Range(0.01, 0.08),  # rollouts that the infrastructure fails
    "outage": Range(0.0, 0.02),  # iterations in which it fails them all
    "delay": Range(0.2, 1.2),  # mean iterations by which a group's outcomes come late
    "gate_miss": Range(0.02, 0.15),  # gates that pass a coin-flip task
    "gate_false_alarm": Range(0.002, 0.02),  # gates that fail an honest task
    "gate_cost": Range(6.0, 12.0),  # rollouts that one run of the gates costs
    "gate_delay": Range(1.0, 3.0),  # iterations until its answer
}

FAMILIES: Mapping[str, Family] = {
    "transfer": Family(about="a live group teaches the same whatever its size", credit="live", ranges={}),
    "norm": Family(about="what a group teaches grows with the norm of its advantages", credit="norm", ranges={}),
    "signal": Family(
        about="what a group teaches is its expected gradient, in proportion to its size", credit="signal", ranges={}
    ),
    "centred": Family(about="advantages are only centred: even groups teach most", credit="centred", ranges={}),
    "specific": Family(
        about="tasks are memorised: only the first visits transfer, so breadth pays",
        credit="norm",
        ranges={
            "gain_task": Range(0.2, 0.5, log=True),
            "gain_cell": Range(0.03, 0.08, log=True),
            "fade": Range(2.0, 5.0),
        },
    ),
    "forgetful": Family(
        about="what is not practised fades",
        credit="norm",
        ranges={"forget_cell": Range(0.006, 0.02), "forget_task": Range(0.01, 0.03)},
    ),
    "ladder": Family(
        about="cells build on each other: a weak one holds back the next",
        credit="norm",
        ranges={"prerequisite": Range(0.4, 0.8), "gain_cell": Range(0.025, 0.06, log=True)},
    ),
    "hard": Family(
        about="most tasks are out of reach at first",
        credit="norm",
        ranges={
            "start": Range(-5.0, -3.8),
            "task_sd": Range(2.0, 2.8),
            "gain_cell": Range(0.035, 0.08, log=True),
            "ceiling": Range(4.0, 6.0),
        },
    ),
    "jumpy": Family(
        about="new checkpoints: everything rises at once, or some cells fall",
        credit="norm",
        ranges={"jumps": Range(2.0, 4.0)},
    ),
}
"""Structure, not strength, is what differs: how credit follows from a group, what transfers, what is lost."""
