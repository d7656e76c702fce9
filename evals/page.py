"""A report as one self-contained HTML page: no script, no request, light and dark.

Instructions, actions and errors come from tasks and models, so every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from evals.film import Film, FilmFrame
from evals.outcomes import OutcomeCount, OutcomeTable
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
        title=escape(report.title),
        subtitle=subtitle,
        notes=_notes(report.notes),
        outcomes=_outcomes(table),
        comparisons=_comparisons(report),
        tasks=_tasks(report),
        times=_times(report),
        films="".join(map(_film, report.films)),
    )


def _notes(notes: Sequence[str]) -> str:
    return f'<div class="notes">{"".join(f"<p>{escape(note)}</p>" for note in notes)}</div>' if notes else ""


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
                _interval(count),
                f"{count.passed} of {count.trials}",
                _bar(parts),
                str(count.infra),
            ]
        )
    head = ["actor", "rate", "95 % interval (0 to 100 %)", "passed", "pass · fail · infra", "infra errors"]
    return _table(head, rows)


def _interval(count: OutcomeCount) -> str:
    if count.rate is None:
        return ""
    low, high = count.interval.low, count.interval.high
    return (
        f'<div class="range"><i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></i>'
        f'<b style="left:{100 * count.rate:.1f}%"></b></div><span class="soft">{low:.0%} to {high:.0%}</span>'
    )


def _bar(parts: Iterable[tuple[str, float]]) -> str:
    parts = list(parts)
    total = sum(size for _, size in parts) or 1
    spans = "".join(
        f'<span class="{name}" style="width:{100 * size / total:.2f}%" title="{name} {size / total:.0%}"></span>'
        for name, size in parts
        if size
    )
    return f'<div class="bar">{spans}</div>'


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
    return f"<section><h2>Pairs of actors</h2>{_table(head, rows)}</section>"


def _tasks(report: Report) -> str:
    table = report.table
    rows = [
        [
            f'{escape(report.names[task])}<br><code class="soft">{escape(task[:12])}</code>',
            *(_pill(table.cell(task, actor)) for actor in table.actors),
        ]
        for task in table.tasks
    ]
    return _table(["task", *map(escape, table.actors)], rows)


def _pill(count: OutcomeCount) -> str:
    pills = []
    if count.trials:
        kind = "pass" if not count.failed else "mixed" if count.passed else "fail"
        pills.append(f'<span class="pill is-{kind}">{count.passed}/{count.trials}</span>')
    if count.infra:
        pills.append(f'<span class="pill is-infra">{count.infra} infra</span>')
    return " ".join(pills) or '<span class="soft">–</span>'


def _times(report: Report) -> str:
    rows = [
        [
            f"<strong>{escape(actor)}</strong>",
            str(spent.num_attempts),
            str(spent.num_turns),
            f"{spent.total_s / spent.num_attempts:.1f} s",
            _bar((phase, spent.seconds[phase]) for phase in PHASES),
        ]
        for actor, spent in report.times.items()
    ]
    legend = "".join(f'<span><i class="{phase}"></i>{phase}</span>' for phase in PHASES)
    head = ["actor", "attempts", "turns", "per attempt", "share"]
    return f'{_table(head, rows)}<div class="legend">{legend}</div>'


def _film(film: Film) -> str:
    kind = {"pass": "pass", "fail": "fail"}.get(film.outcome, "infra")
    pill = f'<span class="pill is-{kind}">{escape(film.outcome)}</span>'
    turns = "1 turn" if film.num_turns == 1 else f"{film.num_turns} turns"
    ending = f'<span class="soft">({escape(film.stop_reason)}, {turns})</span>'
    return (
        f"<details open><summary>{escape(film.actor)} {pill}</summary><p>{escape(film.instruction)} {ending}</p>"
        f'<div class="strip">{"".join(map(_figure, film.frames))}</div></details>'
    )


def _figure(frame: FilmFrame) -> str:
    did = f"<code>{escape(frame.did)}</code>" if frame.did else ""
    note = f'<span class="wrong">{escape(frame.note)}</span>' if frame.note else ""
    return (
        f'<figure style="width:{frame.width}px">'
        f'<img src="{frame.image}" width="{frame.width}" height="{frame.height}" alt="{escape(frame.title)}">'
        f'<figcaption><span class="soft">{escape(frame.title)}</span>{did}{note}</figcaption></figure>'
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{first}</tr>{body}</table></div>'
