"""What is believed of each task's success: a Beta posterior that ages, and drifts that carry news between tasks.

Per task: the logit of the posterior mean when it was last updated, the discounted number of rollouts behind it, the
version and the drift at that time. Per cell: an offset (what tasks of this cell are like, for those never tried) and
a drift (how its tasks have moved since the start). All cells share one general drift, so that a new checkpoint shows
on the whole map at once.

::

    predict:  mean = sigmoid(logit + drift now - drift then)      strength = prior + discount^(versions since) * count
    learn:    surprises of tried tasks -> general drift, then cell drifts (Kalman filters in logits);
              surprises of untried tasks -> level and cell offset;  then each Beta posterior takes its own outcomes

A surprise of a task with strength k by n rollouts has the information n k / (n + k) * p (1 - p): a task that is hardly
known says little about the drift. A surprise beyond three standard deviations widens its filter first, so that a jump
of the policy is followed within a batch or two rather than averaged away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier.columns import Columns
from frontier.config import FrontierConfig

__all__ = ["Beliefs", "logit", "sigmoid"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SURPRISE = 9.0
"""Squared standard deviations beyond which a drift filter takes a surprise for a jump."""
SMALLEST = 1e-4
"""Success stays this far from 0 and 1, so that logits are finite."""
FLATTEST = 0.05
"""Slope of the sigmoid is taken as no flatter: one surprise at an extreme task must not look like many logits."""

_TASK = {
    "cell": ("<i4", 0, ()),
    "logit": ("<f8", 0.0, ()),
    "count": ("<f8", 0.0, ()),
    "seen_version": ("<i8", 0, ()),
    "seen_drift": ("<f8", 0.0, ()),
    "tried": ("|b1", 0, ()),
}
_CELL = {
    "offset": ("<f8", 0.0, ()),
    "offset_var": ("<f8", 1.0, ()),
    "drift": ("<f8", 0.0, ()),
    "drift_var": ("<f8", 0.05, ()),
}


class Beliefs:
    """Posteriors of all tasks and drifts of all cells."""

    def __init__(self, config: FrontierConfig) -> None:
        self._config = config
        self.tasks = Columns(_TASK)
        self.cells = Columns(_CELL)
        self._level = float(logit(np.float64(config.prior_rate)))
        self._level_var = 1.0
        self._general = 0.0
        self._general_var = 0.05
        self._version = 0
        self.jump = 0.0
        """Logits by which the general drift jumped at the last `learn`; 0 without a surprise."""

    def add(self, cells: Ints, log_turns: Floats, pilot_passes: Floats, pilot_rollouts: Floats, version: int) -> None:
        """Append tasks, with priors from their cell, length and pilot.

        Args:
            cells: [K] cell of each; a number beyond the known cells makes new ones.
            log_turns: [K] natural logarithm of expected turns.
            pilot_passes: [K]
            pilot_rollouts: [K]
            version: the version now.
        """
        config = self._config
        self.cells.grow(max(0, int(cells.max(initial=-1)) + 1 - len(self.cells)))
        first = len(self.tasks)
        self.tasks.grow(cells.size)
        own = -config.length_slope * (log_turns - np.log(config.typical_turns))
        column = {name: self.tasks[name][first:] for name in _TASK}
        column["cell"][:] = cells
        column["seen_version"][:] = version
        column["seen_drift"][:] = self.drift()[cells]
        weight = config.pilot_weight * pilot_rollouts
        mean = sigmoid(own + self._level + self.cells["offset"][cells])
        strength = config.prior_strength + weight
        piloted = (config.prior_strength * mean + config.pilot_weight * pilot_passes) / strength
        known = pilot_rollouts > 0
        column["logit"][:] = np.where(known, logit(piloted), own)
        column["count"][:] = weight
        column["tried"][:] = known

    @property
    def version(self) -> int:
        """The newest version that it was told."""
        return self._version

    def drift(self) -> Floats:
        """[cells] logits by which each cell's tasks have moved since the start."""
        return np.asarray(self._general + self.cells["drift"])

    def predict(self, version: int, tasks: Ints | slice = slice(None)) -> tuple[Floats, Floats]:
        """Mean success and strength (rollouts that the belief is worth) of tasks now."""
        column = {name: self.tasks[name][tasks] for name in _TASK}
        base = self._level + self.cells["offset"]
        moved = self.drift()
        raw = column["logit"] + moved[column["cell"]] - column["seen_drift"]
        raw = raw + np.where(column["tried"], 0.0, base[column["cell"]])
        age = version - column["seen_version"]
        kept = column["count"] * np.exp(np.log(self._config.discount) * np.maximum(age, 0))
        return np.clip(sigmoid(raw), SMALLEST, 1 - SMALLEST), self._config.prior_strength + kept

    def learn(self, tasks: Ints, passes: Floats, graded: Floats, ages: Floats, trusted: NDArray[np.bool_]) -> None:
        """Take in groups, all of them at `self`'s version (see `advance`).

        Args:
            tasks: [G] indices; a task may come more than once.
            passes: [G]
            graded: [G] above 0.
            ages: [G] versions that the acting policy was behind.
            trusted: [G] whether the task's outcomes may speak for its cell.
        """
        weight = self._config.discount ** np.maximum(ages, 0.0)
        passes, graded = passes * weight, graded * weight
        self.jump = 0.0
        self._learn_shared(tasks, passes, graded, trusted)
        left = np.arange(tasks.size)
        while left.size:
            _, first = np.unique(tasks[left], return_index=True)
            turn = left[np.sort(first)]
            self._learn_own(tasks[turn], passes[turn], graded[turn])
            left = np.setdiff1d(left, turn)

    def advance(self, version: int) -> None:
        """Let time pass: drifts become less certain."""
        elapsed = max(0, version - self._version)
        self._version = max(self._version, version)
        self._general_var += elapsed * self._config.general_noise
        self.cells["drift_var"][:] += elapsed * self._config.cell_noise

    def _learn_shared(self, tasks: Ints, passes: Floats, graded: Floats, trusted: NDArray[np.bool_]) -> None:
        """Levels and offsets from untried tasks, drifts from tried ones."""
        mean, strength = self.predict(self._version, tasks)
        weight = graded * strength / (graded + strength)
        push = weight * (passes / graded - mean) * trusted
        info = weight * np.maximum(mean * (1 - mean), FLATTEST) * trusted
        cell = self.tasks["cell"][tasks]
        tried = self.tasks["tried"][tasks]
        size = len(self.cells)
        new = ~tried
        info_c = _by_cell(cell[new], info[new], size)
        push_c = _by_cell(cell[new], push[new], size)
        step, self._level_var = _shared_step(push_c, info_c, self._level_var, self.cells["offset_var"])
        self._level += step
        _cell_steps(push_c, info_c, step, self.cells["offset"], self.cells["offset_var"])
        if not self._config.drift:
            return
        info_c = _by_cell(cell[tried], info[tried], size)
        push_c = _by_cell(cell[tried], push[tried], size)
        total = info_c.sum()
        if total <= 0:
            return
        surprise = push_c.sum() / total
        spread = 1 / total + float((info_c**2 * self.cells["drift_var"]).sum()) / total**2
        if surprise**2 > SURPRISE * (self._general_var + spread):
            self._general_var = surprise**2
            self.jump = float(surprise)
        step, self._general_var = _shared_step(push_c, info_c, self._general_var, self.cells["drift_var"])
        self._general += step
        known = info_c > 0
        left = np.where(known, push_c / np.where(known, info_c, 1.0) - step, 0.0)
        variance = self.cells["drift_var"]
        jumped = known & (left**2 > SURPRISE * (variance + 1 / np.where(known, info_c, 1.0)))
        variance[jumped] = left[jumped] ** 2
        _cell_steps(push_c, info_c, step, self.cells["drift"], variance)

    def _learn_own(self, task: Ints, passes: Floats, graded: Floats) -> None:
        """Posteriors of different tasks take their own outcomes, from where the drift has carried them."""
        mean, strength = self.predict(self._version, task)
        posterior = (mean * strength + passes) / (strength + graded)
        self.tasks["logit"][task] = logit(np.clip(posterior, SMALLEST, 1 - SMALLEST))
        self.tasks["count"][task] = strength - self._config.prior_strength + graded
        self.tasks["seen_version"][task] = self._version
        self.tasks["seen_drift"][task] = self._general + self.cells["drift"][self.tasks["cell"][task]]
        self.tasks["tried"][task] = True

    def forget(self, task: int, share: float) -> None:
        """Let what is known of a task count for less."""
        self.tasks["count"][task] *= 1 - share

    def state(self) -> dict[str, Any]:
        """Everything believed, as JSON data."""
        return {
            "tasks": self.tasks.state(),
            "cells": self.cells.state(),
            "level": [self._level, self._level_var],
            "general": [self._general, self._general_var],
            "version": self._version,
            "jump": self.jump,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.tasks.restore(state["tasks"])
        self.cells.restore(state["cells"])
        self._level, self._level_var = state["level"]
        self._general, self._general_var = state["general"]
        self._version = state["version"]
        self.jump = state["jump"]


def _shared_step(push: Floats, info: Floats, variance: float, cell_variance: Floats) -> tuple[float, float]:
    """The step of what all cells share, and its variance after it. Cells move on their own, which blurs the sum."""
    total = float(info.sum())
    if total <= 0:
        return 0.0, variance
    spread = 1 / total + float((info**2 * cell_variance).sum()) / total**2
    gain = variance / (variance + spread)
    return gain * float(push.sum()) / total, (1 - gain) * variance


def _cell_steps(push: Floats, info: Floats, shared: float, value: Floats, variance: Floats) -> None:
    """Move each cell's value by what the shared step leaves unexplained."""
    known = info > 0
    gain = variance[known] * info[known] / (variance[known] * info[known] + 1)
    value[known] += gain * (push[known] / info[known] - shared)
    variance[known] *= 1 - gain


def _by_cell(cell: NDArray[Any], value: Floats, size: int) -> Floats:
    return np.bincount(cell, value, size).astype(np.float64)


def logit(p: Any) -> Any:
    """Log odds."""
    return np.log(p) - np.log1p(-p)


def sigmoid(x: Any) -> Any:
    """Inverse of `logit`."""
    return 1.0 / (1.0 + np.exp(-x))
