"""`frontdesk gc`: what is stored, and what can go."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli.command import Json, command
from cli.output import MARKS, Output, size, table
from cli.workspace import open_workspace

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        "gc",
        panel="This installation",
        examples={
            "frontdesk gc": "say what is stored, and what of it can go",
            "frontdesk gc --apply": "let it go",
        },
    )
    def gc(
        apply: Annotated[bool, typer.Option("--apply", help="Remove what can go.")] = False,
        json: Json = False,
    ) -> None:
        """Say what is stored and what can go; with --apply, remove that.

        Episodes, proofs, runs and reports always stay. What goes is what nothing refers to any more: screenshots
        older than a day without an episode, images of earlier definitions, downloads of image builds, remains of
        killed processes.
        """
        from evals.storage import collect, survey

        output = Output(json=json)
        with open_workspace() as work:
            done = []
            if apply:
                with output.progress("Removing"):
                    done = asyncio.run(collect(work.home, work.blobs, work.catalog, work.trajectories))
            holdings = survey(work.home, work.blobs, work.catalog, work.trajectories)
        rows = [
            (
                holding.what,
                str(holding.num),
                size(holding.size_bytes),
                f"[yellow]{size(holding.free_bytes)}[/yellow]" if holding.num_free else "",
                f"[dim]{holding.where}[/dim]",
            )
            for holding in holdings
        ]
        free = sum(holding.free_bytes for holding in holdings)
        hint = f"{size(free)} can go: [cyan]frontdesk gc --apply[/cyan]" if free else ""
        output.result(
            {"done": done, "holdings": holdings, "free_bytes": free},
            *[f"{MARKS['ok']} {line}" for line in done],
            table(["What", ">Number", ">Size", ">Can go", "Where"], rows),
            *([hint] if hint else []),
        )
