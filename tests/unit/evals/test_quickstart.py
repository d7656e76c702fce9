from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.quickstart import ACTORS, QuickstartTask, finish_run, plan_rollouts, problems, start_run
from store import Catalog, Home
from tests.support.trajectories import make_trajectory
from verigen.bundle import Bundle, load_bundle, shipped_bundles

TASKS = [
    QuickstartTask(bundle=bundle, assets=assets) for bundle, assets in (load_bundle(path) for path in shipped_bundles())
]
INFEASIBLE = next(task.bundle for task in TASKS if not task.bundle.task.feasible)
FEASIBLE = next(task.bundle for task in TASKS if task.bundle.task.feasible)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(Home(tmp_path).ensure().catalog_url) as opened:
        yield opened


def start(catalog: Catalog, *, seed: int = 0, fresh: bool = False, digest: str = "i") -> str:
    return start_run(catalog, TASKS, image_digest=digest, num_rollouts=2, seed=seed, fresh=fresh).id


def test_the_same_settings_go_on_with_the_same_run(catalog: Catalog) -> None:
    first = start(catalog)
    assert start(catalog) == first
    assert start(catalog, seed=1) != first
    assert start(catalog, digest="another image") != first
    assert start(catalog) == first


def test_fresh_starts_another_which_then_is_the_one(catalog: Catalog) -> None:
    first = start(catalog)
    second = start(catalog, fresh=True)
    assert second != first
    assert start(catalog) == second


def test_a_finished_run_says_so(catalog: Catalog) -> None:
    run = start_run(catalog, TASKS, image_digest="i", num_rollouts=2, seed=0)
    finish_run(catalog, run)
    (kept,) = catalog.runs("quickstart")
    assert kept.status == "finished"
    assert kept.finished_at is not None
    finish_run(catalog, kept)
    assert catalog.runs("quickstart") == [kept]


def test_every_actor_attempts_every_task_equally_often() -> None:
    plan = plan_rollouts("r", TASKS, num_rollouts=3, seed=5)
    assert len({rollout.id for rollout in plan}) == len(plan) == len(ACTORS) * len(TASKS) * 3
    counts = {
        (actor, task.bundle.id): sum(
            rollout.policy.name == actor and rollout.task.id == task.bundle.id for rollout in plan
        )
        for actor in ACTORS
        for task in TASKS
    }
    assert set(counts.values()) == {3}
    groups = {rollout.group_id: rollout.task.id for rollout in plan}
    assert len(groups) == len(ACTORS) * len(TASKS)


def test_a_plan_depends_on_its_arguments_alone() -> None:
    def told(run: str, seed: int) -> list[tuple[str, str, int]]:
        plan = plan_rollouts(run, TASKS, num_rollouts=2, seed=seed)
        return [(rollout.id, rollout.task.id, rollout.seed_sampling) for rollout in plan]

    assert told("r", 1) == told("r", 1)
    assert {seed for _, _, seed in told("r", 1)} == {seed for _, _, seed in told("s", 1)}
    assert {seed for _, _, seed in told("r", 1)} != {seed for _, _, seed in told("r", 2)}
    assert len({seed for _, _, seed in told("r", 1)}) == len(told("r", 1))


def test_what_is_as_it_should_be_is_no_problem() -> None:
    fine = [
        make_trajectory("1", task_id=FEASIBLE.id, actor="oracle"),
        make_trajectory("2", task_id=FEASIBLE.id, actor="noop", outcome="fail", reward=0.0),
        make_trajectory("3", task_id=INFEASIBLE.id, actor="always-infeasible"),
        make_trajectory("4", task_id=FEASIBLE.id, actor="random"),
    ]
    assert problems(TASKS, fine) == []


@pytest.mark.parametrize(
    ("actor", "task", "changes", "said"),
    [
        ("oracle", FEASIBLE, {"outcome": "fail", "reward": 0.0}, "the solution of .* failed"),
        ("noop", FEASIBLE, {}, "noop passed"),
        ("noop", INFEASIBLE, {}, "noop passed"),
        ("always-infeasible", FEASIBLE, {}, "always-infeasible passed"),
        ("random", FEASIBLE, {"outcome": "infra_error"}, "ended by DesktopLost: gone"),
    ],
)
def test_what_speaks_against_the_machine_is_said(actor: str, task: Bundle, changes: dict[str, Any], said: str) -> None:
    wrong = make_trajectory("x", task_id=task.id, actor=actor, **changes)
    (problem,) = problems(TASKS, [wrong])
    assert re.search(said, problem)
