"""The map of a sampler as plain data: for the terminal, the PNG and the viewer."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontier.lifecycle import STATES, State
from frontier.sampler import FrontierSampler

__all__ = ["UNCERTAINTY_EDGES", "frontier_map"]

SUCCESS_BINS = 10
UNCERTAINTY_EDGES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5)
"""Standard deviations of the success posterior between which tasks are counted; the last is the largest possible."""


def frontier_map(sampler: FrontierSampler) -> dict[str, Any]:
    """Everything that the map shows of the tasks in the pool, as JSON data; retired ones are left out.

    Returns:
        `version`; `states`: life-cycle state -> tasks; `grid`: [uncertainty, from certain][success, from 0] tasks;
        `cells`: per cell its tasks, states, mean success and drift in logits; `tasks`: per task its cell, state,
        success, uncertainty, groups and probability of a broken check; `held`; `refill`: a sentence or None.
    """
    here = np.flatnonzero(sampler.judging.state_of != State.RETIRED)
    mean, strength = sampler.beliefs.predict(sampler.version, here)
    deviation = np.sqrt(mean * (1 - mean) / (strength + 1))
    state = sampler.judging.state_of[here]
    cell = sampler.beliefs.tasks["cell"][here]
    groups, doubt = sampler.judging.tasks["groups"][here], sampler.judging.doubt[here]
    grid, _, _ = np.histogram2d(
        deviation, mean, bins=[np.array(UNCERTAINTY_EDGES), np.linspace(0, 1, SUCCESS_BINS + 1)]
    )
    drift = sampler.beliefs.drift()
    cells = []
    for k, name in enumerate(sampler.cell_names):
        inside = cell == k
        cells.append(
            {
                "cell": name,
                "tasks": int(inside.sum()),
                "success": float(mean[inside].mean()) if inside.any() else None,
                "drift": float(drift[k]),
                "states": _counts(state[inside]),
            }
        )
    pool = sampler.tasks
    names = [pool[k] for k in here]
    tasks = [
        {
            "task": name,
            "cell": sampler.cell_names[cell[k]],
            "state": STATES[state[k]],
            "success": float(mean[k]),
            "uncertainty": float(deviation[k]),
            "groups": int(groups[k]),
            "doubt": float(doubt[k]),
        }
        for k, name in enumerate(names)
    ]
    return {
        "version": sampler.version,
        "states": _counts(state),
        "grid": grid.astype(int).tolist(),
        "success_bins": SUCCESS_BINS,
        "uncertainty_edges": list(UNCERTAINTY_EDGES),
        "cells": cells,
        "tasks": tasks,
        "held": sampler.held(),
        "refill": sampler.refill,
    }


def _counts(state: Any) -> dict[str, int]:
    return {name: int((state == code).sum()) for code, name in enumerate(STATES) if code != State.RETIRED}
