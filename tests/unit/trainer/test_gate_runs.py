"""Doubted tasks in the online loop: their gates run again, and the answer decides. Gates and desktops are fake."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from frontier import FrontierSampler
from sandbox.errors import DesktopError
from tests.support.practice import FakeDesktops, FakeEngine, FakeGates, FakeLearner, Stage
from trainer.errors import NothingToDo
from trainer.tasks import TrainingTask
from verigen.proof import Proof

UPDATES = 30


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, updates=UPDATES, sampler="frontier", checkpoint_every=1)


def coins(stage: Stage) -> tuple[FakeLearner, FakeDesktops, FakeEngine]:
    """Every task passes at random whatever was learned, so that each of them is doubted in time."""
    engine = FakeEngine()
    desktops = FakeDesktops(stage.store, engine, outcome=lambda rng: rng.choice(["pass", "fail"]))
    return FakeLearner(update_s=0), desktops, engine


def life(stage: Stage, task: str) -> str:
    assert isinstance(stage.sampler, FrontierSampler)
    return stage.sampler.life(task)


async def test_a_broken_task_is_planned_no_more_and_a_sound_one_comes_back(stage: Stage) -> None:
    broken, *sound = (task.id for task in stage.tasks)
    learner, desktops, engine = coins(stage)
    planned_at: dict[str, int] = {}
    gates = FakeGates(
        lambda task, _: "failed" if task == broken else "passed",
        on_run=lambda: planned_at.setdefault(gates.asked[-1], len(desktops.rollouts)),
    )
    await stage.run(learner, desktops, engine, prove=gates)
    assert set(gates.asked) == {broken, *sound}, "the test needs every task to be doubted"
    assert gates.at_once == 1
    assert gates.asked.count(broken) >= 1, "and once more for each time that it is checked again"
    assert life(stage, broken) == "BROKEN"
    later = {task: {one.task.id for one in desktops.rollouts[at:]} for task, at in planned_at.items()}
    assert broken not in later[broken]
    for task in sound:
        assert task in later[task], "it was practised again"
    assert stage.views[-1].tasks_held >= 1
    line = json.loads((stage.root / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert line["gates_rerun"] >= 3
    assert line["tasks_held"] >= 1


async def test_without_gates_a_doubted_task_stays_held_and_the_run_ends_with_the_reason(stage: Stage) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await stage.run(*coins(stage))
    assert caught.group_contains(NothingToDo, match="3 of 3 are held because their check is doubted or broken")


async def test_gates_that_the_machine_failed_run_again_after_the_next_update(stage: Stage) -> None:
    learner, desktops, engine = coins(stage)
    steps: list[tuple[str, int]] = []
    gates = FakeGates(
        lambda _, times: "unproven" if times == 1 else "passed",
        on_run=lambda: steps.append((gates.asked[-1], len(learner.batches))),
    )
    loop = await stage.run(learner, desktops, engine, prove=gates)
    assert loop.step == UPDATES
    task = gates.asked[0]
    first, second = [step for name, step in steps if name == task][:2]
    assert second > first
    under_way = len(gates.asked) - len(set(gates.asked)) - stage.views[-1].gates_rerun
    assert under_way in (0, 1), "what the machine failed is no answer"


async def test_a_machine_on_which_no_gates_run_ends_a_run_that_has_nothing_else_to_do(stage: Stage) -> None:
    async def prove(task: TrainingTask) -> Proof:
        raise DesktopError("no desktop boots")

    with pytest.raises(ExceptionGroup) as caught:
        await stage.run(*coins(stage), prove=prove)
    assert caught.group_contains(NothingToDo, match=r"3 of 3 are held.*no desktop boots")


async def test_a_request_that_a_kill_left_unanswered_is_asked_again(stage: Stage) -> None:
    learner, desktops, engine = coins(stage)
    doubted: list[str] = []

    async def die(task: TrainingTask) -> Proof:
        doubted.append(task.id)
        at = len(learner.saved)
        while len(learner.saved) < at + 2:
            await asyncio.sleep(0)
        raise RuntimeError("killed")

    with pytest.raises(ExceptionGroup, match="unhandled"):
        await stage.run(learner, desktops, engine, prove=die)
    _, version, saved = learner.saved[-1]
    assert life(stage, doubted[0]) == "QUARANTINE", "the test needs a request without an answer"
    engine = FakeEngine(version)
    gates = FakeGates(lambda *_: "failed")
    later = FakeDesktops(stage.store, engine, outcome=lambda rng: rng.choice(["pass", "fail"]), seed=5)
    with pytest.raises(ExceptionGroup) as caught:
        await stage.run(
            FakeLearner(version, update_s=0), later, engine, saved=json.loads(json.dumps(saved)), prove=gates
        )
    assert caught.group_contains(NothingToDo, match="3 of 3 are held")
    assert doubted[0] in gates.asked
    assert doubted[0] not in {rollout.task.id for rollout in later.rollouts}, "it was held from the start"
    assert life(stage, doubted[0]) == "BROKEN"
