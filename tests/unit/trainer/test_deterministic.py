"""Deterministic runs: killed anywhere and gone on with, they end as one that was never interrupted. Desktops, engine
and learner are fake: what an attempt comes to is a function of the weights and of its seed."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.rollouts import Rollout
from store import Trajectory
from tests.support.practice import FakeDesktops, FakeEngine, FakeGates, FakeLearner, Stage
from trainer.config import Practice, RunConfig
from trainer.loop import OnlineLoop

UPDATES = 7


class Killed(Exception):
    """Stands for SIGKILL: nothing after it is done."""


class Desktops(FakeDesktops):
    """Attempts that are kept are read again; each one counts as made at the weights of the moment.

    Args:
        die_after: attempts that are made before the kill.
    """

    def __init__(self, stage: Stage, engine: FakeEngine, learner: FakeLearner, *, die_after: int | None = None) -> None:
        super().__init__(stage.store, engine, outcome=lambda rng: "fail")
        self.made = 0
        self._learner = learner
        self._die_after = die_after
        self._outcome_of: Callable[[Rollout], str] = lambda rollout: random.Random(
            f"{learner.weights} {rollout.seed_sampling}"
        ).choice(["pass", "fail", "fail", "infra_error"])

    async def __call__(
        self, rollouts: Sequence[Rollout], on_end: Callable[[Rollout, Trajectory, bool], None]
    ) -> list[Trajectory]:
        (rollout,) = rollouts
        if rollout.id in self._store.kept:
            on_end(rollout, self._store.kept[rollout.id], True)
            return [self._store.kept[rollout.id]]
        if self.made == self._die_after:
            raise Killed
        self.made += 1
        self._outcome = lambda rng: self._outcome_of(rollout)
        return await super().__call__(rollouts, on_end)


class Run:
    """A run that can be killed, and what its last checkpoint holds."""

    def __init__(self, root: Path, *, updates: int = UPDATES, **practice: Any) -> None:
        self.stage = Stage(root, deterministic=True, updates=updates, sampler="frontier", **practice)
        self.learner = FakeLearner(update_s=0)
        self.at: tuple[int, int, int, dict[str, Any]] = (0, 0, 0, {})
        """Step, version, weights and the loop's part of the newest checkpoint."""
        self.made = 0

    async def go(self, *, die_after: int | None = None, spoil: Callable[[dict[str, Any]], None] | None = None) -> bool:
        """Run on from the last checkpoint; say whether it came to its end."""
        _, version, weights, saved = copy.deepcopy(self.at)
        if spoil is not None and saved:
            spoil(saved)
        learner = self.learner = _Saving(self, version, weights)
        engine = FakeEngine(version)
        desktops = Desktops(self.stage, engine, learner, die_after=die_after)
        ended = True
        try:
            await self.stage.run(
                learner,
                desktops,
                engine,
                saved=json.loads(json.dumps(saved)) if saved else None,
                prove=FakeGates(lambda task, _: "failed" if task == self.stage.tasks[0].id else "passed"),
            )
        except* Killed:
            ended = False
        finally:
            self.made += desktops.made
        return ended

    def result(self) -> tuple[Any, ...]:
        """What two runs must have in common."""
        step, version, weights, saved = self.at
        metrics = (self.stage.root / "run" / "metrics.jsonl").read_text()
        kept = {name: value for name, value in saved.items() if name not in ("seconds", "tally")}
        counts = {name: saved["tally"][name] for name in ("episodes", "infra_errors", "informative", "flat")}
        return step, version, weights, kept, counts, metrics


class _Saving(FakeLearner):
    def __init__(self, run: Run, version: int, weights: int) -> None:
        super().__init__(version, weights, update_s=0)
        self._run = run

    async def checkpoint(self, root: Any, step: int, extra: dict[str, Any]) -> None:
        self._run.at = (step, self.version, self.weights, copy.deepcopy(extra))


async def test_two_runs_are_equal_and_another_seed_is_another_run(tmp_path: Path) -> None:
    results = []
    for name in ("a", "b"):
        run = Run(tmp_path / name)
        assert await run.go()
        results.append(run.result())
    assert results[0] == results[1]
    other = Run(tmp_path / "c")
    other.stage.config = other.stage.config.model_copy(update={"seed": 1})
    await other.go()
    assert other.result()[2] != results[0][2]


@pytest.mark.parametrize("every", [1, 3])
async def test_a_run_that_is_killed_again_and_again_ends_as_one_that_is_not(tmp_path: Path, every: int) -> None:
    whole = Run(tmp_path / "whole", checkpoint_every=every)
    assert await whole.go()
    killed = Run(tmp_path / "killed", checkpoint_every=every)
    kills = 0
    while not await killed.go(die_after=5):
        kills += 1
    assert kills > 5
    assert killed.result() == whole.result()
    assert killed.made == whole.made, "no attempt that was committed is made again"
    assert killed.stage.store.kept.keys() == whole.stage.store.kept.keys()


async def test_gates_that_ran_again_are_part_of_what_is_equal(tmp_path: Path) -> None:
    whole = Run(tmp_path / "whole", updates=40, checkpoint_every=1)
    killed = Run(tmp_path / "killed", updates=40, checkpoint_every=1)
    assert await whole.go()
    while not await killed.go(die_after=25):
        pass
    assert whole.at[3]["gates_rerun"] >= 2, "the test needs doubted tasks"
    assert killed.result() == whole.result()


def forget_draws(saved: dict[str, Any]) -> None:
    saved["sampler"]["plans"] = 0


def forget_outcomes(saved: dict[str, Any]) -> None:
    saved["sampler"]["news"] = []


def forget_counts(saved: dict[str, Any]) -> None:
    saved["tally"] = {}


def forget_trained(saved: dict[str, Any]) -> None:
    saved["ledger"] = {}


@pytest.mark.parametrize("spoil", [forget_draws, forget_outcomes, forget_counts, forget_trained])
async def test_whatever_a_checkpoint_leaves_out_shows(tmp_path: Path, spoil: Callable[[dict[str, Any]], None]) -> None:
    whole, killed = Run(tmp_path / "whole", checkpoint_every=1), Run(tmp_path / "killed", checkpoint_every=1)
    assert await whole.go()
    while not await killed.go(die_after=9, spoil=spoil):
        pass
    assert killed.result() != whole.result()


async def test_attempts_are_made_one_at_a_time_from_an_engine_that_remembers_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, deterministic=True, updates=2)
    engine, learner = FakeEngine(), FakeLearner(update_s=0)
    told: list[str] = []
    desktops = Desktops(stage, engine, learner)

    async def forget() -> None:
        told.append("forget")

    async def attempt(
        rollouts: Sequence[Rollout], on_end: Callable[[Rollout, Trajectory, bool], None]
    ) -> list[Trajectory]:
        assert told.pop() == "forget"
        assert not told, "another attempt is under way"
        (rollout,) = rollouts
        told.append(rollout.id)
        await asyncio.sleep(0)
        found = await desktops(rollouts, on_end)
        assert told.pop() == rollout.id
        return found

    engine.sleep = forget  # type: ignore[method-assign]
    loop: OnlineLoop = await stage.run(learner, attempt, engine)  # type: ignore[arg-type]
    assert loop.step == 2
    lags = [v - each.trajectory.policy_version for v, batch in enumerate(learner.batches) for each in batch]
    assert set(lags) == {0}


def test_a_deterministic_run_does_not_end_by_the_clock() -> None:
    with pytest.raises(ValueError, match="leave out practice"):
        RunConfig(name="one", deterministic=True, practice=Practice(minutes=1))
