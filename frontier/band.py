"""Band filtering: uniform over the tasks whose last estimate lies inside a band, the rest set aside for a while.

The filter of DAPO (Yu et al. 2025, "dynamic sampling") drops groups that all passed or all failed, because their
advantages are 0. With real desktops a dropped group has been paid for, so the filter works ahead: a task whose last
group lay outside the band is left alone for `cooldown` versions. Tasks without an estimate come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from frontier.buffered import BufferedSampler, GroupResult
from frontier.protocol import TaskInfo

__all__ = ["BandSampler"]

_KIND = "band"
_NEVER = -1


class BandSampler(BufferedSampler):
    """A `Sampler` that avoids tasks which were lately all passed or all failed.

    Args:
        tasks: the pool.
        seed: of the draws.
        group_size: rollouts per group.
        low: a group whose pass rate is at or below this is outside the band.
        high: at or above this likewise.
        cooldown: versions for which a task outside is left alone.
        prefix: starts every group id.

    Raises:
        ValueError: a task is there twice, or a parameter is out of range.
    """

    def __init__(
        self,
        tasks: Iterable[TaskInfo] = (),
        *,
        seed: int,
        group_size: int = 8,
        low: float = 0.0,
        high: float = 1.0,
        cooldown: int = 20,
        prefix: str = "g",
    ) -> None:
        super().__init__(prefix=prefix)
        if group_size < 1 or not 0 <= low < high <= 1 or cooldown < 0:
            raise ValueError("need group_size >= 1, 0 <= low < high <= 1 and cooldown >= 0")
        self._config: dict[str, float] = {
            "seed": seed,
            "group_size": group_size,
            "low": low,
            "high": high,
            "cooldown": cooldown,
        }
        self._index: dict[str, int] = {}
        self._out_until = np.zeros(0, np.int64)
        self._groups = np.zeros(0, np.int64)
        self._draws = 0
        self.add(tasks)

    def _admit(self, infos: list[TaskInfo]) -> None:
        self._index |= {info.task: len(self._index) + k for k, info in enumerate(infos)}
        self._out_until = np.concatenate([self._out_until, np.full(len(infos), _NEVER)])
        self._groups = np.concatenate([self._groups, np.zeros(len(infos), np.int64)])

    def _leave(self, task: str) -> None:
        """Retired tasks are left out of each plan."""

    def _come_back(self, task: str) -> None:
        """What was known of it was kept."""

    def _infos_known(self) -> dict[str, TaskInfo]:
        return {task: TaskInfo(task=task) for task in self._index}

    def _knows(self, task: str) -> bool:
        return task in self._index

    def _digest(self, results: list[GroupResult], version: int) -> None:
        for result in results:
            if result.graded:
                rate = result.passes / result.graded
                outside = rate <= self._config["low"] or rate >= self._config["high"]
                until = version + int(self._config["cooldown"]) if outside else _NEVER
                self._out_until[self._index[result.task]] = until

    def _choose(self, budget: int, version: int) -> list[tuple[str, int]]:
        n = int(self._config["group_size"])
        wanted = min(budget // n, len(self._index) - len(self._retired))
        if wanted == 0:
            return []
        rng = np.random.default_rng([int(self._config["seed"]), self._draws])
        self._draws += 1
        aside = self._out_until > self._version
        busy = np.zeros(len(self._index), bool)
        busy[[self._index[group.task] for group in self._open.values()]] = True
        gone = np.zeros(len(self._index), bool)
        gone[[self._index[task] for task in self._retired]] = True
        # Retired ones last, beyond `wanted`; inside before aside, idle before busy, untried before tried; then chance.
        order = np.lexsort((rng.random(len(self._index)), self._groups > 0, busy, aside, gone))[:wanted]
        self._groups[order] += 1
        names = list(self._index)
        return [(names[k], n) for k in order.tolist()]

    def state(self) -> dict[str, Any]:
        """Everything it knows, as JSON data."""
        return self._base_state() | {
            "kind": _KIND,
            "config": dict(self._config),
            "draws": self._draws,
            "tasks": list(self._index),
            "out_until": self._out_until.tolist(),
            "groups": self._groups.tolist(),
        }

    def _read(self, state: Mapping[str, Any]) -> None:
        self._draws = state["draws"]
        self._index = {task: k for k, task in enumerate(state["tasks"])}
        self._out_until = np.array(state["out_until"], np.int64)
        self._groups = np.array(state["groups"], np.int64)
