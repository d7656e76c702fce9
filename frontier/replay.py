"""What a sampler would have chosen, and met, on outcomes that were recorded from another run.

A planned group takes its outcomes from those recorded for its task: the nearest versions first, none twice until all
were used. So a replay says how many groups would have been live; it cannot say what the policy would have learned from
them, because the recorded policy learned from others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from frontier.protocol import RolloutOutcome, Sampler

__all__ = ["ReplayResult", "replay"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayResult:
    """Counts over a replay."""

    rollouts: int
    groups: int
    """Groups with at least one graded rollout."""
    live: int
    """Groups with a pass and a fail."""
    tasks: int
    """Different tasks that were planned."""
    unknown: int
    """Groups of tasks without any recorded outcome; they were cancelled."""
    reused: int
    """Rollouts that took an outcome that was taken before."""

    @property
    def live_share(self) -> float:
        """Live groups among those graded."""
        return self.live / self.groups if self.groups else 0.0


def replay(
    sampler: Sampler, recorded: Iterable[RolloutOutcome], *, budget: int, versions: Sequence[int]
) -> ReplayResult:
    """Let a sampler plan on recorded outcomes.

    Args:
        sampler: of the recorded tasks; it is changed.
        recorded: outcomes of any groups; only task, version, verdict, reward and seconds are read.
        budget: rollouts per plan.
        versions: one plan is made at each, in this order.
    """
    table: dict[str, list[RolloutOutcome]] = defaultdict(list)
    for outcome in recorded:
        table[outcome.task].append(outcome)
    used: dict[str, list[int]] = {task: [0] * len(rows) for task, rows in table.items()}
    rollouts = groups = live = unknown = reused = 0
    tasks: set[str] = set()
    for version in versions:
        for group in sampler.plan(budget, version):
            tasks.add(group.task)
            rows = table.get(group.task)
            if not rows:
                unknown += 1
                sampler.cancel(group.group_id)
                continue
            times = used[group.task]
            verdicts = []
            for k in range(group.n):
                row = min(range(len(rows)), key=lambda r: (times[r], abs(rows[r].version - version), r))
                reused += times[row] > 0
                times[row] += 1
                verdicts.append(rows[row].verdict)
                sampler.record(replace(rows[row], rollout_id=f"{group.group_id}/{k}", group_id=group.group_id))
            rollouts += group.n
            groups += any(verdict != "infra_error" for verdict in verdicts)
            live += {"pass", "fail"} <= set(verdicts)
    return ReplayResult(rollouts=rollouts, groups=groups, live=live, tasks=len(tasks), unknown=unknown, reused=reused)
