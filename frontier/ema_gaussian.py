"""Frontier Sampling as ScaleCUA publishes it (arXiv 2607.11185, Eq. 1-2): the baseline to beat.

Eq. 1: p <- (1 - alpha) p + alpha * (passes / n) after each group. Eq. 2: w = exp(-(p - mu)^2 / (2 sigma^2)). The tasks
are ranked by w; the `pool_factor * B` first are the frontier pool, from which (1 - gamma) B groups are drawn with
probability proportional to w; gamma B groups are drawn uniformly from the tasks outside. B is the number of groups of
a plan.

Two things the paper leaves open are parameters here. It rolls every task out once before training (`initial_sweep`)
and keeps those with a rate in [p_min, p_max]; its text says [0.1, 0.9], its Table 10 [0, 1].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from frontier.buffered import BufferedSampler, GroupResult
from frontier.protocol import TaskInfo

__all__ = ["EmaGaussianConfig", "EmaGaussianSampler"]

_KIND = "ema_gaussian"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmaGaussianConfig:
    """The published rule's hyper-parameters, with the paper's values as defaults."""

    group_size: int = 8
    """n: rollouts per group."""
    alpha: float = 0.2
    """Weight of the newest group in the average."""
    mu: float = 0.5
    """The rate that it seeks."""
    sigma: float = 0.25
    """Width around it (the paper uses 0.15 on ScienceBoard)."""
    pool_factor: float = 3.0
    """Size of the frontier pool in batches."""
    gamma: float = 0.2
    """Share of a batch from outside the pool."""
    initial_sweep: bool = True
    """Try every task once before anything else."""
    p_start: float = 0.5
    """Average of a task that was never tried."""
    p_min: float = 0.0
    """Tasks whose first rate is below this are dropped."""
    p_max: float = 1.0
    """Tasks whose first rate is above this are dropped."""

    def __post_init__(self) -> None:
        if self.group_size < 1 or not 0 < self.alpha <= 1 or self.sigma <= 0 or self.pool_factor < 1:
            raise ValueError("need group_size >= 1, 0 < alpha <= 1, sigma > 0 and pool_factor >= 1")
        if not 0 <= self.gamma <= 1 or not 0 <= self.p_min <= self.p_max <= 1:
            raise ValueError("need gamma in [0, 1] and 0 <= p_min <= p_max <= 1")


class EmaGaussianSampler(BufferedSampler):
    """A `Sampler` by the published rule.

    Args:
        tasks: the pool.
        seed: of the draws.
        config: hyper-parameters.
        prefix: starts every group id.

    Raises:
        ValueError: a task is there twice.
    """

    def __init__(
        self,
        tasks: Iterable[TaskInfo] = (),
        *,
        seed: int,
        config: EmaGaussianConfig | None = None,
        prefix: str = "g",
    ) -> None:
        super().__init__(prefix=prefix)
        self._config = config or EmaGaussianConfig()
        self._seed = seed
        self._index: dict[str, int] = {}
        self._p = np.zeros(0)
        self._tried = np.zeros(0, np.int64)
        self._dropped = np.zeros(0, bool)
        self._draws = 0
        self.add(tasks)

    def _admit(self, infos: list[TaskInfo]) -> None:
        self._index |= {info.task: len(self._index) + k for k, info in enumerate(infos)}
        self._p = np.concatenate([self._p, np.full(len(infos), self._config.p_start)])
        self._tried = np.concatenate([self._tried, np.zeros(len(infos), np.int64)])
        self._dropped = np.concatenate([self._dropped, np.zeros(len(infos), bool)])

    def _leave(self, task: str) -> None:
        """Retired tasks are left out of each plan."""

    def _come_back(self, task: str) -> None:
        """What was known of it was kept."""

    def _infos_known(self) -> dict[str, TaskInfo]:
        return {task: TaskInfo(task=task) for task in self._index}

    def success(self) -> dict[str, float]:
        """The average of each task."""
        return dict(zip(self._index, self._p.tolist(), strict=True))

    def _knows(self, task: str) -> bool:
        return task in self._index

    def _digest(self, results: list[GroupResult], version: int) -> None:
        config = self._config
        for result in results:
            if not result.graded:
                continue
            k, rate = self._index[result.task], result.passes / result.graded
            if config.initial_sweep and self._tried[k] == 0:
                self._p[k] = rate
                self._dropped[k] = not config.p_min <= rate <= config.p_max
            else:
                self._p[k] = (1 - config.alpha) * self._p[k] + config.alpha * rate
            self._tried[k] += 1

    def _choose(self, budget: int, version: int) -> list[tuple[str, int]]:
        n = self._config.group_size
        batch = budget // n
        alive = ~self._dropped
        alive[[self._index[task] for task in self._retired]] = False
        alive = np.flatnonzero(alive)
        if batch == 0 or alive.size == 0:
            return []
        rng = np.random.default_rng([self._seed, self._draws])
        self._draws += 1
        chosen = self._sweep(alive, batch, rng) if self._config.initial_sweep else np.zeros(0, np.int64)
        left = np.setdiff1d(alive, chosen)
        if batch > chosen.size and left.size:
            chosen = np.concatenate([chosen, self._rule(left, batch - chosen.size, rng)])
        names = list(self._index)
        return [(names[k], n) for k in chosen.tolist()]

    def _sweep(self, alive: np.ndarray[Any, Any], batch: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Tasks that were never tried and are not in flight, in random order."""
        busy = {self._index[group.task] for group in self._open.values()}
        untried = [k for k in alive[self._tried[alive] == 0].tolist() if k not in busy]
        return rng.permutation(np.array(untried, np.int64))[:batch]

    def _rule(self, alive: np.ndarray[Any, Any], batch: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Eq. 2, the pool and gamma, on these tasks."""
        config = self._config
        weight = np.exp(-((self._p[alive] - config.mu) ** 2) / (2 * config.sigma**2))
        # Ties (all untried tasks have the same average) are broken by chance, not by name.
        ranked = np.lexsort((rng.random(alive.size), -weight))
        size = min(alive.size, round(config.pool_factor * batch))
        pool, outside = ranked[:size], ranked[size:]
        num_outside = min(outside.size, round(config.gamma * batch))
        num_pool = min(pool.size, batch - num_outside)
        share = weight[pool] + 1e-12
        drawn = rng.choice(pool, num_pool, replace=False, p=share / share.sum())
        explored = rng.choice(outside, num_outside, replace=False)
        return np.asarray(alive[np.concatenate([drawn, explored])])

    def state(self) -> dict[str, Any]:
        """Everything it knows, as JSON data."""
        return self._base_state() | {
            "kind": _KIND,
            "config": asdict(self._config),
            "seed": self._seed,
            "draws": self._draws,
            "tasks": list(self._index),
            "p": self._p.tolist(),
            "tried": self._tried.tolist(),
            "dropped": self._dropped.tolist(),
        }

    def _read(self, state: Mapping[str, Any]) -> None:
        self._draws = state["draws"]
        self._index = {task: k for k, task in enumerate(state["tasks"])}
        self._p = np.array(state["p"])
        self._tried = np.array(state["tried"], np.int64)
        self._dropped = np.array(state["dropped"], bool)
