"""The report of a learning run as one self-contained HTML page: no script, no request, light and dark.

Names, instructions, actions and notes come from tasks, models and callers, so every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from evals.html_parts import film_strip, html_table, interval_bar, note_box, pill, style
from evals.learning.canvas import Canvas
from evals.learning.charts import curve_chart, gates_chart, groups_chart, time_chart
from evals.learning.frontier_chart import frontier_chart
from evals.learning.report import LearningReport, told
from evals.learning.words import (
    MIN_FOR_PERCENT,
    counted,
    duration,
    evaluation_words,
    gain_words,
    headline,
    interval_words,
    rate_words,
    suite_words,
    synthesis_words,
    told_words,
)
from evals.outcomes import OutcomeCount

__all__ = ["render_learning_html"]

TEMPLATE = Path(__file__).with_name("page.html")


def render_learning_html(report: LearningReport) -> str:
    """The report as an HTML page."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        style=style(),
        title=escape(report.run.title),
        subtitle=escape(suite_words(report)),
        headline=escape(headline(report)),
        tiles=_tiles(report),
        notes=note_box(report.notes),
        sections="".join(_sections(report)),
    )


def _tiles(report: LearningReport) -> str:
    run = report.run
    tiles = []
    for (_, name), change in zip(run.pairs, report.changes, strict=True):
        rates = f"{_number(change.before.rate)} → {_number(change.after.rate)} %"
        tiles.append((rates, f"{name}: {counted(change.before)} → {counted(change.after)}"))
    if report.changes:
        tiles.append((f"+{report.changes[0].gained} / −{report.changes[0].lost}", gain_words(report.changes[0])))
    if run.training:
        last = run.training[-1]
        tiles.append((f"{last.episodes:,}", f"attempts of practice in {last.updates:.0f} updates"))
    if run.synthesis.gates:
        tiles.append((str(run.synthesis.gates[-1].passed), "new tasks admitted by every gate"))
    if run.time:
        tiles.append((duration(sum(run.time.phases.values())), "the whole run, by the clock"))
    cells = "".join(f'<div class="tile"><b>{escape(big)}</b><span>{escape(said)}</span></div>' for big, said in tiles)
    return f'<div class="tiles">{cells}</div>' if tiles else ""


def _number(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.0f}"


def _sections(report: LearningReport) -> Iterable[str]:
    paired = bool(report.run.pairs)
    title = "Before and after, by" if paired else "Success by"
    signs = "Rings are before practice, discs after, lines" if paired else "Lines are"
    yield _section(
        "Success while practising",
        "Points are evaluations on held-out tasks with 95 % intervals. The band is the interval of the attempts of "
        "practice; the sampler keeps choosing tasks on the edge of success, so it does not measure skill.",
        _chart(curve_chart(report), "Success over the time of practice"),
    )
    yield _section("Evaluations on held-out tasks", evaluation_words(report), _evaluations(report))
    yield _section(
        f"{title} application",
        f"{signs} 95 % intervals. Comparisons are task by task.",
        _chart(groups_chart(report, "app"), "Success by application") + _details(report, "app"),
    )
    yield _section(
        f"{title} skill",
        "A task that asks for several skills counts at each of them.",
        _chart(groups_chart(report, "skill"), "Success by skill")
        + "".join(_details(report, by) for by in ("skill", "number of skills", "template")),
    )
    yield _section(
        "What it looked like",
        "Marks show where it pointed; below each screenshot is what it did next.",
        "".join(film_strip(each.film, title=each.title) for each in report.films),
    )
    yield _section(
        "Tasks made and proven",
        "",
        _said(synthesis_words(report)) + _chart(gates_chart(report), "New tasks by gate"),
    )
    yield _section(
        "The frontier when practice ended",
        "Each dot is a training task, placed by the success that the sampler believes; a larger dot was practised "
        "more. A row is an application and a skill.",
        _chart(frontier_chart(report), "Believed success of each task"),
    )
    yield _section("Where the time went", "", _chart(time_chart(report), "Shares of time"))


def _section(title: str, said: str, body: str) -> str:
    """A part of the page; nothing where it has no body."""
    return f"<section><h2>{escape(title)}</h2>{_said(said)}{body}</section>" if body else ""


def _said(text: str) -> str:
    return f'<p class="said">{escape(text)}</p>' if text else ""


def _chart(canvas: Canvas | None, label: str) -> str:
    return "" if canvas is None else f'<div class="chart">{canvas.svg(label)}</div>'


def _evaluations(report: LearningReport) -> str:
    if report.reported is None:
        return ""
    rows = []
    for name in report.table.actors:
        count, versus = report.table.total(name), report.against.get(name)
        turns = report.turns.get(name)
        rows.append(
            [
                f"<strong>{escape(name)}</strong>",
                _rate(count),
                interval_bar(count),
                counted(count),
                str(count.infra),
                "–" if turns is None else f"{turns:.1f}",
                '<span class="soft">reported</span>'
                if versus is None
                else f'<span class="is-{told(versus)}">{escape(told_words(versus))}</span>',
            ]
        )
    head = ["evaluation", "rate", "95 % interval (0 to 100 %)", "passed", "infra errors", "turns"]
    return html_table([*head, "reported minus this"], rows)


def _rate(count: OutcomeCount) -> str:
    words = escape(rate_words(count))
    return (
        f'<span class="big">{words}</span>' if count.trials >= MIN_FOR_PERCENT else f'<span class="soft">{words}</span>'
    )


def _details(report: LearningReport, by: str) -> str:
    rows, names = report.groups[by], report.table.actors
    if not rows or not names:
        return ""
    cells: list[Sequence[str]] = [
        [
            escape(row.name),
            str(row.num_tasks),
            *(
                f'<span title="{escape(interval_words(row.counts[name]))}">{pill(row.counts[name])}</span>'
                for name in names
            ),
        ]
        for row in rows
    ]
    table = html_table([by, "tasks", *map(escape, names)], cells)
    return f"<details><summary>All evaluations by {by}</summary>{table}</details>"
