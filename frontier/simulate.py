"""A sampler and a simulated learner on one budget: who learns most from equal rollouts?

::

    iteration: tasks arrive -> gates that are due answer -> plan within (budget - cost of new gate runs) ->
               outcomes are drawn at once, arrive after their delay, are recorded -> the learner practises them

Everything is charged to the same budget of rollouts: failed infrastructure, dead groups, gate runs. The learner sees
the graded outcomes whatever the sampler made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frontier.learners import Learner, make_learner
from frontier.oracle import OracleSampler
from frontier.priors import WORLD
from frontier.protocol import Allocation, AsksForGates, RolloutOutcome, Sampler, TakesGroups, TaskInfo, Verdict

__all__ = ["SimulationResult", "simulate"]

RECALL_GROUPS = 16
"""By which group of its own a coin-flip task should be known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulationResult:
    """What became of one run."""

    held_out: NDArray[np.float64]
    """[iterations + 1] success on held-out tasks before each iteration and at the end."""
    seconds: NDArray[np.float64]
    """[iterations + 1] desktop seconds spent by then."""
    coin_share: float
    """Share of the rollouts that went to coin-flip tasks."""
    live_share: float
    """Share of the graded groups that were live."""
    gate_share: float
    """Share of the budget that went to gate runs."""
    broken_found: int
    """Coin-flip tasks that were BROKEN by their 16th group."""
    broken_due: int
    """Coin-flip tasks that were BROKEN by then, or had 16 groups without."""
    good_held_share: float
    """Share of the honest tasks' time in QUARANTINE or BROKEN."""
    good_broken: int
    """Honest tasks that were ever BROKEN."""
    good_returned: int
    """Those of them that came back before the end."""

    @property
    def auc(self) -> float:
        """Mean held-out success over the budget."""
        return float(self.held_out.mean())

    @property
    def final(self) -> float:
        """Held-out success at the end."""
        return float(self.held_out[-1])


def simulate(
    make_sampler: Callable[[list[TaskInfo]], Sampler],
    family: str,
    seed: int,
    *,
    coin_share: float = 0.0,
    world: Mapping[str, int] = WORLD,
) -> SimulationResult:
    """Run one sampler with one learner.

    Args:
        make_sampler: given the tasks of the beginning.
        family: key of `frontier.priors.FAMILIES`.
        seed: decides the world; every sampler meets the same one.
        coin_share: share of the tasks that pay at random.
        world: sizes.
    """
    return _Run(make_sampler, make_learner(family, seed, coin_share, world), seed, world).go()


_Arrival = tuple[Allocation, int, float, NDArray[np.bool_], NDArray[np.bool_]]
"""A group on its way back: version that acted, seconds per rollout, which passed, which the infrastructure failed."""


