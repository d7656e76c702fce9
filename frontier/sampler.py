"""Our sampler: rollouts go where a live group is likely, and never for long to a task whose check is broken.

::

    outcomes --> beliefs (posterior, drift) --> life cycle --> plan: anchors of EASY, visits in MONITOR, the longest
                        |                          ^                 waiting, then by value at a Thompson draw
                        `--> doubt --> QUARANTINE --> gate request ... gate answer

The value of a group is the expected norm of its advantages (frontier.utility) at a draw from the task's posterior, per
rollout and expected cost, times the probability that its check is sound. The group's size is chosen with it. Caps keep
it from sitting in one cell, one seed state or one template, in a large plan as over many small ones.

No eligible task starves: a fixed share of every budget goes to the FRONTIER task that was planned longest ago, and the
waits in MONITOR and EASY are bounded. See docs/design/frontier.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier.allocate import Cap, Filling, best_first, equal_share
from frontier.beliefs import Beliefs
from frontier.buffered import BufferedSampler, GroupResult
from frontier.columns import Columns
from frontier.config import FrontierConfig
from frontier.judging import Judging
from frontier.lifecycle import STATES, Event, State
from frontier.protocol import GateRequest, TaskInfo
from frontier.saved import check_saved
from frontier.utility import group_value, live_probability, true_rate

__all__ = ["FrontierSampler"]

_KIND = "frontier"
_TASK = {
    "seed_state": ("<i4", -1, ()),
    "template": ("<i4", -1, ()),
    "expected_s": ("<f8", 1.0, ()),
    "measured_s": ("<f8", 0.0, ()),
    "planned": ("<i8", -1, ()),
    "version": ("<i8", -(10**9), ()),
}
HELD_FORGETS = 0.5
"""Share of what is known of a task that is forgotten when it comes back from BROKEN: the policy has moved meanwhile."""
SECONDS_WEIGHT = 0.3
"""Weight of a group's measured seconds against those measured before."""


