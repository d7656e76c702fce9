"""Our sampler in the catalog, and sampler knowledge from bundles and episodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frontier import FrontierSampler
from store import Catalog, OutcomeCount
from store.errors import CatalogError
from tests.support.sampling import play, pool
from tests.support.trajectories import make_bundle_row
from trainer.practice import keep_sampler, load_sampler, sampler_of_outcomes


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.sqlite'}") as opened:
        yield opened


def test_a_kept_sampler_continues_as_if_nothing_had_happened(catalog: Catalog) -> None:
    sampler = FrontierSampler(pool(12), seed=0)
    seen = None
    for version in range(30):
        play(sampler, sampler.plan(64, version), lambda task, n: n if task == "task-0" else n // 2, version=version)
        seen = keep_sampler(catalog, "run-1", sampler, seen=seen)
    loaded, number = load_sampler(catalog, "run-1")
    assert number == seen == 30
    assert loaded.plan(64, 30) == sampler.plan(64, 30)
    assert loaded.state() == sampler.state()


def test_the_history_holds_every_event_once(catalog: Catalog) -> None:
    sampler, free = FrontierSampler(pool(8), seed=0), FrontierSampler(pool(8), seed=0)
    for version in range(40):
        for one in (sampler, free):
            play(one, one.plan(64, version), lambda task, n: n if task < "task-3" else n // 2, version=version)
        if version % 7 == 0:
            keep_sampler(catalog, "run-1", sampler)
    keep_sampler(catalog, "run-1", sampler)
    events = free.take_events()
    assert events
    kept = list(reversed(catalog.sampler_events("run-1")))
    assert [(row.version, row.task_id, row.after, row.reason) for row in kept] == [
        (event.version, event.task, event.after, event.reason) for event in events
    ]
    assert any(row.after == "EASY" for row in kept)
    with pytest.raises(CatalogError, match="two processes"):
        keep_sampler(catalog, "run-1", sampler, seen=1)


def test_recorded_episodes_make_a_map() -> None:
    bundles = [make_bundle_row("good"), make_bundle_row("poor"), make_bundle_row("never")]
    outcomes = [
        OutcomeCount(task_id="good", actor="qwen", num_pass=9, num_fail=1, num_infra_error=5),
        OutcomeCount(task_id="poor", actor="qwen", num_pass=0, num_fail=10, num_infra_error=0),
        OutcomeCount(task_id="poor", actor="oracle", num_pass=10, num_fail=0, num_infra_error=0),
    ]
    sampler = sampler_of_outcomes(bundles, outcomes, "qwen")
    good, poor, never = (sampler.success(task) for task in ("good", "poor", "never"))
    assert good[0] > never[0] > poor[0]
    assert good[1] > never[1]
