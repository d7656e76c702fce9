"""Advantages within a group: zero where there is nothing to tell apart, zero-sum as documented."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.advantages import group_advantages

rewards = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 0.1]), min_size=1, max_size=12)


@given(rewards, st.data())
def test_they_sum_to_zero_with_their_weights(given_rewards: list[float], data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(1, 50), min_size=len(given_rewards), max_size=len(given_rewards)))
    plain = group_advantages(given_rewards)
    weighted = group_advantages(given_rewards, steps=steps)
    assert math.fsum(plain) == pytest.approx(0, abs=1e-6)
    assert math.fsum(w * a for w, a in zip(steps, weighted, strict=True)) == pytest.approx(0, abs=1e-6)
    for one, other in itertools.pairwise(given_rewards):
        i = given_rewards.index(one)
        j = given_rewards.index(other)
        assert (plain[i] < plain[j]) == (one < other)


@given(st.sampled_from([0.1, 0.3, 0.7, 1 / 3]), st.integers(1, 9))
def test_equal_rewards_give_exactly_zero(reward: float, count: int) -> None:
    assert group_advantages([reward] * count) == [0.0] * count
    assert group_advantages([reward] * count, steps=list(range(1, count + 1))) == [0.0] * count


@given(rewards)
def test_a_constant_changes_nothing_and_a_factor_only_without_normalising(given_rewards: list[float]) -> None:
    shifted = group_advantages([reward + 3 for reward in given_rewards])
    assert shifted == pytest.approx(group_advantages(given_rewards), abs=1e-5)
    doubled = [2 * reward for reward in given_rewards]
    assert group_advantages(doubled) == pytest.approx(group_advantages(given_rewards), abs=1e-4)
    centred = group_advantages(given_rewards, normalise=False)
    assert group_advantages(doubled, normalise=False) == pytest.approx([2 * a for a in centred], abs=1e-6)


def test_the_values_are_those_of_the_formula() -> None:
    assert group_advantages([1.0, 0.0, 0.0, 0.0]) == pytest.approx([3**0.5, *[-(3**-0.5)] * 3], abs=1e-4)
    assert group_advantages([1.0, 0.0], steps=[1, 3], normalise=False) == pytest.approx([0.75, -0.25])


@pytest.mark.parametrize("steps", [[1], [1, 0], [1, 2, 3]])
def test_bad_steps_are_refused(steps: list[int]) -> None:
    with pytest.raises(ValueError, match="positive number of steps"):
        group_advantages([0.0, 1.0], steps=steps)


def test_a_missing_reward_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.0, math.nan])
