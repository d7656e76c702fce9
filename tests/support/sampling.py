"""Pools, outcomes and the four samplers, for tests of what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from frontier import (
    Allocation,
    BandSampler,
    EmaGaussianConfig,
    EmaGaussianSampler,
    FrontierConfig,
    FrontierSampler,
    RolloutOutcome,
    Sampler,
    TaskInfo,
    UniformSampler,
    Verdict,
)

MAKERS: dict[str, Callable[[Sequence[TaskInfo], int], Sampler]] = {
    "uniform": lambda infos, seed: UniformSampler([info.task for info in infos], seed=seed, group_size=4),
    "band": lambda infos, seed: BandSampler(infos, seed=seed, group_size=4),
    "ema_gaussian": lambda infos, seed: EmaGaussianSampler(infos, seed=seed, config=EmaGaussianConfig(group_size=4)),
    "frontier": lambda infos, seed: FrontierSampler(infos, seed=seed, config=FrontierConfig()),
}


def pool(size: int, *, cells: int = 3) -> list[TaskInfo]:
    """Tasks of some cells; every two share a seed state."""
    return [
        TaskInfo(task=f"task-{k}", cell=f"cell-{k % cells}", seed_state=f"state-{k // 2}", turns=5.0 + k % 7)
        for k in range(size)
    ]


def outcome(allocation: Allocation, k: int, verdict: Verdict = "pass", *, version: int = 0) -> RolloutOutcome:
    """What became of one rollout of a group."""
    return RolloutOutcome(
        rollout_id=f"{allocation.group_id}/{k}",
        group_id=allocation.group_id,
        task=allocation.task,
        version=version,
        verdict=verdict,
        reward=None if verdict == "infra_error" else float(verdict == "pass"),
        seconds=1.5,
    )


def play(sampler: Sampler, plan: Iterable[Allocation], passes: Callable[[str, int], int], *, version: int = 0) -> None:
    """Record whole groups; `passes` says how many of n rollouts of a task pass."""
    for allocation in plan:
        good = passes(allocation.task, allocation.n)
        for k in range(allocation.n):
            sampler.record(outcome(allocation, k, "pass" if k < good else "fail", version=version))
