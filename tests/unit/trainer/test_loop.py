"""The online loop on fake desktops: staleness, one training of each attempt, resuming, failures."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.practice import FakeDesktops, FakeEngine, FakeLearner, Stage
from tests.support.trajectories import make_trajectory
from trainer.errors import ChildDied, NothingToDo, TrainerError
from trainer.groups import Ledger


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def parts(stage: Stage, seed: int = 0) -> tuple[FakeLearner, FakeDesktops, FakeEngine]:
    engine = FakeEngine()
    return FakeLearner(), FakeDesktops(stage.store, engine, seed=seed), engine


@pytest.mark.parametrize("seed", range(5))
async def test_staleness_is_bounded_and_nothing_is_trained_twice(stage: Stage, seed: int) -> None:
    learner, desktops, engine = parts(stage, seed)
    loop = await stage.run(learner, desktops, engine)
    assert loop.step == engine.version == 6
    seen: set[str] = set()
    for version, batch in enumerate(learner.batches):
        ids = [each.trajectory.id for each in batch]
        assert not seen & set(ids)
        assert len(set(ids)) == len(ids)
        seen |= set(ids)
        lags = [version - each.trajectory.policy_version for each in batch]
        assert max(lags) <= stage.config.practice.max_staleness
        assert all(each.trajectory.outcome != "infra_error" for each in batch)
        assert {each.advantage > 0 for each in batch if each.trajectory.outcome == "pass"} == {True}
    assert seen == loop.ledger.trained.keys()


async def test_on_policy_practice_has_no_staleness_at_all(tmp_path: Path) -> None:
    stage = Stage(tmp_path, max_staleness=0)
    learner, desktops, engine = parts(stage)
    await stage.run(learner, desktops, engine)
    lags = [v - each.trajectory.policy_version for v, batch in enumerate(learner.batches) for each in batch]
    assert set(lags) == {0}


async def test_a_killed_run_goes_on_without_training_anything_twice(stage: Stage) -> None:
    learner, desktops, engine = parts(stage)
    await stage.run(learner, desktops, engine)
    step, version, saved = learner.saved[0]
    assert (step, version) == (2, 2)
    assert saved["ready"], "the test needs groups that wait"
    saved = json.loads(json.dumps(saved))  # as a checkpoint keeps it
    again = FakeLearner(version)
    later = FakeDesktops(stage.store, engine := FakeEngine(version), seed=9)
    loop = await stage.run(again, later, engine, saved=saved)
    assert loop.step == 6
    assert len(again.batches) == 4
    before = {each.trajectory.id for batch in learner.batches[:2] for each in batch}
    after = [each.trajectory.id for batch in again.batches for each in batch]
    assert not before & set(after)
    assert len(set(after)) == len(after)
    assert loop.ledger.trained.keys() == before | set(after)
    first_ids = {rollout.id for rollout in desktops.rollouts}
    assert not first_ids & {rollout.id for rollout in later.rollouts}, "an attempt's id is never used twice"
    kept = {name for group in saved["ready"] for name in group["ids"]}
    assert kept <= set(after), "groups that were ready are trained on after all"


async def test_metrics_are_one_line_an_update(stage: Stage, tmp_path: Path) -> None:
    await stage.run(*parts(stage))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[-1]["infra_errors"] > 0
    assert any(0 < line.get("success", 0.0) < 1 for line in lines)


async def test_shuffled_rewards_keep_their_sum_and_lose_their_owners(stage: Stage) -> None:
    learner, desktops, engine = parts(stage)
    await stage.run(learner, desktops, engine, shuffle=True)
    signs = [(each.trajectory.outcome == "pass", each.advantage > 0) for batch in learner.batches for each in batch]
    assert any(passed != better for passed, better in signs), "rewards must not stay with those who earned them"


async def test_the_loop_ends_when_a_part_it_stands_on_is_gone(stage: Stage) -> None:
    learner, desktops, engine = parts(stage)
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone.set_exception(ChildDied("the engine process was ended by SIGKILL"))
    with pytest.raises(ExceptionGroup) as caught:
        await stage.run(learner, desktops, engine, watched=[gone])
    assert caught.group_contains(ChildDied, match="SIGKILL")


async def test_a_machine_on_which_nothing_runs_ends_the_run(stage: Stage) -> None:
    engine = FakeEngine()
    broken = FakeDesktops(stage.store, engine, outcome=lambda rng: "infra_error")
    with pytest.raises(ExceptionGroup) as caught:
        await stage.run(FakeLearner(), broken, engine)
    assert caught.group_contains(TrainerError, match="DesktopLost: gone")


async def test_a_run_without_tasks_says_how_to_get_some(stage: Stage) -> None:
    stage.tasks = []
    with pytest.raises(NothingToDo, match="frontdesk synth"):
        await stage.run(*parts(stage))


def test_the_ledger_refuses_an_attempt_that_was_trained_on(stage: Stage) -> None:
    ledger = Ledger()
    ledger.enter([make_trajectory("a")], 1)
    with pytest.raises(AssertionError, match="update 1 already"):
        ledger.enter([make_trajectory("b"), make_trajectory("a")], 2)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("pass", r"after 0 updates, the last 1[2-5] groups taught nothing: 1[2-5] were passed.*frontdesk synth"),
        ("fail", r"in 1[2-5] no attempt was better than another.*out of reach.*warm start"),
    ],
)
async def test_a_run_that_nothing_can_be_learned_from_ends_with_the_reason(
    tmp_path: Path, outcome: str, said: str
) -> None:
    stage = Stage(tmp_path, max_flat_groups=12)
    engine = FakeEngine()
    flat = FakeDesktops(stage.store, engine, outcome=lambda rng: outcome)
    with pytest.raises(ExceptionGroup) as caught:
        await stage.run(FakeLearner(), flat, engine)
    assert caught.group_contains(NothingToDo, match=said)
    assert len(flat.rollouts) <= 4 * (12 + 3), "it stops at once"


async def test_what_was_learned_before_a_flat_stretch_is_saved(tmp_path: Path) -> None:
    stage = Stage(tmp_path, max_flat_groups=12, checkpoint_every=100)
    learner, engine = FakeLearner(), FakeEngine()
    mixed = FakeDesktops(
        stage.store, engine, outcome=lambda rng: rng.choice(["pass", "fail"]) if len(mixed.rollouts) < 60 else "pass"
    )
    with pytest.raises(ExceptionGroup) as caught:
        await stage.run(learner, mixed, engine)
    assert caught.group_contains(NothingToDo, match="after [1-9]")
    assert [step for step, _, _ in learner.saved] == [len(learner.batches)]


async def test_a_run_whose_minutes_are_over_before_it_learned_anything_has_failed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, minutes=0.002, max_flat_groups=1_000_000)
    engine = FakeEngine()
    flat = FakeDesktops(stage.store, engine, outcome=lambda rng: "fail")
    with pytest.raises(NothingToDo, match="before its first update"):
        await stage.run(FakeLearner(), flat, engine)


async def test_a_finished_run_that_is_run_again_saves_nothing_again(stage: Stage) -> None:
    learner, desktops, engine = parts(stage)
    await stage.run(learner, desktops, engine)
    step, version, saved = learner.saved[-1]
    assert step == 6
    again = FakeLearner(version)
    await stage.run(again, FakeDesktops(stage.store, FakeEngine(version)), FakeEngine(version), saved=saved)
    assert again.saved == []


async def test_counts_go_on_where_a_killed_run_was(stage: Stage, tmp_path: Path) -> None:
    learner, desktops, engine = parts(stage)
    await stage.run(learner, desktops, engine)
    _, version, saved = learner.saved[0]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    at = json.loads(lines[1])["episodes"]
    await stage.run(
        FakeLearner(version),
        FakeDesktops(stage.store, e := FakeEngine(version), seed=9),
        e,
        saved=json.loads(json.dumps(saved)),
    )
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[2])["episodes"] > at


async def test_tasks_that_are_gone_are_named(stage: Stage) -> None:
    learner, desktops, engine = parts(stage)
    await stage.run(learner, desktops, engine)
    gone = stage.tasks.pop().id
    with pytest.raises(TrainerError, match=f"1 of the tasks .*no longer there .{gone[:12]}"):
        await stage.run(learner, desktops, engine, saved=learner.saved[-1][2])