class _Run:
    def __init__(
        self,
        make_sampler: Callable[[list[TaskInfo]], Sampler],
        learner: Learner,
        seed: int,
        world: Mapping[str, int],
    ) -> None:
        self._learner = learner
        self._world = world
        self._infos = learner.infos()
        self._index = {info.task: k for k, info in enumerate(self._infos)}
        self._sampler = make_sampler([self._infos[k] for k in np.flatnonzero(learner.arrives == 0)])
        self._asks = self._sampler if isinstance(self._sampler, AsksForGates) else None
        self._takes = self._sampler if isinstance(self._sampler, TakesGroups) else None
        self._rng = np.random.default_rng([seed, 1])
        self._arrivals: dict[int, list[_Arrival]] = {}
        self._gates: dict[int, list[str]] = {}
        self._running: set[str] = set()
        self._debt = 0.0
        self._honest = np.isnan(learner.coin)
        self._groups = np.zeros(len(self._infos), np.int64)
        self._broken_at = np.full(len(self._infos), -1)
        """Groups that the task had had when it was BROKEN for the first time; -1 if it never was."""
        self._broken_now = np.zeros(len(self._infos), bool)
        self._held_time = self._good_time = 0
        self._rollouts = self._coin_rollouts = self._graded_groups = self._live_groups = 0
        self._gate_rollouts = self._seconds = 0.0

    def go(self) -> SimulationResult:
        learner, held_out, seconds = self._learner, [self._learner.held_out_success()], [0.0]
        for iteration in range(self._world["iterations"]):
            learner.begin(iteration)
            if iteration and (new := np.flatnonzero(learner.arrives == iteration)).size:
                self._sampler.add([self._infos[k] for k in new])
            budget = self._gate_runs(iteration)
            if isinstance(self._sampler, OracleSampler):
                rates = np.where(self._honest, learner.paid(), np.nan)
                self._sampler.see({info.task: float(rates[k]) for k, info in enumerate(self._infos)})
            self._start(self._sampler.plan(budget, iteration), iteration)
            self._finish(iteration)
            self._watch(iteration)
            held_out.append(learner.held_out_success())
            seconds.append(self._seconds)
        due = ~self._honest & ((self._groups >= RECALL_GROUPS) | (self._broken_at >= 0))
        found = due & (self._broken_at >= 0) & (self._broken_at <= RECALL_GROUPS)
        wrongly = self._honest & (self._broken_at >= 0)
        return SimulationResult(
            held_out=np.array(held_out),
            seconds=np.array(seconds),
            coin_share=self._coin_rollouts / max(1, self._rollouts),
            live_share=self._live_groups / max(1, self._graded_groups),
            gate_share=self._gate_rollouts / (self._world["budget"] * self._world["iterations"]),
            broken_found=int(found.sum()),
            broken_due=int(due.sum()),
            good_held_share=self._held_time / max(1, self._good_time),
            good_broken=int(wrongly.sum()),
            good_returned=int((wrongly & ~self._broken_now).sum()),
        )

    def _gate_runs(self, iteration: int) -> int:
        """Answer the gates that are due, start those that are asked for, and return what is left of the budget."""
        number = self._learner.parameters
        if self._asks is None:
            return self._world["budget"]
        for task in self._gates.pop(iteration, []):
            honest = self._honest[self._index[task]]
            chance = 1 - number["gate_false_alarm"] if honest else number["gate_miss"]
            self._asks.gate_answer(task, passed=bool(self._rng.random() < chance), version=iteration)
            self._running.discard(task)
        for request in self._asks.gate_requests():
            if request.task not in self._running:
                self._running.add(request.task)
                self._gates.setdefault(iteration + round(number["gate_delay"]), []).append(request.task)
                self._debt += number["gate_cost"]
                self._gate_rollouts += number["gate_cost"]
        paid = min(int(self._debt), self._world["budget"])
        self._debt -= paid
        return self._world["budget"] - paid

    def _start(self, plan: list[Allocation], iteration: int) -> None:
        """Draw what will come of the groups, and when."""
        number, rng = self._learner.parameters, self._rng
        paid = self._learner.paid()
        outage = rng.random() < number["outage"]
        for group in plan:
            k = self._index[group.task]
            self._rollouts += group.n
            self._coin_rollouts += 0 if self._honest[k] else group.n
            passed = rng.random(group.n) < paid[k]
            failed = (rng.random(group.n) < number["infra"]) | outage
            seconds = float(self._learner.turns[k] * self._learner.seconds_per_turn[k])
            self._seconds += seconds * group.n
            delay = int(rng.poisson(number["delay"]))
            arrival = (group, iteration, seconds, passed, failed)
            self._arrivals.setdefault(iteration + delay, []).append(arrival)

    def _finish(self, iteration: int) -> None:
        """Record what arrives, and let the learner practise it."""
        arrived = self._arrivals.pop(iteration, [])
        num_passes = np.array([(passed & ~failed).sum() for *_, passed, failed in arrived], np.int64)
        num_graded = np.array([(~failed).sum() for *_, failed in arrived], np.int64)
        for k, (group, version, seconds, _, _) in enumerate(arrived):
            self._record(group, version, int(num_passes[k]), int(num_graded[k]), seconds)
        tasks = np.array([self._index[group.task] for group, *_ in arrived], np.int64)
        self._learner.practise(tasks, num_passes, num_graded)
        np.add.at(self._groups, tasks[num_graded > 0], 1)
        self._graded_groups += int((num_graded > 0).sum())
        self._live_groups += int(((num_passes > 0) & (num_passes < num_graded)).sum())

    def _record(self, group: Allocation, version: int, passes: int, graded: int, seconds: float) -> None:
        """Tell the sampler of a whole group, or of its rollouts one by one if it does not take groups."""
        if self._takes is not None:
            self._takes.record_group(group.group_id, version=version, passes=passes, graded=graded, seconds=seconds)
            return
        for k in range(group.n):
            verdict: Verdict = "infra_error" if k >= graded else "pass" if k < passes else "fail"
            self._sampler.record(
                RolloutOutcome(
                    rollout_id=f"{group.group_id}/{k}",
                    group_id=group.group_id,
                    task=group.task,
                    version=version,
                    verdict=verdict,
                    reward=None if verdict == "infra_error" else float(verdict == "pass"),
                    seconds=seconds,
                )
            )

    def _watch(self, iteration: int) -> None:
        """Note which tasks are held."""
        self._good_time += int((self._honest & (self._learner.arrives <= iteration)).sum())
        if self._asks is None:
            return
        self._broken_now[:] = False
        for task, state in self._asks.held().items():
            k = self._index[task]
            self._held_time += bool(self._honest[k])
            if state == "BROKEN":
                self._broken_now[k] = True
                if self._broken_at[k] < 0:
                    self._broken_at[k] = self._groups[k]
