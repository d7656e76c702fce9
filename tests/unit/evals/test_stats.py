"""Intervals and tests against published values and brute force."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats import Interval, mcnemar_exact, sign_flip_test, wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_matches_published_values(successes: int, trials: int, low: float, high: float) -> None:
    # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    interval = wilson_interval(successes, trials)
    assert interval.low == pytest.approx(low, abs=6e-5)
    assert interval.high == pytest.approx(high, abs=6e-5)


def test_the_naive_interval_would_not_pass() -> None:
    half = 1.96 * math.sqrt(81 / 263 * 182 / 263 / 263)
    assert 81 / 263 - half != pytest.approx(0.2553, abs=6e-5)


@given(st.integers(0, 300), st.integers(0, 300), st.floats(0.5, 0.999))
def test_wilson_contains_the_rate_and_mirrors(failures: int, successes: int, confidence: float) -> None:
    trials = failures + successes
    interval = wilson_interval(successes, trials, confidence=confidence)
    assert 0 <= interval.low <= interval.high <= 1
    if trials:
        assert interval.low <= successes / trials <= interval.high
        mirrored = wilson_interval(failures, trials, confidence=confidence)
        assert mirrored.low == pytest.approx(1 - interval.high)
    else:
        assert interval == Interval(low=0.0, high=1.0)


def test_wilson_covers_at_about_its_confidence() -> None:
    rate, trials = 0.3, 60
    covered = sum(
        math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k)
        for k in range(trials + 1)
        if wilson_interval(k, trials).low <= rate <= wilson_interval(k, trials).high
    )
    assert 0.93 < covered < 0.97


@pytest.mark.parametrize(("successes", "trials", "confidence"), [(-1, 3, 0.9), (4, 3, 0.9), (1, 3, 1.0), (1, 3, 0.0)])
def test_wilson_refuses_nonsense(successes: int, trials: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="successes <= trials"):
        wilson_interval(successes, trials, confidence=confidence)


@given(st.integers(0, 7), st.integers(0, 7))
def test_mcnemar_equals_enumeration(first: int, second: int) -> None:
    total = first + second
    gap = abs(first - second)
    rows = list(itertools.product((0, 1), repeat=total))
    expected = sum(abs(2 * sum(row) - total) >= gap for row in rows) / len(rows)
    assert mcnemar_exact(first, second) == pytest.approx(min(1.0, expected))
    assert mcnemar_exact(first, second) == mcnemar_exact(second, first)


def test_mcnemar_known_value_and_refusal() -> None:
    assert mcnemar_exact(0, 6) == pytest.approx(2 / 64)
    assert mcnemar_exact(0, 5) == pytest.approx(0.0625)
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(-1, 2)


@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 5))
def test_sign_flips_of_unit_differences_are_mcnemar(first: int, second: int, ties: int) -> None:
    differences = [1.0] * first + [-1.0] * second + [0.0] * ties
    assert sign_flip_test(differences) == pytest.approx(mcnemar_exact(first, second))


def test_many_differences_are_sampled_repeatably() -> None:
    null = [(-1.0) ** k for k in range(40)]
    assert sign_flip_test(null) == 1.0
    clear = [0.5] * 40
    assert 0 < sign_flip_test(clear) < 1e-3
    some = [1.0] * 13 + [-1.0] * 5
    assert sign_flip_test(some) == sign_flip_test(some)
    assert sign_flip_test(some) == pytest.approx(mcnemar_exact(13, 5), abs=0.01)


def test_differences_are_weighed_not_only_counted() -> None:
    assert sign_flip_test([1.0, 1.0, 1.0, 1.0, 1.0, -0.1]) < sign_flip_test([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
