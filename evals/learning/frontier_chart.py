"""The map of the frontier: what the sampler believes of each practised task when practice ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evals.learning.canvas import Canvas
from evals.learning.charts import WIDTH
from evals.learning.report import LearningReport
from evals.learning.words import percent

__all__ = ["STATE_INKS", "frontier_chart"]

STATE_INKS = {
    "FRONTIER": "pass",
    "MONITOR": "accent",
    "EASY": "teal",
    "QUARANTINE": "amber",
    "BROKEN": "fail",
    "RETIRED": "infra",
}
STATE_WORDS = {
    "FRONTIER": "on the edge: practised",
    "MONITOR": "out of reach: looked at now and then",
    "EASY": "mastered: looked at now and then",
    "QUARANTINE": "its check is doubted",
    "BROKEN": "its check is bad",
    "RETIRED": "taken out of the pool",
}
MAX_ROWS = 40
LEFT, PLOT = 250.0, 500.0
LANES = (0.0, -5.0, 5.0)
ROW = 22.0


def frontier_chart(report: LearningReport) -> Canvas | None:
    """One dot a task, one row a cell (application and skill); larger dots were practised more."""
    shown = report.run.frontier
    if not shown or not shown["tasks"]:
        return None
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for task in shown["tasks"]:
        cells.setdefault(task["cell"], []).append(task)
    ranked = sorted(cells.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = sorted(ranked[:MAX_ROWS], key=lambda item: -_mean(item[1]))
    states = {name: number for name, number in shown["states"].items() if number}
    top = 24.0 + 18 * -(-len(states) // 2)
    left_out = len(ranked) - len(rows)
    bottom = top + ROW * len(rows)
    canvas = Canvas(width=WIDTH, height=bottom + 34 + 18 * bool(left_out))
    for number, (name, count) in enumerate(states.items()):
        x, y = 16 + 400.0 * (number % 2), 14 + 18.0 * (number // 2)
        canvas.dot(x, y, 5, STATE_INKS[name])
        canvas.text(x + 12, y, f"{name.lower()} {count}", size=11.5, bold=True)
        canvas.text(x + 112, y, STATE_WORDS[name], ink="soft", size=11.5)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + PLOT * share
        canvas.line([(x, top), (x, bottom)], "line")
        canvas.text(x, bottom + 14, percent(share), ink="soft", size=11, anchor="middle")
    canvas.text(LEFT - 28, bottom + 14, "believed success", ink="soft", size=11, anchor="end")
    for number, (name, tasks) in enumerate(rows):
        y = top + ROW * (number + 0.5)
        canvas.line([(LEFT, y), (LEFT + PLOT, y)], "track")
        canvas.text(8, y, name or "none", size=12)
        canvas.text(LEFT + PLOT + 16, y, f"{len(tasks)} task{'s' * (len(tasks) != 1)}", ink="soft", size=11.5)
        _dots(canvas, tasks, y)
    if left_out:
        canvas.text(8, bottom + 36, f"and {left_out} cells with fewer tasks", ink="soft", size=11)
    return canvas


def _dots(canvas: Canvas, tasks: Sequence[Mapping[str, Any]], y: float) -> None:
    """Tasks of a row; those that would lie on one another are moved apart up and down."""
    ends = [-1.0] * len(LANES)
    for task in sorted(tasks, key=lambda task: task["success"]):
        x, radius = LEFT + PLOT * task["success"], min(7.0, 3.0 + 0.8 * task["groups"] ** 0.5)
        lane = next((k for k, end in enumerate(ends) if x - radius > end), ends.index(min(ends)))
        ends[lane] = x + radius
        title = f"{task['state'].lower()}, believed {percent(task['success'])}, {task['groups']} groups practised"
        canvas.dot(x, y + LANES[lane], radius, STATE_INKS[task["state"]], opacity=0.75, title=title)


def _mean(tasks: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(task["success"] for task in tasks) / len(tasks))
