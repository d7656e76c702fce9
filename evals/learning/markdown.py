"""The report of a learning run as Markdown, with its pictures beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from evals.learning.report import LearningReport
from evals.learning.words import (
    counted,
    duration,
    evaluation_words,
    gain_words,
    headline,
    interval_words,
    p_words,
    percent,
    points,
    rate_words,
    suite_words,
    synthesis_words,
    told_words,
)
from evals.markdown_parts import film_lines, markdown_table, plain

__all__ = ["render_learning_markdown"]


def render_learning_markdown(report: LearningReport, *, pictures: Collection[str] = ()) -> str:
    """The report as Markdown.

    Args:
        pictures: names of the PNG files that lie beside it, without the ending: a chart's (`evals.learning.files`), or
            `film-1`, ... in the order of the report's films. Only these are referred to.
    """
    return "\n\n".join(part for part in _parts(report, pictures) if part) + "\n"


def _parts(report: LearningReport, pictures: Collection[str]) -> Iterable[str]:
    def picture(name: str, says: str) -> str:
        return f"![{says}]({name}.png)" if name in pictures else ""

    yield f"# {plain(report.run.title)}"
    yield f"**{plain(headline(report))}**"
    yield f"{suite_words(report)}."
    yield "\n".join(f"* {plain(note)}" for note in report.notes)
    yield "## Success while practising"
    yield picture("learning", "Success over the time of practice")
    yield _pairs(report)
    yield "## Evaluations on held-out tasks"
    yield plain(evaluation_words(report))
    yield _evaluations(report)
    for by, name in (("app", "apps"), ("skill", "skills"), ("number of skills", ""), ("template", "")):
        yield f"## By {by}"
        yield picture(name, f"Success by {by}")
        yield _groups(report, by)
    for number, each in enumerate(report.films, start=1):
        yield f"## {plain(each.title)}"
        yield picture(f"film-{number}", "Film strip")
        yield film_lines(each.film)
    yield "## Tasks made and proven"
    yield synthesis_words(report)
    yield picture("gates", "New tasks by gate")
    gates = report.run.synthesis.gates
    if gates:
        yield markdown_table(
            ["gate", "reached", "passed", "rejected", "tries that the machine failed"],
            [[each.gate, *map(str, (each.reached, each.passed, each.rejected, each.unproven))] for each in gates],
        )
    if report.run.frontier:
        yield "## The frontier when practice ended"
        yield picture("frontier", "Believed success of each task")
        states = report.run.frontier["states"]
        yield markdown_table(["state", "tasks"], [[name.lower(), str(number)] for name, number in states.items()])
    yield from _times(report, picture("time", "Shares of time"))


def _pairs(report: LearningReport) -> str:
    if not report.changes:
        return "Practice has not been evaluated."
    rows = [
        [
            f"{before} – {after}",
            str(change.pairs.num_tasks),
            counted(change.before),
            counted(change.after),
            points(change.pairs),
            f"{p_words(change.pairs.p_value)} ({change.pairs.method})",
            f"+{change.gained} / -{change.lost} {gain_words(change)}",
        ]
        for (before, after), change in zip(report.run.pairs, report.changes, strict=True)
    ]
    head = ["before – after", "tasks of both", "before", "after", "difference", "p", "tasks gained / lost"]
    return markdown_table(head, rows)


def _evaluations(report: LearningReport) -> str:
    rows = []
    for name in report.table.actors:
        count, versus, turns = report.table.total(name), report.against.get(name), report.turns.get(name)
        rows.append(
            [
                name,
                counted(count),
                rate_words(count),
                interval_words(count),
                str(count.infra),
                "" if turns is None else f"{turns:.1f}",
                "reported" if versus is None else told_words(versus),
            ]
        )
    head = ["evaluation", "passed", "rate", "95 % interval", "infra errors", "turns"]
    return markdown_table([*head, "reported minus this"], rows) if rows else ""


def _groups(report: LearningReport, by: str) -> str:
    names = report.table.actors
    rows = [
        [
            row.name,
            str(row.num_tasks),
            *(f"{counted(row.counts[name])}" for name in names),
            *([told_words(row.change.pairs)] if row.change else []),
        ]
        for row in report.groups[by]
    ]
    change = ["practice"] if report.run.pairs else []
    return markdown_table([by, "tasks", *names, *change], rows) if rows else ""


def _times(report: LearningReport, picture: str) -> Iterable[str]:
    time = report.run.time
    if time is None:
        return
    yield "## Where the time went"
    yield picture
    for title, parts in (
        ("the whole run, by the clock", time.phases),
        ("attempts of practice, added up", time.attempts),
        (f"the learner, of {duration(time.practice_s)} of practice", time.learner),
    ):
        total = sum(parts.values())
        if total:
            rows = [[name, duration(spent), percent(spent / total)] for name, spent in parts.items()]
            yield markdown_table([title, duration(total), ""], rows)
