"""Counting and comparing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from evals import OutcomeCount, OutcomeTable, compare, mcnemar_exact, sign_flip_test, summarize, wilson_interval
from evals.stats import Interval
from tests.support.trajectories import make_episode_row, make_trajectory


@dataclass(frozen=True)
class Tried:
    task_id: str
    actor: str
    outcome: str


def tried(actor: str, outcomes: dict[str, str]) -> list[Tried]:
    """One letter per attempt: p, f or i."""
    words = {"p": "pass", "f": "fail", "i": "infra_error"}
    return [Tried(task, actor, words[letter]) for task, letters in outcomes.items() for letter in letters]


def test_infra_errors_are_counted_apart_and_in_no_rate() -> None:
    table = summarize(tried("a", {"t1": "ppf", "t2": "iif"}) + tried("b", {"t1": "i"}))
    assert table.tasks == ("t1", "t2")
    assert table.actors == ("a", "b")
    assert table.cell("t1", "a") == OutcomeCount(passed=2, failed=1)
    assert table.cell("t2", "a") == OutcomeCount(failed=1, infra=2)
    assert table.cell("t2", "b") == OutcomeCount()
    total = table.total("a")
    assert (total.passed, total.failed, total.infra, total.trials) == (2, 2, 2, 4)
    assert total.rate == 0.5
    assert total.interval == wilson_interval(2, 4)
    nothing = table.total("b")
    assert (nothing.rate, nothing.interval) == (None, Interval(low=0.0, high=1.0))


def test_trajectories_and_catalog_rows_count_alike() -> None:
    trajectories = [make_trajectory("1"), make_trajectory("2", outcome="infra_error", stop_reason="infra_error")]
    rows = [make_episode_row("1"), make_episode_row("2", outcome="infra_error", reward=None)]
    assert summarize(trajectories) == summarize(rows)


def test_unknown_outcomes_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown outcome 'timeout' at task t"):
        summarize([Tried("t", "a", "timeout")])


def test_the_hash_names_the_set_of_tasks_only() -> None:
    one = summarize(tried("a", {"t1": "p", "t2": "f"}))
    same = summarize(tried("b", {"t2": "ppp", "t1": "f"}))
    other = summarize(tried("a", {"t1": "p", "t3": "f"}))
    assert one.task_set_hash == same.task_set_hash != other.task_set_hash
    assert OutcomeTable(tasks=(), actors=(), cells={}).total("a") == OutcomeCount()


def test_single_attempts_are_compared_by_mcnemar() -> None:
    first = {f"t{k}": "p" for k in range(8)}
    second = {f"t{k}": "f" if k < 5 else "p" for k in range(8)}
    table = summarize(tried("a", first) + tried("b", second) + tried("a", {"alone": "p"}))
    comparison = compare(table, "a", "b")
    assert (comparison.num_tasks, comparison.method) == (8, "McNemar")
    assert comparison.difference == pytest.approx(5 / 8)
    assert comparison.p_value == mcnemar_exact(5, 0)
    reverse = compare(table, "b", "a")
    assert (reverse.difference, reverse.p_value) == (-comparison.difference, comparison.p_value)


def test_repeated_attempts_are_compared_by_tasks() -> None:
    table = summarize(tried("a", {"t1": "ppp", "t2": "pff", "t3": "p"}) + tried("b", {"t1": "f", "t2": "f", "t3": "i"}))
    comparison = compare(table, "a", "b")
    assert (comparison.num_tasks, comparison.method) == (2, "sign flips")
    assert comparison.difference == pytest.approx((1 + 1 / 3) / 2)
    assert comparison.p_value == sign_flip_test([1, 1 / 3])


def test_infra_errors_pair_with_nothing() -> None:
    comparison = compare(summarize(tried("a", {"t": "p"}) + tried("b", {"t": "i"})), "a", "b")
    assert (comparison.num_tasks, comparison.difference, comparison.p_value) == (0, 0.0, 1.0)
