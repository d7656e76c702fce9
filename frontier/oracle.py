"""A bound for the comparison: what our way to fill a plan reaches when nothing has to be found out.

Before every plan it is told each task's true rate of passes and which checks are broken. So it explores nothing, runs
no gates and never meets a coin flip. Only the simulator can tell it; there is no such sampler in the world.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier.beliefs import SMALLEST
from frontier.config import FrontierConfig
from frontier.protocol import TaskInfo
from frontier.sampler import FrontierSampler

__all__ = ["OracleSampler"]

CERTAIN = 1e9
"""Rollouts that a known rate is worth."""


class OracleSampler(FrontierSampler):
    """`FrontierSampler` with the truth in place of its beliefs.

    Args:
        tasks: the pool of the beginning.
        seed: of the draws.
        config: hyper-parameters; it doubts nothing, whatever `quarantine` says.
    """

    def __init__(self, tasks: Iterable[TaskInfo] = (), *, seed: int, config: FrontierConfig) -> None:
        super().__init__(tasks, seed=seed, config=replace(config, quarantine=False))
        self._truth: dict[str, float] = {}

    def see(self, truth: dict[str, float]) -> None:
        """Take the true rates of passes by task; NaN where the check pays at random."""
        self._truth = truth

    def _values(
        self, mean: NDArray[np.float64], strength: NDArray[np.float64], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        rate = np.array([self._truth[name] for name in self.tasks])
        known = np.clip(np.nan_to_num(rate, nan=SMALLEST), SMALLEST, 1 - SMALLEST)
        return super()._values(known, np.full(known.size, CERTAIN), rng)

    def _visit(self, *_: Any) -> None:
        """It knows what a visit would tell."""

    def _visit_oldest(self, *_: Any) -> None:
        """Likewise."""
