"""A report as Markdown, for terminals, reviews and commits."""

from __future__ import annotations

from evals.markdown_parts import film_lines, markdown_table, plain, short
from evals.outcomes import OutcomeCount
from evals.report import PHASES, Report

__all__ = ["render_markdown"]


def render_markdown(report: Report) -> str:
    """The report as Markdown; screenshots are left to the HTML page."""
    table = report.table
    parts = [f"# {plain(report.title)}"]
    parts.append(f"{len(table.tasks)} tasks (set `{table.task_set_hash[:12]}`), {len(table.actors)} actors.")
    parts += [f"> {note}" for note in report.notes]
    parts.append("## Outcomes")
    parts.append(
        markdown_table(
            ["actor", "passed", "rate", "95 % interval", "infra errors"],
            [[actor, *_rate_cells(table.total(actor))] for actor in table.actors],
        )
    )
    if report.comparisons:
        parts.append("## Pairs of actors")
        parts.append(
            markdown_table(
                ["first", "second", "tasks", "difference", "p", "test"],
                [
                    [
                        pair.first,
                        pair.second,
                        str(pair.num_tasks),
                        f"{pair.difference:+.2f}",
                        f"{pair.p_value:.3g}",
                        pair.method,
                    ]
                    for pair in report.comparisons
                ],
            )
        )
    parts.append("## Tasks")
    parts.append(
        markdown_table(
            ["task", *table.actors],
            [
                [short(report.names[task]), *(_cell(table.cell(task, actor)) for actor in table.actors)]
                for task in table.tasks
            ],
        )
    )
    parts.append("## Where the time went")
    parts.append(
        markdown_table(
            ["actor", "attempts", "turns", "seconds per attempt", *PHASES],
            [
                [
                    actor,
                    str(spent.num_attempts),
                    str(spent.num_turns),
                    f"{spent.total_s / spent.num_attempts:.1f}",
                    *(f"{spent.seconds[phase] / (spent.total_s or 1):.0%}" for phase in PHASES),
                ]
                for actor, spent in report.times.items()
            ],
        )
    )
    for film in report.films:
        parts.append(f"## An attempt of {plain(film.actor)}")
        parts.append(film_lines(film))
    return "\n\n".join(part for part in parts if part) + "\n"


def _rate_cells(count: OutcomeCount) -> list[str]:
    if count.rate is None:
        return ["0/0", "", "", str(count.infra)]
    interval = count.interval
    return [
        f"{count.passed}/{count.trials}",
        f"{count.rate:.2f}",
        f"{interval.low:.2f} to {interval.high:.2f}",
        str(count.infra),
    ]


def _cell(count: OutcomeCount) -> str:
    judged = f"{count.passed}/{count.trials}" if count.trials else ""
    infra = f"({count.infra} infra)" if count.infra else ""
    return f"{judged} {infra}".strip()
