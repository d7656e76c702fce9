"""`frontdesk bench`: the figures in the README, measured again."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command
from cli.output import MARKS, Output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from benchmarks.record import Result

__all__ = ["register"]

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
NOT_BENCHES = {"__init__", "chaos_audit", "chaos_worker", "readme", "record"}

HOURS = {"quickstart"}
"""Benchmarks that take hours."""


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        "bench",
        panel="This installation",
        examples={
            "frontdesk bench": "which benchmarks there are",
            "frontdesk bench desktops": "run one",
            "frontdesk bench --all --fresh": "run them all, from the start",
        },
    )
    def bench(
        names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which benchmarks.")] = None,
        all: Annotated[bool, typer.Option("--all", help="Every benchmark that takes less than an hour.")] = False,
        fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what an interrupted run measured.")] = False,
        seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
        seeds: Annotated[
            int | None, typer.Option(min=1, help="Repetitions of `quickstart`.", show_default=False)
        ] = None,
        json: Json = False,
    ) -> None:
        """Measure the figures of the README again; without a name, list them.

        Writes benchmarks/results/NAME.json. Interrupt it when you like: arms that were measured are not measured again
        by the same commit.
        """
        output = Output(json=json)
        known = _known()
        if unknown := [name for name in names or [] if name not in known]:
            raise ValueError(f"no benchmark is named {unknown[0]}; there are: {', '.join(known)}")
        chosen = [name for name in known if name not in HOURS] if all else list(dict.fromkeys(names or []))
        if not chosen:
            rows = [(f"[cyan]{name}[/cyan]", about) for name, about in known.items()]
            output.result({"benchmarks": known}, table(["Name", "What it measures"], rows))
            return
        outcomes = [_run(output, name, seed=seed, seeds=seeds, fresh=fresh) for name in chosen]
        data = [{"bench": name, "result": str(path), "figures": result.figures} for name, result, path in outcomes]
        output.result({"benchmarks": data}, *[part for outcome in outcomes for part in _parts(*outcome)])


def _known() -> dict[str, str]:
    """Benchmark -> the first line of its docstring, read without importing it."""
    if not FOLDER.is_dir():
        raise ValueError("the benchmarks are part of the source checkout, and this installation has none beside it")
    files = [path for path in sorted(FOLDER.glob("*.py")) if path.stem not in NOT_BENCHES]
    return {path.stem: (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0] for path in files}


def _run(output: Output, name: str, *, seed: int, seeds: int | None, fresh: bool) -> tuple[str, Result, Path]:
    if str(FOLDER.parent) not in sys.path:  # an installation knows the packages of the checkout, not its folder
        sys.path.append(str(FOLDER.parent))
    from benchmarks.record import Bench
    from store import Home

    script = importlib.import_module(f"benchmarks.{name}")
    with output.progress(f"Measuring {name}") as progress:
        bench = Bench(
            name=name,
            home=Home.default().ensure().path,
            seed=seed,
            seeds=seeds,
            command=f"frontdesk bench {name}"
            + (f" --seed {seed}" if seed else "")
            + (f" --seeds {seeds}" if seeds else ""),
            on_arm=lambda arm, kept: progress.now(f"{arm} (measured before)" if kept else arm),
        )
        if fresh:
            bench.forget()
        result = script.run(bench)
        return name, result, bench.finish(result)


def _parts(name: str, result: Result, path: Path) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for each in result.tables:
        columns = [each.columns[0], *[f">{column}" for column in each.columns[1:]]]
        parts += [
            f"[bold]{each.title}[/bold]",
            table(columns, [[_cell(cell) for cell in row] for row in each.rows]),
            "",
        ]
    return [*parts, f"{MARKS['ok']} {name}: written to [cyan]{path}[/cyan]"]


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"
