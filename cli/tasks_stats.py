"""`frontdesk tasks stats`: how attempts at the tasks ended, and the map of what is worth practising."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.command import Json, command
from cli.output import MARKS, Output, table
from cli.workspace import open_workspace

if TYPE_CHECKING:
    from frontier import FrontierSampler
    from store import Catalog

__all__ = ["register"]

Name = Annotated[str | None, typer.Option(help="Which run's sampler, where there are several.", show_default=False)]
Actor = Annotated[
    str | None,
    typer.Option(help="Draw what this actor's recorded episodes tell instead of a sampler.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the command to the `tasks` group."""

    @command(
        app,
        "stats",
        examples={
            "frontdesk tasks stats": "how attempts ended, per task and actor",
            "frontdesk tasks stats --frontier --png map.png": "the map of the newest sampler, also as a picture",
            "frontdesk tasks stats --frontier --actor qwen3": "the map of what one actor's episodes tell",
        },
    )
    def stats(
        frontier: Annotated[bool, typer.Option("--frontier", help="The map of success and uncertainty.")] = False,
        sampler: Name = None,
        actor: Actor = None,
        png: Annotated[Path | None, typer.Option(help="Write the map as a picture.", show_default=False)] = None,
        events: Annotated[int, typer.Option(min=0, help="Lines of the sampler's history to show.")] = 10,
        json: Json = False,
    ) -> None:
        """Show how attempts at the tasks ended, or the map of what is worth practising.

        The map counts tasks by the success that is believed of them and by how uncertain that is, with their
        life-cycle states: FRONTIER is practised, MONITOR is out of reach, EASY is mastered, QUARANTINE waits for its
        gates to run again, BROKEN failed them.
        """
        output = Output(json=json)
        if not frontier and (sampler or png):
            raise ValueError("--sampler and --png belong to the map; add --frontier")
        with open_workspace() as work:
            if frontier:
                _map(output, work.catalog, sampler, actor, png, events)
            else:
                _outcomes(output, work.catalog, actor)


def _outcomes(output: Output, catalog: Catalog, actor: str | None) -> None:
    names = {row.id: row.name for row in catalog.bundles()}
    counts = catalog.outcomes(actor=actor)
    rows = [
        (
            names.get(count.task_id, count.task_id[:12]),
            count.actor,
            str(count.num_pass),
            str(count.num_fail),
            str(count.num_infra_error),
        )
        for count in counts
    ]
    shown = table(["Task", "Actor", ">Passed", ">Failed", ">Infra errors"], rows)
    output.result({"outcomes": counts}, shown if rows else "No episode is recorded yet.")


def _map(
    output: Output, catalog: Catalog, name: str | None, actor: str | None, png: Path | None, num_events: int
) -> None:
    from rich.markup import escape

    from cli.frontier_map import draw_map, map_parts
    from frontier.view import frontier_map

    source, made = _sampler(catalog, name, actor)
    shown = frontier_map(made)
    history = [] if actor else catalog.sampler_events(source, limit=num_events)
    if png is not None:
        draw_map(shown, png)
    names = {row.id: row.name for row in catalog.bundles()}
    parts: list[Any] = [f"[bold]{escape(source)}[/bold], version {shown['version']}", *map_parts(shown)]
    if history:
        parts += ["", "[bold]Lately[/bold]"]
    for event in history:
        what = names.get(event.task_id, event.task_id[:12]) if event.task_id else event.kind
        moved = f" {event.before} -> {event.after}:" if event.after else ""
        parts.append(f"  [dim]{event.version}[/dim] {escape(what)}{moved} {escape(event.reason)}")
    if png is not None:
        parts.append(f"{MARKS['ok']} drawn to [cyan]{png}[/cyan]")
    events = [event.model_dump(exclude={"id", "sampler"}) for event in history]
    output.result({"source": source, "map": shown, "events": events, "png": png}, *parts)


def _sampler(catalog: Catalog, name: str | None, actor: str | None) -> tuple[str, FrontierSampler]:
    """The sampler to draw and what it is called."""
    from trainer.practice import load_sampler, sampler_of_outcomes

    if actor is not None:
        counts = catalog.outcomes(actor=actor)
        if not counts:
            raise ValueError(f"no episode of the actor {actor!r} is recorded; `frontdesk tasks stats` lists who acted")
        return f"episodes of {actor}", sampler_of_outcomes(catalog.bundles(), counts, actor)
    kept = catalog.samplers()
    if name is None and len(kept) != 1:
        what = (
            f"several samplers are kept; choose with --sampler: {', '.join(kept)}"
            if kept
            else ("no run has kept a sampler yet; train first, or draw recorded episodes with --actor NAME")
        )
        raise ValueError(what)
    chosen = name or kept[0]
    return chosen, load_sampler(catalog, chosen)[0]
