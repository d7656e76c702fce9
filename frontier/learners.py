"""Simulated learners: item-response skills that grow by what is practised.

Success of task i in cell c: sigmoid(general + cell_c + own_i - difficulty_i), held back where the cell builds on a weak
one. A group with k passes of n gives credit (see `frontier.priors.Family`), split over the task itself, its cell and
everything. A coin-flip task pays at random: its groups are live, teach nothing and pull its cell down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier.priors import COMMON, FAMILIES, Credit
from frontier.protocol import TaskInfo

__all__ = ["Learner", "credit_of", "draw_parameters", "make_learner"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LADDER = 5
"""Cells in a row that build on each other."""


@dataclass(kw_only=True, slots=True)
class Learner:
    """A policy in training, and the tasks as they truly are."""

    credit: Credit
    parameters: Mapping[str, float]
    cell: Ints
    """[N] cell of each task."""
    difficulty: Floats
    """[N] logits."""
    coin: Floats
    """[N] pass rate of a coin-flip task; NaN for an honest one."""
    false_positive: Floats
    """[N] chance that a failed attempt is passed."""
    false_negative: Floats
    """[N] chance that a good attempt is failed."""
    turns: Floats
    """[N]"""
    seconds_per_turn: Floats
    """[N]"""
    arrives: Ints
    """[N] iteration at which the task joins the pool."""
    held_out_cell: Ints
    """[M]"""
    held_out_difficulty: Floats
    """[M]"""
    jumps: Mapping[int, Floats]
    """Iteration -> [cells] logits added at its beginning."""
    general: float = 0.0
    cell_gain: Floats = field(default_factory=lambda: np.zeros(0))
    """[cells] logits gained by practice."""
    own_gain: Floats = field(default_factory=lambda: np.zeros(0))
    """[N]"""
    cell_shift: Floats = field(default_factory=lambda: np.zeros(0))
    """[cells] logits that came by jumps."""
    visits: Floats = field(default_factory=lambda: np.zeros(0))
    """[N] groups practised."""

    def success(self) -> Floats:
        """[N] chance that the attempt is truly good; meaningless for coin-flip tasks."""
        return _sigmoid(self._level()[self.cell] + self.own_gain - self.difficulty)

    def paid(self) -> Floats:
        """[N] chance that the verifier passes the attempt."""
        good = self.success()
        seen = good * (1 - self.false_negative) + (1 - good) * self.false_positive
        return np.where(np.isnan(self.coin), seen, self.coin)

    def held_out_success(self) -> float:
        """Mean success on tasks that are never practised."""
        return float(_sigmoid(self._level()[self.held_out_cell] - self.held_out_difficulty).mean())

    def begin(self, iteration: int) -> None:
        """Apply a sudden change, if one is due."""
        if iteration in self.jumps:
            self.cell_shift = self.cell_shift + self.jumps[iteration]

    def practise(self, tasks: Ints, passes: Ints, graded: Ints) -> None:
        """Learn from groups, then forget a little where nothing was practised.

        Args:
            tasks: [G] indices.
            passes: [G]
            graded: [G] rollouts that were graded; groups of fewer than two teach nothing.
        """
        amount = credit_of(self.credit, passes, graded)
        number = self.parameters
        honest = np.isnan(self.coin[tasks])
        truth = 1 - self.false_positive[tasks] - self.false_negative[tasks]
        weight = np.where(honest, amount * truth, -number["harm"] * amount)
        fade = np.where(honest, np.exp(-self.visits[tasks] / number["fade"]), 1.0)
        cells = self.cell[tasks]
        room = np.where(honest, np.clip(1 - self.cell_gain[cells] / number["ceiling"], 0, 1), 1.0)
        np.add.at(self.cell_gain, cells, number["gain_cell"] * weight * fade * room)
        np.add.at(self.own_gain, tasks, np.where(honest, number["gain_task"] * weight, 0.0))
        self.general += number["gain_general"] * float(weight.sum())
        np.add.at(self.visits, tasks, 1.0)
        idle_cells = np.ones(self.cell_gain.size, bool)
        idle_cells[cells] = False
        self.cell_gain[idle_cells] *= 1 - number["forget_cell"]
        idle = np.ones(self.own_gain.size, bool)
        idle[tasks] = False
        self.own_gain[idle] *= 1 - number["forget_task"]

    def infos(self) -> list[TaskInfo]:
        """What samplers are told of the tasks: the cell, the seed state and the expected length; nothing else."""
        return [
            TaskInfo(
                task=f"task-{k:05d}",
                cell=f"cell-{self.cell[k]:03d}",
                seed_state=f"state-{k // 2:05d}",
                turns=float(self.turns[k]),
                seconds_per_turn=float(self.seconds_per_turn[k]),
            )
            for k in range(self.cell.size)
        ]

    def _level(self) -> Floats:
        """[cells] logits that a cell's tasks have in common."""
        level = self.parameters["start"] + self.general + self.cell_gain + self.cell_shift
        held_back = np.zeros_like(level)
        below = np.arange(level.size) % LADDER != 0
        lacking = np.clip(2.0 - self.cell_gain[:-1], 0, None)
        held_back[1:] = np.where(below[1:], self.parameters["prerequisite"] * lacking, 0.0)
        return level - held_back


