"""The charts of a learning run: how success grew, what changed for which tasks, where tasks and time went.

Each is a function of a report that returns a drawing, or None where there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evals.learning.canvas import Canvas
from evals.learning.report import LearningReport, told
from evals.learning.run import CurvePoint
from evals.learning.words import GATES, counted, duration, percent, told_words
from evals.outcomes import OutcomeCount
from evals.stats import wilson_interval

__all__ = ["CHARTS", "curve_chart", "gates_chart", "groups_chart", "time_chart"]

WIDTH = 840.0
BEFORE, AFTER = 555.0, 618.0
"""Columns of counts."""
SERIES = ("accent", "amber", "violet", "teal", "fail")
SLICES = ("accent", "teal", "amber", "violet", "pass", "infra", "fail")
TICKS = tuple(digit * 10**zeros for zeros in range(12) for digit in (1, 2, 5))
"""Steps of an axis."""
TOLD_INK = {"up": "pass", "down": "fail", "open": "accent", "few": "soft"}


def curve_chart(report: LearningReport) -> Canvas | None:
    """Success over the time of practice: attempts of practice in a band, evaluations as points with intervals."""
    lines, training = _lines(report), report.run.training
    if not training and not lines:
        return None
    end_s = max([point.seconds for points in (training, *lines.values()) for point in points] + [1.0])
    left, right, top, bottom = 52.0, WIDTH - 24, 44.0 + 18 * ((len(lines) + bool(training) - 1) // 2), 0.0
    bottom = top + 240
    canvas = Canvas(width=WIDTH, height=bottom + 48)

    def x(seconds: float) -> float:
        return left + 14 + (right - left - 28) * seconds / end_s

    def y(rate: float) -> float:
        return bottom - (bottom - top) * rate

    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        canvas.line([(left, y(share)), (right, y(share))], "line")
        canvas.text(left - 8, y(share), percent(share), ink="soft", size=11, anchor="end")
    unit, name = (60.0, "minutes") if end_s > 180 else (1.0, "seconds")
    step = next(step for step in TICKS if end_s / unit / step <= 8)
    for tick in range(int(end_s / unit / step) + 1):
        canvas.text(x(tick * step * unit), bottom + 14, str(tick * step), ink="soft", size=11, anchor="middle")
    done = _done(report)
    canvas.text((left + right) / 2, bottom + 34, f"{name} of practice{done}", ink="soft", size=11.5, anchor="middle")
    keys = [("infra", "attempts of practice, at tasks that the sampler chose")] if training else []
    if training:
        intervals = [wilson_interval(point.passed, point.trials) for point in training]
        upper = [(x(point.seconds), y(each.high)) for point, each in zip(training, intervals, strict=True)]
        lower = [(x(point.seconds), y(each.low)) for point, each in zip(training, intervals, strict=True)]
        canvas.area([*upper, *reversed(lower)], "infra", opacity=0.28)
        canvas.line([(x(point.seconds), y(_rate(point))) for point in training], "infra", width=2)
    for number, (label, points) in enumerate(lines.items()):
        ink, shift = SERIES[number % len(SERIES)], 7.0 * number - 3.5 * (len(lines) - 1)
        keys.append((ink, label))
        canvas.line([(x(point.seconds) + shift, y(_rate(point))) for point in points], ink, width=2)
        for point in points:
            at, interval = x(point.seconds) + shift, wilson_interval(point.passed, point.trials)
            for edge in (interval.low, interval.high):
                canvas.line([(at - 4, y(edge)), (at + 4, y(edge))], ink, width=1.5)
            canvas.line([(at, y(interval.low)), (at, y(interval.high))], ink, width=1.5)
            canvas.dot(at, y(_rate(point)), 5, ink, title=f"{label}: {percent(_rate(point))} ({counted(point)})")
    for number, (ink, label) in enumerate(keys):
        column, row = number % 2, number // 2
        canvas.dot(left + 8 + 390 * column, 16 + 18 * row, 5, ink)
        canvas.text(left + 20 + 390 * column, 16 + 18 * row, _cut(label, 62), size=11.5)
    return canvas


def groups_chart(report: LearningReport, by: str) -> Canvas | None:
    """Success of each group of tasks before and after practice, with intervals, and what the comparison tells."""
    rows, reported = report.groups[by], report.reported
    if not rows or reported is None:
        return None
    left, plot, height = 200.0, 290.0, 28.0
    top = 30.0
    canvas = Canvas(width=WIDTH, height=top + height * len(rows) + 8)
    paired = bool(report.run.pairs)
    for share in (0.0, 0.5, 1.0):
        at = left + plot * share
        canvas.line([(at, top), (at, top + height * len(rows))], "line")
        canvas.text(at, top - 12, percent(share), ink="soft", size=11, anchor="middle")
    heads = [(BEFORE, "before"), (AFTER, "after")] if paired else [(AFTER, "passed")]
    for at, head in heads:
        canvas.text(at, top - 12, head, ink="soft", size=11, anchor="middle")
    canvas.text(8, top - 12, by, ink="soft", size=11)
    for number, row in enumerate(rows):
        middle = top + height * (number + 0.5)
        canvas.text(8, middle, _cut(row.name, 30), size=12)
        if row.change is None:
            _range(canvas, row.counts[reported], left, plot, middle, "accent", hollow=False)
            canvas.text(AFTER, middle, counted(row.counts[reported]), size=12, anchor="middle")
            continue
        ink = TOLD_INK[told(row.change.pairs)]
        _range(canvas, row.change.before, left, plot, middle - 5, "infra", hollow=True)
        _range(canvas, row.change.after, left, plot, middle + 5, ink, hollow=False)
        canvas.text(BEFORE, middle, counted(row.change.before), size=12, anchor="middle")
        canvas.text(AFTER, middle, counted(row.change.after), size=12, anchor="middle", bold=True)
        canvas.text(
            AFTER + 42, middle, told_words(row.change.pairs), ink=ink if ink in ("pass", "fail") else "soft", size=11.5
        )
    return canvas


def gates_chart(report: LearningReport) -> Canvas | None:
    """How many new tasks each gate let through."""
    gates = report.run.synthesis.gates
    if not gates or not gates[0].reached:
        return None
    left, plot, height, top = 320.0, 380.0, 28.0, 8.0
    canvas = Canvas(width=WIDTH, height=top * 2 + height * len(gates))
    scale = plot / gates[0].reached
    for number, gate in enumerate(gates):
        middle = top + height * (number + 0.5)
        canvas.text(8, middle, _cut(gate.gate, 10), size=12, bold=True)
        canvas.text(80, middle, GATES.get(gate.gate, ""), ink="soft", size=12)
        canvas.bar(left, middle - 8, plot, 16, "track")
        canvas.bar(left, middle - 8, scale * gate.passed, 16, "pass")
        canvas.bar(left + scale * gate.passed, middle - 8, scale * gate.rejected, 16, "fail")
        canvas.text(left + plot + 12, middle, f"{gate.passed} of {gate.reached}", size=12)
    return canvas


def time_chart(report: LearningReport) -> Canvas | None:
    """Where the time of the run, of practice's attempts and of the learner went."""
    time = report.run.time
    if time is None:
        return None
    idle = max(0.0, time.practice_s - sum(time.learner.values()))
    bars = [
        (f"The whole run: {duration(sum(time.phases.values()))} by the clock", time.phases),
        (
            f"Attempts of practice, which ran at once: {duration(sum(time.attempts.values()))} added up",
            time.attempts,
        ),
        (
            f"Practice: {duration(time.practice_s)} by the clock",
            {**time.learner, "the learner waits for attempts": idle} if time.learner else {},
        ),
    ]
    shown = [(title, parts) for title, parts in bars if sum(parts.values()) > 0]
    if not shown:
        return None
    heights = [64.0 + 20 * -(-len(parts) // 3) for _, parts in shown]
    canvas, top = Canvas(width=WIDTH, height=sum(heights)), 0.0
    for (title, parts), height in zip(shown, heights, strict=True):
        _stack(canvas, title, parts, top)
        top += height
    return canvas


CHARTS: Mapping[str, Callable[[LearningReport], Canvas | None]] = {
    "learning": curve_chart,
    "apps": lambda report: groups_chart(report, "app"),
    "skills": lambda report: groups_chart(report, "skill"),
    "gates": gates_chart,
    "time": time_chart,
}
"""By the name of the file that holds its picture."""


def _lines(report: LearningReport) -> Mapping[str, Sequence[CurvePoint]]:
    """Evaluations at times of practice, by label; those without a judged attempt are left out."""
    run = report.run
    if run.held_out is not None:
        given = {label: [point for point in points if point.trials] for label, points in run.held_out.items()}
        return {label: points for label, points in given.items() if points}
    end = run.training[-1] if run.training else None
    end_s = run.time.practice_s if run.time else end.seconds if end else 1.0
    lines = {}
    for (before, after), change in zip(run.pairs, report.changes, strict=True):
        if change.before.trials and change.after.trials:
            lines[f"{before} – {after}"] = [
                CurvePoint(updates=0, seconds=0, episodes=0, passed=change.before.passed, trials=change.before.trials),
                CurvePoint(
                    updates=end.updates if end else 0,
                    seconds=end_s,
                    episodes=end.episodes if end else 0,
                    passed=change.after.passed,
                    trials=change.after.trials,
                ),
            ]
    return lines


def _done(report: LearningReport) -> str:
    training = report.run.training
    if not training:
        return ""
    return f" ({training[-1].updates:.0f} updates, {training[-1].episodes:,} attempts)"


def _rate(point: CurvePoint) -> float:
    return point.passed / point.trials


def _range(canvas: Canvas, count: OutcomeCount, left: float, plot: float, y: float, ink: str, *, hollow: bool) -> None:
    if count.rate is None:
        return
    interval = count.interval
    canvas.line([(left + plot * interval.low, y), (left + plot * interval.high, y)], ink, width=2)
    canvas.dot(left + plot * count.rate, y, 4.5, ink, hollow=hollow, title=counted(count))


def _stack(canvas: Canvas, title: str, parts: Mapping[str, float], top: float) -> None:
    total, at = sum(parts.values()), 8.0
    canvas.text(8, top + 12, title, size=12.5, bold=True)
    for number, (name, seconds) in enumerate(parts.items()):
        width = (WIDTH - 16) * seconds / total
        ink = SLICES[number % len(SLICES)]
        canvas.bar(at, top + 26, width, 14, ink)
        at += width
        column, row = number % 3, number // 3
        canvas.bar(8 + 276 * column, top + 50 + 20 * row, 10, 10, ink)
        words = f"{name}  {duration(seconds)} ({percent(seconds / total)})"
        canvas.text(24 + 276 * column, top + 55 + 20 * row, words, ink="soft", size=11.5)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
