"""A report as one self-contained HTML page: no script, no request, light and dark.

Instructions, actions and errors come from tasks and models, so every text is escaped.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template

from evals.html_parts import film_strip, html_table, interval_bar, note_box, pill, share_bar, style
from evals.outcomes import OutcomeTable
from evals.report import PHASES, Report

__all__ = ["render_html"]

TEMPLATE = Path(__file__).with_name("page.html")


def render_html(report: Report) -> str:
    """The report as an HTML page."""
    table = report.table
    subtitle = (
        f"{len(table.tasks)} tasks · set <code>{table.task_set_hash[:12]}</code> · "
        f"actors {escape(', '.join(table.actors))}"
    )
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        style=style(),
        title=escape(report.title),
        subtitle=subtitle,
        notes=note_box(report.notes),
        outcomes=_outcomes(table),
        comparisons=_comparisons(report),
        tasks=_tasks(report),
        times=_times(report),
        films="".join(film_strip(film, title=film.actor) for film in report.films),
    )


def _outcomes(table: OutcomeTable) -> str:
    rows = []
    for actor in table.actors:
        count = table.total(actor)
        rate = "–" if count.rate is None else f"{count.rate:.0%}"
        parts = (("pass", count.passed), ("fail", count.failed), ("infra", count.infra))
        rows.append(
            [
                f"<strong>{escape(actor)}</strong>",
                f'<span class="big">{rate}</span>',
                interval_bar(count),
                f"{count.passed} of {count.trials}",
                share_bar(parts),
                str(count.infra),
            ]
        )
    head = ["actor", "rate", "95 % interval (0 to 100 %)", "passed", "pass · fail · infra", "infra errors"]
    return html_table(head, rows)


def _comparisons(report: Report) -> str:
    if not report.comparisons:
        return ""
    head = ["first", "second", "tasks", "difference", "p", "test"]
    rows = [
        [
            escape(pair.first),
            escape(pair.second),
            str(pair.num_tasks),
            f"{pair.difference:+.2f}",
            f"{pair.p_value:.3g}",
            pair.method,
        ]
        for pair in report.comparisons
    ]
    return f"<section><h2>Pairs of actors</h2>{html_table(head, rows)}</section>"


def _tasks(report: Report) -> str:
    table = report.table
    rows = [
        [
            f'{escape(report.names[task])}<br><code class="soft">{escape(task[:12])}</code>',
            *(pill(table.cell(task, actor)) for actor in table.actors),
        ]
        for task in table.tasks
    ]
    return html_table(["task", *map(escape, table.actors)], rows)


def _times(report: Report) -> str:
    rows = [
        [
            f"<strong>{escape(actor)}</strong>",
            str(spent.num_attempts),
            str(spent.num_turns),
            f"{spent.total_s / spent.num_attempts:.1f} s",
            share_bar((phase, spent.seconds[phase]) for phase in PHASES),
        ]
        for actor, spent in report.times.items()
    ]
    legend = "".join(f'<span><i class="{phase}"></i>{phase}</span>' for phase in PHASES)
    head = ["actor", "attempts", "turns", "per attempt", "share"]
    return f'{html_table(head, rows)}<div class="legend">{legend}</div>'
