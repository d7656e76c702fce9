"""The benchmark of the quickstart: what is made of its arms."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from benchmarks.quickstart import _figures, _table

PRACTICE = {
    "warm": 0.4,
    "final": 0.65,
    "warm_sampled": 0.35,
    "final_sampled": 0.6,
    "gained": 30,
    "lost": 2,
    "black": 0.1,
    "multi_segment_share": 0.5,
    "tasks_admitted": 30,
    "tasks_reproved": 10,
    "episodes": 1000,
    "practice_s": 420,
    "loop_s": 1100,
}


def test_gains_are_over_the_warm_start_and_the_least_of_the_seeds_counts() -> None:
    arms = {
        0: {"practice": PRACTICE, "supervised": {"final": 0.5}, "shuffled": {"final": 0.38}},
        1: {
            "practice": PRACTICE | {"final": 0.45, "gained": 8, "lost": 2},
            "supervised": {"final": 0.4},
            "shuffled": {"final": 0.4},
        },
    }
    found = _figures(arms)
    assert (found["seeds"], found["heldout_warm"], found["heldout_final"]) == (2, 0.4, 0.55)
    assert found["gain_min_over_seeds"] == 0.05
    assert found["sft_control_gain"] == 0.05
    assert found["shuffled_gain"] == -0.01
    assert found["paired_p"] < 1e-6, "38 gained against 4 lost"
    assert found["shipped"] >= 150
    even = _figures({0: arms[0] | {"practice": PRACTICE | {"gained": 3, "lost": 3}}})
    assert even["paired_p"] == 1.0
    table = _table(arms)
    assert [len(row) for row in table.rows] == [len(table.columns)] * 2