class FrontierSampler(BufferedSampler):
    """A `Sampler` that also asks for gates (`AsksForGates`).

    Args:
        tasks: the pool of the beginning.
        seed: of the draws.
        config: hyper-parameters.
        prefix: starts every group id.

    Raises:
        ValueError: a task is there twice.
    """

    def __init__(
        self, tasks: Iterable[TaskInfo] = (), *, seed: int, config: FrontierConfig | None = None, prefix: str = "g"
    ) -> None:
        super().__init__(prefix=prefix)
        self.config = config or FrontierConfig()
        self._seed = seed
        self._infos: dict[str, TaskInfo] = {}
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._labels: dict[str, dict[str, int]] = {"cell": {}, "seed_state": {}, "template": {}}
        self.beliefs = Beliefs(self.config)
        self.judging = Judging(self.config)
        self._tasks = Columns(_TASK)
        self._plans = 0
        self._monitor_credit = self._easy_credit = self._oldest_credit = 0.0
        self._groups_per_plan = 0
        self._recent: list[int] = []  # Tasks of the last `cap_groups` groups, the newest last.
        self.add(tasks)

    def _admit(self, infos: list[TaskInfo]) -> None:
        """Each new task gets a prior from its cell, its pilot and its length."""
        new, names = infos, [info.task for info in infos]
        first = len(self._names)
        self._names += names
        self._index |= {name: first + k for k, name in enumerate(names)}
        cells = np.array([self._label("cell", info.cell) for info in new], np.int64)
        self.beliefs.add(
            cells,
            np.log(np.array([info.turns for info in new], float)),
            np.array([info.pilot_passes for info in new], float),
            np.array([info.pilot_rollouts for info in new], float),
            self._version,
        )
        self.judging.grow(len(new))
        self._tasks.grow(len(new))
        self._tasks["expected_s"][first:] = [info.turns * info.seconds_per_turn for info in new]
        self._tasks["seed_state"][first:] = [
            self._label("seed_state", info.seed_state) if info.seed_state else -1 for info in new
        ]
        self._tasks["template"][first:] = [
            self._label("template", info.template) if info.template else -1 for info in new
        ]

    def add(self, tasks: Iterable[TaskInfo]) -> None:
        """Take new tasks into the pool; retired ones come back as they were."""
        infos = list(tasks)
        super().add(infos)
        self._infos |= {info.task: info for info in infos}

    def _leave(self, task: str) -> None:
        self._infos.pop(task, None)
        self.judging.retire(self._index[task], self._version, task)

    def _come_back(self, task: str) -> None:
        self.judging.come_back(self._index[task], self._version, task)

    def _infos_known(self) -> dict[str, TaskInfo]:
        return {name: self._infos.get(name) or TaskInfo(task=name) for name in self._names}

    def gate_requests(self) -> list[GateRequest]:
        """The tasks whose gates should run now."""
        self._absorb(self._version)
        return [
            GateRequest(task=self._names[k], reason=reason) for k, reason in self.judging.gate_requests(self._version)
        ]

    def gate_answer(self, task: str, *, passed: bool, version: int) -> None:
        """Let the gates' answer decide."""
        self._absorb(version)
        k, before = self._index[task], self.life(task)
        self.judging.gate_answer(k, passed=passed, version=self._version, name=task)
        if before == "BROKEN" and self.life(task) == "FRONTIER":
            self.beliefs.forget(k, HELD_FORGETS)

    def held(self) -> dict[str, str]:
        """The tasks in QUARANTINE and BROKEN."""
        state = self.judging.state_of
        held = np.flatnonzero((state == State.QUARANTINE) | (state == State.BROKEN))
        return {self._names[k]: STATES[state[k]] for k in held}

    def life(self, task: str) -> str:
        """The life-cycle state of a task."""
        return STATES[self.judging.state_of[self._index[task]]]

    def success(self, task: str) -> tuple[float, float]:
        """Mean success that is believed of a task now, and the rollouts that the belief is worth."""
        mean, strength = self.beliefs.predict(self._version, np.array([self._index[task]]))
        return float(mean[0]), float(strength[0])

    def take_events(self) -> list[Event]:
        """What happened since this was last called: transitions, regressions, jumps."""
        return self.judging.take_events()

    @property
    def tasks(self) -> list[str]:
        """The pool, in the order of the columns of `beliefs` and `judging`."""
        return list(self._names)

    @property
    def cell_names(self) -> list[str]:
        """The cells, in the order of the columns of `beliefs.cells`."""
        return list(self._labels["cell"])

    @property
    def version(self) -> int:
        """The newest version that it was told."""
        return self._version

    @property
    def live_groups(self) -> float:
        """Live groups that one pass over the FRONTIER tasks is expected to give."""
        mean, _ = self.beliefs.predict(self._version)
        frontier = self.judging.state_of == State.FRONTIER
        return float(live_probability(self._true(mean[frontier]), 8).sum())

    @property
    def refill(self) -> str | None:
        """Why new tasks are needed, in one sentence; None while the frontier has enough."""
        needed, there = self.config.refill_batches * max(1, self._groups_per_plan), self.live_groups
        if there >= needed:
            return None
        state = self.judging.state_of
        easy, monitor = int((state == State.EASY).sum()), int((state == State.MONITOR).sum())
        return (
            f"One pass over the frontier gives {there:.0f} live groups, fewer than the {needed:.0f} of "
            f"{self.config.refill_batches:g} batches: compose harder tasks from the {easy} easy ones, "
            f"or split the {monitor} that are out of reach."
        )

    def _knows(self, task: str) -> bool:
        return task in self._index

    def _label(self, kind: str, name: str) -> int:
        return self._labels[kind].setdefault(name, len(self._labels[kind]))

    def _true(self, paid: NDArray[np.float64]) -> NDArray[np.float64]:
        return true_rate(paid, self.config.false_positive, self.config.false_negative)

    def _digest(self, results: list[GroupResult], version: int) -> None:
        graded = [result for result in results if result.graded]
        self.beliefs.advance(version)
        if not graded:
            return
        tasks = np.array([self._index[result.task] for result in graded], np.int64)
        passes = np.array([result.passes for result in graded], float)
        number = np.array([result.graded for result in graded], float)
        ages = np.array([version - result.version for result in graded], float)
        self.judging.before(self.beliefs, tasks, passes, number)
        self.beliefs.learn(tasks, passes, number, ages, self.judging.state_of[tasks] < State.QUARANTINE)
        for k, result in zip(tasks.tolist(), graded, strict=True):
            if result.seconds_ms:
                spent, before = result.seconds_ms / 1000 / result.graded, float(self._tasks["measured_s"][k])
                self._tasks["measured_s"][k] = before + SECONDS_WEIGHT * (spent - before) if before else spent
        self.judging.after(self.beliefs, tasks, passes, number, version, self._names)

    def _choose(self, budget: int, version: int) -> list[tuple[str, int]]:
        smallest = self.config.group_sizes[0]
        if not self._names or budget < smallest:
            return []
        rng = np.random.default_rng([self._seed, self._plans])
        self._plans += 1
        mean, strength = self.beliefs.predict(self._version)
        state, planned = self.judging.state_of, self._tasks["planned"]
        idle = np.ones(len(self._names), bool)
        idle[[self._index[group.task] for group in self._open.values()]] = False
        value, size = self._values(mean, strength, rng)
        frontier = state == State.FRONTIER
        filling = Filling(budget, self._caps(budget // smallest, frontier))
        self._visit(filling, State.EASY, "_easy_credit", self.config.easy_share, idle)
        self._visit(filling, State.MONITOR, "_monitor_credit", self.config.monitor_share, idle)
        self._visit_oldest(filling, frontier & idle, value, size)
        rested = self._version - self._tasks["version"] > self.config.rest
        scored = np.where(frontier & idle & rested, value, -np.inf)
        guess = 4 * (budget // smallest)
        for k in best_first(scored, guess):
            if filling.left < smallest:
                break
            filling.offer(k, _fit(size[k], filling.left, self.config.group_sizes))
        self._fill_up(filling, scored, size, idle, state)
        for k, _ in filling.chosen:
            planned[k] = self._plans
            self._tasks["version"][k] = self._version
            self.judging.visited(k, self._version)
        self._groups_per_plan = len(filling.chosen)
        self._recent = [*self._recent, *(k for k, _ in filling.chosen)][-self.config.cap_groups :]
        return [(self._names[k], n) for k, n in filling.chosen]

    def _values(
        self, mean: NDArray[np.float64], strength: NDArray[np.float64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Each task's best value at a Thompson draw, and the group size that gives it."""
        strength = strength * self.config.draw_sharpness
        ones = rng.standard_gamma(mean * strength)
        noughts = rng.standard_gamma((1 - mean) * strength)
        draw = self._true(ones / np.maximum(ones + noughts, 1e-300))
        best = np.full(mean.size, -1.0)
        size = np.full(mean.size, self.config.group_sizes[0])
        for n in self.config.group_sizes:
            value = group_value(draw, n, self.config.signal, self.config.size_power)
            better = value > best
            best = np.where(better, value, best)
            size = np.where(better, n, size)
        if self.config.cost_power:
            cost = self._cost()
            best = best * (cost / cost.mean()) ** -self.config.cost_power
        return best * (1 - self.judging.doubt), size

    def _cost(self) -> NDArray[np.float64]:
        """[N] seconds of a rollout: as measured, else as expected, scaled by how expectations have turned out."""
        expected, measured = self._tasks["expected_s"], self._tasks["measured_s"]
        known = measured > 0
        # Without the scale a wrong guess of all tasks would keep the untried ones out, or let them push in.
        scale = measured[known].sum() / expected[known].sum() if known.any() else 1.0
        return np.where(known, measured, expected * scale)

    def _caps(self, groups: int, frontier: NDArray[np.bool_]) -> list[Cap]:
        """Caps on a plan of so many groups; on a small one with what was planned just before, twice as loose."""
        seed_state = Cap(labels=self._tasks["seed_state"], limit=self.config.seed_state_cap)
        window = self.config.cap_groups
        before = self._recent[groups - window :] if groups < window else []
        caps = [seed_state, *self._shares(groups, [], frontier)]
        return caps + self._shares(2 * window, before, frontier) if before else caps

    def _shares(self, groups: int, before: list[int], frontier: NDArray[np.bool_]) -> list[Cap]:
        """Where cells or templates are few, each may have an equal share of so many groups."""
        cell, template = self.beliefs.tasks["cell"], self._tasks["template"]
        return [
            Cap(labels=labels, limit=equal_share(labels[frontier], groups, at_least), before=before)
            for labels, at_least in ((cell, self.config.cell_cap), (template, self.config.template_cap))
        ]

    def _visit(self, filling: Filling, state: int, credit: str, share: float, idle: NDArray[np.bool_]) -> None:
        """Give tasks that are due their visit, as far as the saved share of budgets allows."""
        n = self.config.group_sizes[0]
        saved = min(getattr(self, credit) + share * filling.left, max(4.0 * n, 2 * share * filling.left))
        for k in self.judging.due(state, self._version, idle):
            if saved < n or not filling.offer(k, n):
                break
            saved -= n
        setattr(self, credit, saved)

    def _visit_oldest(
        self,
        filling: Filling,
        open_to: NDArray[np.bool_],
        value: NDArray[np.float64],
        size: NDArray[np.int64],
    ) -> None:
        """Give the longest waiting their turn; among equals the more valuable first."""
        n = self.config.group_sizes[0]
        self._oldest_credit += self.config.oldest_share * filling.left
        if self._oldest_credit < n or not open_to.any():
            self._oldest_credit = min(self._oldest_credit, float(4 * n))
            return
        waiting = np.where(open_to, -self._tasks["planned"] + value / (1 + value), -np.inf)
        for k in best_first(waiting, 16):
            if self._oldest_credit < n or filling.left < n:
                break
            if filling.offer(k, n):
                self._oldest_credit -= n

    def _fill_up(
        self,
        filling: Filling,
        scored: NDArray[np.float64],
        size: NDArray[np.int64],
        idle: NDArray[np.bool_],
        state: NDArray[np.int8],
    ) -> None:
        """Use what caps and a small frontier leave of the budget: caps go first, then the rest for one group a task."""
        smallest = self.config.group_sizes[0]
        if filling.left < smallest:
            return
        eligible = np.flatnonzero(state < State.QUARANTINE)
        waits = self.judging.waits(self._version)
        order = eligible[np.lexsort((waits[eligible], -scored[eligible], ~idle[eligible]))].tolist()
        while order and filling.left >= smallest:
            for k in order:
                if filling.left < smallest:
                    break
                filling.offer(k, _fit(size[k], filling.left, self.config.group_sizes), capped=False)
            filling.next_round()

    def state(self) -> dict[str, Any]:
        """Everything it knows, as JSON data."""
        return self._base_state() | {
            "kind": _KIND,
            "config": _as_json(asdict(self.config)),
            "seed": self._seed,
            "names": list(self._names),
            "labels": {kind: list(names) for kind, names in self._labels.items()},
            "beliefs": self.beliefs.state(),
            "judging": self.judging.state(),
            "tasks": self._tasks.state(),
            "plans": self._plans,
            "credits": [self._monitor_credit, self._easy_credit, self._oldest_credit],
            "groups_per_plan": self._groups_per_plan,
            "recent": list(self._recent),
        }

    def _read(self, state: Mapping[str, Any]) -> None:
        self._names = list(state["names"])
        self._index = {name: k for k, name in enumerate(self._names)}
        self._labels = {kind: {name: k for k, name in enumerate(names)} for kind, names in state["labels"].items()}
        self.beliefs.restore(state["beliefs"])
        self.judging.restore(state["judging"])
        self._tasks.restore(state["tasks"])
        self._plans = state["plans"]
        self._monitor_credit, self._easy_credit, self._oldest_credit = state["credits"]
        self._groups_per_plan = state["groups_per_plan"]
        self._recent = list(state["recent"])

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FrontierSampler:
        """The sampler that made this state.

        Raises:
            ValueError: the state is of another kind or version.
        """
        check_saved(state, cls(seed=0).state(), settings=False)
        saved: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in state["config"].items()}
        made = cls([TaskInfo(task=name) for name in state["names"]], seed=state["seed"], config=FrontierConfig(**saved))
        made.restore(state)
        return made


def _fit(size: int, left: int, sizes: tuple[int, ...]) -> int:
    """The wanted group size, or the largest that the budget still holds."""
    return int(size) if size <= left else max((n for n in sizes if n <= left), default=int(size))


def _as_json(config: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in config.items()}