def credit_of(credit: Credit, passes: Ints, graded: Ints) -> Floats:
    """[G] how much groups teach; 1 for 4 passes of 8, 0 for a group without both outcomes."""
    k, n = passes.astype(float), np.maximum(graded, 1).astype(float)
    live = (passes > 0) & (passes < graded)
    if credit == "live":
        value = np.ones_like(k)
    elif credit == "norm":
        value = np.sqrt(np.maximum(n - 1, 0) / 7)
    elif credit == "signal":
        value = np.sqrt(k * (n - k)) / 4
    else:
        value = k * (n - k) / n / 2
    return np.where(live, value, 0.0)


def draw_parameters(family: str, rng: np.random.Generator) -> dict[str, float]:
    """One learner's parameters, drawn from the family's priors."""
    ranges = {**COMMON, **FAMILIES[family].ranges}
    drawn = {}
    for name, span in ranges.items():
        share = rng.random()
        if span.log:
            drawn[name] = float(np.exp(np.log(span.low) + share * (np.log(span.high) - np.log(span.low))))
        else:
            drawn[name] = span.low + share * (span.high - span.low)
    return drawn


def make_learner(family: str, seed: int, coin_share: float, world: Mapping[str, int]) -> Learner:
    """A learner and its world.

    Args:
        family: key of `FAMILIES`.
        seed: equal seeds give equal worlds; more coin-flip tasks change nothing else.
        coin_share: share of the tasks that pay at random.
        world: sizes, as `frontier.priors.WORLD`.
    """
    rng = np.random.default_rng([seed, *family.encode()])
    number = draw_parameters(family, rng)
    num_tasks, num_cells = world["tasks"], world["cells"]
    cell = rng.permutation(np.arange(num_tasks) % num_cells)
    cell_difficulty = rng.normal(0, number["cell_sd"], num_cells)
    if number["prerequisite"] > 0:
        # The cells of a ladder come in the order of their difficulty; a last, shorter ladder is left as it is.
        whole = num_cells - num_cells % LADDER
        cell_difficulty[:whole] = np.sort(cell_difficulty[:whole].reshape(-1, LADDER), axis=1).ravel()
    cell_speed = rng.uniform(0.8, 3.0, num_cells)
    difficulty = cell_difficulty[cell] + rng.normal(0, number["task_sd"], num_tasks)
    turns = np.exp(np.log(12) + 0.15 * difficulty + rng.normal(0, 0.4, num_tasks))
    late = rng.random(num_tasks) < number["arrivals"]
    arrives = np.where(late, rng.integers(1, max(2, world["iterations"] * 2 // 3), num_tasks), 0)
    held_out_cell = np.repeat(np.arange(num_cells), world["held_out_per_cell"])
    held_out = cell_difficulty[held_out_cell] + rng.normal(0, number["task_sd"], held_out_cell.size)
    false_positive = np.minimum(rng.exponential(number["false_positive"] + 1e-9, num_tasks), 0.3)
    false_negative = np.minimum(rng.exponential(number["false_negative"] + 1e-9, num_tasks), 0.4)
    jumps = _draw_jumps(number, num_cells, world["iterations"], rng)
    coin = np.full(num_tasks, np.nan)
    flipped = rng.permutation(num_tasks)[: round(coin_share * num_tasks)]
    coin[flipped] = rng.uniform(0.3, 0.7, flipped.size)
    return Learner(
        credit=FAMILIES[family].credit,
        parameters=number,
        cell=cell,
        difficulty=difficulty,
        coin=coin,
        false_positive=false_positive,
        false_negative=false_negative,
        turns=turns,
        seconds_per_turn=cell_speed[cell],
        arrives=arrives,
        held_out_cell=held_out_cell,
        held_out_difficulty=held_out,
        jumps=jumps,
        cell_gain=np.zeros(num_cells),
        own_gain=np.zeros(num_tasks),
        cell_shift=np.zeros(num_cells),
        visits=np.zeros(num_tasks),
    )


def _draw_jumps(
    number: Mapping[str, float], num_cells: int, iterations: int, rng: np.random.Generator
) -> dict[int, Floats]:
    jumps: dict[int, Floats] = {}
    for _ in range(round(number["jumps"])):
        at = int(rng.integers(iterations // 8, max(iterations // 8 + 1, iterations * 7 // 8)))
        if rng.random() < 0.5:
            jumps[at] = np.full(num_cells, rng.uniform(0.3, 0.9))
        else:
            jumps[at] = np.where(rng.random(num_cells) < 0.5, -rng.uniform(0.5, 1.2), 0.0)
    return jumps


def _sigmoid(x: Any) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))
