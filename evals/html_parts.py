"""Pieces of HTML that reports share. Every text is escaped here or by the caller, as each says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from evals.film import Film, FilmFrame
from evals.outcomes import OutcomeCount

__all__ = ["film_strip", "html_table", "interval_bar", "note_box", "pill", "share_bar", "style"]


def style() -> str:
    """The style sheet of reports, light and dark."""
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    first = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{first}</tr>{body}</table></div>'


def note_box(notes: Sequence[str]) -> str:
    """Sentences that a reader must not miss; escaped here."""
    return f'<div class="notes">{"".join(f"<p>{escape(note)}</p>" for note in notes)}</div>' if notes else ""


def interval_bar(count: OutcomeCount) -> str:
    """The rate and its interval on a line from 0 to 100 %."""
    if count.rate is None:
        return ""
    low, high = count.interval.low, count.interval.high
    return (
        f'<div class="range"><i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></i>'
        f'<b style="left:{100 * count.rate:.1f}%"></b></div><span class="soft">{low:.0%} to {high:.0%}</span>'
    )


def share_bar(parts: Iterable[tuple[str, float]]) -> str:
    """A bar of parts, by the names of their colours."""
    parts = list(parts)
    total = sum(size for _, size in parts) or 1
    spans = "".join(
        f'<span class="{name}" style="width:{100 * size / total:.2f}%" title="{name} {size / total:.0%}"></span>'
        for name, size in parts
        if size
    )
    return f'<div class="bar">{spans}</div>'


def pill(count: OutcomeCount) -> str:
    """Passed and judged attempts, and infra errors beside them."""
    pills = []
    if count.trials:
        kind = "pass" if not count.failed else "mixed" if count.passed else "fail"
        pills.append(f'<span class="pill is-{kind}">{count.passed}/{count.trials}</span>')
    if count.infra:
        pills.append(f'<span class="pill is-infra">{count.infra} infra</span>')
    return " ".join(pills) or '<span class="soft">–</span>'


def film_strip(film: Film, *, title: str) -> str:
    """An attempt to look at; its texts are escaped here, the title too."""
    kind = {"pass": "pass", "fail": "fail"}.get(film.outcome, "infra")
    outcome = f'<span class="pill is-{kind}">{escape(film.outcome)}</span>'
    turns = "1 turn" if film.num_turns == 1 else f"{film.num_turns} turns"
    ending = f'<span class="soft">({escape(film.stop_reason)}, {turns})</span>'
    return (
        f"<details open><summary>{escape(title)} {outcome}</summary><p>{escape(film.instruction)} {ending}</p>"
        f'<div class="strip">{"".join(map(_figure, film.frames))}</div></details>'
    )


def _figure(frame: FilmFrame) -> str:
    did = f"<code>{escape(frame.did)}</code>" if frame.did else ""
    thought = f'<q class="soft">{escape(frame.thought)}</q>' if frame.thought else ""
    note = f'<span class="wrong">{escape(frame.note)}</span>' if frame.note else ""
    return (
        f'<figure style="width:{frame.width}px">'
        f'<img src="{frame.image}" width="{frame.width}" height="{frame.height}" alt="{escape(frame.title)}">'
        f'<figcaption><span class="soft">{escape(frame.title)}</span> {thought}{did}{note}</figcaption></figure>'
    )
