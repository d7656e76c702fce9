"""Every number that our sampler depends on, named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["GROUP_SIZES", "FrontierConfig"]

GROUP_SIZES = (4, 8, 16)
"""Sizes that a group may have. Chosen before its outcomes are seen: stopping by outcomes would bias its baseline."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierConfig:
    """Hyper-parameters of `FrontierSampler`. Rates are of success, drifts in logits, times in versions."""

    signal: Literal["normalised", "centred"] = "normalised"
    """How the trainer makes advantages, which decides what a live group is worth."""
    size_power: float = 0.75
    """What a live group is worth grows with (n - 1) to this power: 0.5 is the norm of its advantages, 1 the gradient of
    a policy far from its optimum, 0 counts live groups."""
    draw_sharpness: float = 30.0
    """The Thompson draw takes beliefs for this many times stronger than they are: 1 explores as the theory has it, more
    trusts the mean."""
    cost_power: float = 1.0
    """1 divides by expected seconds (desktop time is scarce), 0 by rollouts alone (rollouts are scarce)."""
    group_sizes: tuple[int, ...] = GROUP_SIZES
    discount: float = 0.985
    """Weight that evidence keeps per version (half-life 46 versions)."""
    prior_strength: float = 4.0
    """Rollouts that a task's prior is worth."""
    prior_rate: float = 0.35
    """Success expected of a task before anything is known of the pool."""
    length_slope: float = 0.4
    """Logits by which success falls per e-fold of expected turns."""
    typical_turns: float = 12.0
    pilot_weight: float = 0.5
    """What a pilot rollout, by another policy, counts against one of ours."""
    drift: bool = True
    """Carry news to tasks that were not tried lately (off only to show what that costs)."""
    general_noise: float = 0.001
    """Variance per version of the drift that all cells share."""
    cell_noise: float = 0.002
    """Variance per version of a cell's own drift."""
    false_positive: float = 0.0
    """Known rate at which verifiers pass failed attempts."""
    false_negative: float = 0.0
    """Known rate at which verifiers fail good attempts."""
    rest: int = 4
    """Versions for which a task that was planned is left alone, unless the budget finds nothing else."""
    cap_groups: int = 32
    """Groups that caps hold for: a plan's own and, where those are fewer, the ones planned just before it."""
    cell_cap: int = 1
    """Groups per cell, unless there are fewer cells than that needs."""
    seed_state_cap: int = 1
    template_cap: int = 2
    """Groups per template, unless there are fewer templates than that needs."""
    oldest_share: float = 0.02
    """Share of the budget for the tasks that waited longest."""
    monitor_share: float = 0.02
    """Upper limit of the share for tasks in MONITOR."""
    easy_share: float = 0.02
    """Upper limit of the share for tasks in EASY: anchors against forgetting."""
    monitor_below: float = 0.08
    """MONITOR when the 95 % upper bound of success is below."""
    easy_above: float = 0.9
    """EASY when the 90 % lower bound is above."""
    easy_lost_below: float = 0.8
    """Back from EASY when success is more likely than not below."""
    monitor_backoff: tuple[int, int] = (8, 64)
    """First and longest wait between visits in MONITOR; doubles."""
    easy_backoff: tuple[int, int] = (16, 50)
    quarantine: bool = True
    """Doubt tasks at all (off only to show what that costs)."""
    doubt_base: tuple[float, float] = (1.0, 25.0)
    """Broken and all gate runs that the base rate of broken tasks starts from."""
    doubt_threshold: float = 0.3
    """Probability of being broken at which the gates are asked to run."""
    doubt_groups: int = 5
    """Groups that a task has had before it may be doubted."""
    stagnant_rollouts: int = 72
    """Graded rollouts, among the remembered groups, after which not rising is reason enough."""
    stagnant_groups: int = 10
    """Groups after which it is, however small they were."""
    stagnant_rise: float = 0.08
    """Rise from the older to the newer half of its groups that counts as rising."""
    audit_groups: int = 12
    """Groups after which the gates of a task that they never cleared run even so, unless it is passed rarely or nearly
    always or clearly learns: that costs less than a tenth of what was spent on it by then."""
    gate_miss: float = 0.1
    """Chance that gates pass a broken task, as assumed when they pass one."""
    gate_false_alarm: float = 0.01
    """Chance that gates fail a sound task, as assumed when they fail one."""
    release_below: float = 0.5
    """Probability of being broken below which a task whose gates have passed goes back."""
    recheck_after: int = 8
    """Wait until the gates of a BROKEN task run again; doubles with each failure."""
    refill_batches: float = 3.0
    """Ask for new tasks when the frontier has fewer live groups than this many batches."""

    def __post_init__(self) -> None:
        if not self.group_sizes or min(self.group_sizes) < 2 or list(self.group_sizes) != sorted(self.group_sizes):
            raise ValueError("group_sizes must rise and start at 2 or more: a group of one has no baseline")
        if not 0 < self.discount <= 1 or self.prior_strength <= 0 or not 0 < self.prior_rate < 1:
            raise ValueError("need discount in (0, 1], prior_strength > 0 and prior_rate in (0, 1)")
        if self.oldest_share <= 0 or self.oldest_share + self.monitor_share + self.easy_share > 0.5:
            raise ValueError("oldest_share must be above 0 (nothing may starve), the three shares at most 0.5 together")
        if self.false_positive < 0 or self.false_negative < 0 or self.false_positive + self.false_negative >= 1:
            raise ValueError("the verifier's error rates must be at least 0 and sum to less than 1")
        if not 0 < self.gate_miss < 1 or not 0 < self.gate_false_alarm < 1 - self.gate_miss:
            raise ValueError(
                "need gate_miss and gate_false_alarm above 0 and below 1 together: gates must tell something"
            )
        if min(self.cap_groups, self.cell_cap, self.seed_state_cap, self.template_cap) < 1:
            raise ValueError("caps, and the groups that they hold for, must be at least 1")
