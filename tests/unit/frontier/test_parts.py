"""The parts of our sampler, and the baselines' own rules."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from frontier import (
    BandSampler,
    EmaGaussianConfig,
    EmaGaussianSampler,
    FrontierSampler,
    RolloutOutcome,
    TaskInfo,
    Verdict,
)
from frontier.allocate import Cap, Filling, best_first
from frontier.columns import Columns
from frontier.doubt import HISTORY, coin_evidence, rise
from frontier.replay import replay
from frontier.utility import group_value, live_probability, true_rate
from frontier.view import frontier_map
from tests.support.sampling import play, pool


def test_live_probability_by_hand() -> None:
    assert live_probability(np.array([0.0, 0.5, 1.0]), 4).tolist() == [0.0, 0.875, 0.0]
    assert live_probability(np.array([0.1]), 8)[0] == pytest.approx(1 - 0.9**8 - 0.1**8)


def test_small_groups_suit_middling_tasks_and_large_ones_extreme_tasks() -> None:
    def best(p: float) -> int:
        return max((4, 8, 16), key=lambda n: float(group_value(np.array([p]), n, "normalised")[0]))

    assert [best(p) for p in (0.5, 0.2, 0.05)] == [4, 8, 16]
    even, odd = (group_value(np.array([p]), 8, "centred")[0] for p in (0.5, 0.1))
    assert (
        even / odd > group_value(np.array([0.5]), 8, "normalised")[0] / group_value(np.array([0.1]), 8, "normalised")[0]
    )


def test_true_rates_are_recovered() -> None:
    for p in (0.0, 0.3, 1.0):
        paid = p * (1 - 0.1) + (1 - p) * 0.05
        assert true_rate(np.array([paid]), 0.05, 0.1)[0] == pytest.approx(p)
    assert true_rate(np.array([0.01]), 0.05, 0.1)[0] == 0.0


def history(rates: list[float], n: int = 8) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    passes = np.zeros((1, HISTORY), np.uint8)
    graded = np.zeros((1, HISTORY), np.uint8)
    passes[0, HISTORY - len(rates) :] = [round(rate * n) for rate in rates]
    graded[0, HISTORY - len(rates) :] = n
    return passes, graded


def test_a_constant_rate_under_a_rising_cell_is_evidence_of_a_coin() -> None:
    drift = np.linspace(0, 2, HISTORY)[None, :]
    flat, rising = history([0.5] * 10), history([0.25, 0.25, 0.375, 0.375, 0.5, 0.5, 0.625, 0.625, 0.625, 0.75])
    assert coin_evidence(*flat, drift)[0] > 1
    assert coin_evidence(*rising, drift)[0] < -1
    assert coin_evidence(*history([0.0] * 10), drift)[0] < -5, "coins pay"
    still = np.zeros((1, HISTORY))
    assert abs(coin_evidence(*flat, still)[0]) < 2, "a policy that stands still tells little"


def test_rise_compares_the_halves() -> None:
    rate, change = rise(*history([0.25, 0.25, 0.75, 0.75]))
    assert (rate[0], change[0]) == (0.5, 0.5)


def test_columns_grow_and_come_back_exactly() -> None:
    columns = Columns({"x": ("<f8", 0.5, ()), "ring": ("|u1", 0, (3,))})
    columns.grow(2)
    columns["x"][1] = 1 / 3
    columns.grow(5)
    assert columns["x"].tolist() == [0.5, 1 / 3, *[0.5] * 5]
    other = Columns({"x": ("<f8", 0.5, ()), "ring": ("|u1", 0, (3,))})
    other.restore(json.loads(json.dumps(columns.state())))
    assert other["x"].tolist() == columns["x"].tolist()
    other.grow(1)
    other["ring"][7] = (1, 2, 3)
    assert len(other) == 8


def test_best_first_is_complete_and_in_order() -> None:
    rng = np.random.default_rng(0)
    value = rng.integers(0, 5, 200).astype(float)
    value[::7] = -np.inf
    seen = list(dict.fromkeys(best_first(value, 3)))
    assert sorted(seen) == np.flatnonzero(np.isfinite(value)).tolist()
    firsts = list(best_first(value, 200))
    assert [value[k] for k in firsts] == sorted(value[np.isfinite(value)], reverse=True)


def test_filling_keeps_budget_and_caps() -> None:
    filling = Filling(20, [Cap(labels=np.array([0, 0, 1, -1]), limit=1)])
    assert filling.offer(0, 8)
    assert not filling.offer(0, 4), "a task is taken once"
    assert not filling.offer(1, 4), "its label is used up"
    assert filling.offer(1, 4, capped=False)
    assert filling.offer(3, 8)
    assert not filling.offer(2, 4)
    assert filling.left == 0


def test_the_published_rule_seeks_the_middle_and_visits_the_outside() -> None:
    rates = {f"task-{k}": k / 99 for k in range(100)}
    sampler = EmaGaussianSampler(pool(100), seed=0, config=EmaGaussianConfig(pool_factor=3, gamma=0.2))
    count: Counter[str] = Counter()
    for version in range(60):
        plan = sampler.plan(80, version)
        assert len({allocation.task for allocation in plan}) == 10
        if version >= 10:
            count.update(allocation.task for allocation in plan)
        play(sampler, plan, lambda task, n: round(rates[task] * n), version=version)
        if version == 9:
            assert {allocation.task for allocation in plan}.isdisjoint(count), "the first sweep tries each task once"
    middle = sum(number for task, number in count.items() if 0.3 < rates[task] < 0.7)
    assert middle / count.total() > 0.75
    assert sum(number for task, number in count.items() if not 0.2 < rates[task] < 0.8) > 20


def test_the_average_is_equation_1_and_the_first_rate_may_drop_a_task() -> None:
    config = EmaGaussianConfig(alpha=0.25, p_min=0.1, p_max=0.9, gamma=0.0)
    sampler = EmaGaussianSampler(pool(2), seed=0, config=config)
    good = {"task-0": [4, 8], "task-1": [0]}
    play(sampler, sampler.plan(16, 0), lambda task, n: good[task][0])
    plan = sampler.plan(16, 1)
    assert {allocation.task for allocation in plan} == {"task-0"}
    play(sampler, plan, lambda task, n: good[task][1], version=1)
    sampler.plan(0, 2)
    assert sampler.success()["task-0"] == pytest.approx(0.75 * 0.5 + 0.25 * 1.0)


def test_the_band_leaves_dead_tasks_alone_for_a_while() -> None:
    sampler = BandSampler(pool(8), seed=0, group_size=4, cooldown=10)
    play(sampler, sampler.plan(32, 0), lambda task, n: 0 if task == "task-0" else 2)
    for version in range(1, 10):
        plan = sampler.plan(28, version)
        assert "task-0" not in {allocation.task for allocation in plan}
        play(sampler, plan, lambda task, n: 2, version=version)
    assert "task-0" in {allocation.task for allocation in sampler.plan(32, 11)}


def test_replay_draws_each_recorded_outcome_before_any_twice() -> None:
    verdicts: list[Verdict] = ["pass", "fail", "fail", "infra_error"] * 2
    rows = [
        RolloutOutcome(
            rollout_id=f"r{k}",
            group_id="old",
            task="task-0",
            version=k,
            verdict=verdict,
            reward={"pass": 1.0, "fail": 0.0}.get(verdict),
        )
        for k, verdict in enumerate(verdicts)
    ]
    sampler = FrontierSampler(pool(2), seed=0)
    result = replay(sampler, rows, budget=16, versions=[0, 1])
    assert result.unknown >= 1
    assert result.live_share == 1.0
    assert result.reused == max(0, result.rollouts - len(rows))
    assert sampler.success("task-0")[1] > sampler.config.prior_strength
    assert replay(FrontierSampler(seed=0), [], budget=16, versions=[0]).live_share == 0.0


def test_the_map_counts_every_task_once() -> None:
    sampler = FrontierSampler([*pool(30), TaskInfo(task="alone", cell="other")], seed=0)
    for version in range(20):
        play(sampler, sampler.plan(64, version), lambda task, n: n if task < "task-2" else n // 2, version=version)
    shown = json.loads(json.dumps(frontier_map(sampler)))
    assert sum(shown["states"].values()) == len(shown["tasks"]) == sum(map(sum, shown["grid"])) == 31
    assert sum(cell["tasks"] for cell in shown["cells"]) == 31
    assert {row["state"] for row in shown["tasks"]} <= set(shown["states"])
    assert FrontierSampler.from_state(json.loads(json.dumps(sampler.state()))).state() == sampler.state()


def test_memory_grows_with_the_pool_and_stays_small() -> None:
    """A tenth of 100 000 tasks takes less than a tenth of 200 MB, the tasks' own descriptions included."""

    def megabytes(size: int) -> float:
        tracemalloc.start()
        infos = [TaskInfo(task=f"{k:064x}", cell=f"c{k % 40}", seed_state=f"s{k}") for k in range(size)]
        sampler = FrontierSampler(infos, seed=0)
        play(sampler, sampler.plan(512, 0), lambda task, n: n // 2)
        sampler.plan(512, 1)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        return peak

    small, large = megabytes(5_000), megabytes(10_000)
    assert large < 20
    assert large < 2.5 * small
