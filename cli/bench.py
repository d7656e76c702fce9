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
NOT_BENCHES = {"__init__", "carried", "chaos_audit", "chaos_worker", "readme", "record"}

HOURS = {"quickstart"}
"""Benchmarks that take hours."""

CARRIES = {"desktops", "chaos", "typing", "conformance"}
"""Benchmarks after which desktops.json lists what others measured anew."""


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
            "frontdesk bench --carry": "take what others measured into desktops.json, and measure nothing",
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
        carry: Annotated[
            bool, typer.Option("--carry", help="Only bring what desktops.json has of other results up to date.")
        ] = False,
        json: Json = False,
    ) -> None:
        """Measure the figures of the README again; without a name, list them.

        Writes benchmarks/results/NAME.json. Interrupt it when you like: arms that were measured are not measured again
        by the same commit. desktops.json also lists what chaos, typing and conformance measured, and at which commit.
        """
        output = Output(json=json)
        known = _known()
        if unknown := [name for name in names or [] if name not in known]:
            raise ValueError(f"no benchmark is named {unknown[0]}; there are: {', '.join(known)}")
        chosen = [name for name in known if name not in HOURS] if all else list(dict.fromkeys(names or []))
        if carry:
            if chosen:
                raise ValueError("--carry measures nothing; name no benchmark with it")
            figures = _carry()
            rows = [(name, f"{value:g}") for name, value in figures.items()]
            output.result({"carried": figures}, table(["Figure", ">Measured"], rows))
            return
        if not chosen:
            rows = [(f"[cyan]{name}[/cyan]", about) for name, about in known.items()]
            output.result({"benchmarks": known}, table(["Name", "What it measures"], rows))
            return
        outcomes = [_run(output, name, seed=seed, seeds=seeds, fresh=fresh) for name in chosen]
        if not CARRIES.isdisjoint(chosen):
            try:
                _carry()
            except ValueError as error:  # what was measured stands
                output.err.print(f"{MARKS['warn']} desktops.json is not complete: {error}", highlight=False)
        data = [{"bench": name, "result": str(path), "figures": result.figures} for name, result, path in outcomes]
        output.result({"benchmarks": data}, *[part for outcome in outcomes for part in _parts(*outcome)])


def _known() -> dict[str, str]:
    """Benchmark -> the first line of its docstring, read without importing it."""
    if not FOLDER.is_dir():
        raise ValueError("the benchmarks are part of the source checkout, and this installation has none beside it")
    files = [path for path in sorted(FOLDER.glob("*.py")) if path.stem not in NOT_BENCHES]
    return {path.stem: (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0] for path in files}


def _reach_benchmarks() -> None:
    """Make the folder's modules importable: an installation knows the packages of the checkout, not its folder."""
    if str(FOLDER.parent) not in sys.path:
        sys.path.append(str(FOLDER.parent))


def _carry() -> dict[str, float]:
    _reach_benchmarks()
    from benchmarks.carried import carry

    return carry()


def _run(output: Output, name: str, *, seed: int, seeds: int | None, fresh: bool) -> tuple[str, Result, Path]:
    _reach_benchmarks()
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
