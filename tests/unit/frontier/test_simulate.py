"""The simulator: worlds are fair and repeatable, learners learn from live groups only, budgets are charged."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from frontier import FrontierConfig, FrontierSampler, Sampler, TaskInfo, UniformSampler
from frontier.learners import credit_of, make_learner
from frontier.oracle import OracleSampler
from frontier.priors import DEVELOPMENT_SEEDS, FAMILIES, REPORTED_SEEDS
from frontier.simulate import simulate

SMALL = {"tasks": 100, "cells": 10, "held_out_per_cell": 4, "iterations": 40, "budget": 64}


def uniform(infos: list[TaskInfo]) -> Sampler:
    return UniformSampler([info.task for info in infos], seed=0)


def ours(infos: list[TaskInfo], *, quarantine: bool = True) -> Sampler:
    return FrontierSampler(infos, seed=0, config=FrontierConfig(cost_power=0.0, quarantine=quarantine))


def test_seeds_for_development_are_not_reported() -> None:
    assert set(DEVELOPMENT_SEEDS).isdisjoint(REPORTED_SEEDS)
    assert len(REPORTED_SEEDS) >= 20


@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_family_learns_and_repeats(family: str) -> None:
    first = simulate(uniform, family, 0, world=SMALL)
    again = simulate(uniform, family, 0, world=SMALL)
    assert first.held_out.tolist() == again.held_out.tolist()
    if family != "jumpy":
        assert first.final > first.held_out[0]
    assert first.seconds[-1] > 0
    assert simulate(uniform, family, 1, world=SMALL).auc != first.auc


@pytest.mark.parametrize("credit", ["live", "norm", "signal", "centred"])
def test_dead_groups_teach_nothing(credit: str) -> None:
    passes, graded = np.array([0, 8, 4, 0]), np.array([8, 8, 8, 0])
    assert credit_of(credit, passes, graded).tolist() == pytest.approx([0, 0, 1, 0])  # type: ignore[arg-type]


def test_coin_flips_change_nothing_else_of_a_world() -> None:
    clean, noisy = make_learner("norm", 3, 0.0, SMALL), make_learner("norm", 3, 0.1, SMALL)
    assert clean.difficulty.tolist() == noisy.difficulty.tolist()
    assert np.isnan(clean.coin).all()
    assert (~np.isnan(noisy.coin)).sum() == 10
    before = noisy.held_out_success()
    coins = np.flatnonzero(~np.isnan(noisy.coin))
    noisy.practise(coins, np.full(coins.size, 4), np.full(coins.size, 8))
    assert noisy.held_out_success() < before


def test_samplers_are_told_no_more_than_they_should_know() -> None:
    learner = make_learner("norm", 0, 0.1, SMALL)
    assert all(info.pilot_rollouts == 0 for info in learner.infos())
    assert len({info.task for info in learner.infos()}) == 100


def test_quarantine_is_what_keeps_coin_flips_down() -> None:
    """The negative control: without it, more rollouts go to coin flips and less is learned."""
    world = SMALL | {"iterations": 120}
    pairs = [
        [simulate(partial(ours, quarantine=on), "norm", seed, coin_share=0.1, world=world) for on in (True, False)]
        for seed in DEVELOPMENT_SEEDS[:4]
    ]
    assert np.mean([held.coin_share - free.coin_share for held, free in pairs]) < -0.05
    assert np.mean([held.final - free.final for held, free in pairs]) > 0
    found, due = (sum(getattr(held, name) for held, _ in pairs) for name in ("broken_found", "broken_due"))
    assert found / due >= 0.8
    assert np.mean([held.good_held_share for held, _ in pairs]) < 0.04
    assert all(held.gate_share > 0 and free.gate_share == 0 for held, free in pairs)


def test_ours_beats_uniform_on_a_development_seed() -> None:
    assert simulate(ours, "hard", 0, world=SMALL).auc > simulate(uniform, "hard", 0, world=SMALL).auc


def test_the_oracle_bounds_what_knowing_the_tasks_is_worth() -> None:
    def oracle(infos: list[TaskInfo]) -> Sampler:
        return OracleSampler(infos, seed=0, config=FrontierConfig(cost_power=0.0))

    bound, mine = (simulate(maker, "hard", 0, coin_share=0.1, world=SMALL) for maker in (oracle, ours))
    assert bound.auc > mine.auc
    assert bound.coin_share == 0 < mine.coin_share
    assert bound.gate_share == 0
