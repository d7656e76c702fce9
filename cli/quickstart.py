"""`frontdesk quickstart`: everything once, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command
from cli.doctor import show_findings
from cli.errors import FAILED
from cli.hubs import Backend, BackendOption, lender
from cli.learn import learn
from cli.output import MARKS, Output, table
from cli.workspace import OUTCOME_MARKS, Workspace, open_workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cli.progress import Progress
    from evals.outcomes import OutcomeCount
    from evals.quickstart import QuickstartTask
    from evals.report import Report
    from evals.rollouts import Rollout
    from store import Trajectory
    from store.tables import RunRow
    from trainer.quickstart_plan import QuickstartPlan

__all__ = ["register"]

SHOWN_ACTORS = {
    "oracle": "is the task's own solution",
    "noop": "says done at once",
    "always-infeasible": "says it cannot be done",
    "random": "clicks and types at random",
}


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(
        app,
        "quickstart",
        panel="Start here",
        examples={
            "frontdesk quickstart": "run it, or go on with one that was interrupted",
            "frontdesk quickstart --check": "only see whether this machine's outcomes can be trusted",
            "frontdesk quickstart --plan plan.toml": "the same loop with settings of your own",
            "frontdesk quickstart --fresh": "start over",
        },
    )(quickstart)


def quickstart(
    check: Annotated[bool, typer.Option("--check", help="Only attempt the tasks whose outcomes are known.")] = False,
    plan: Annotated[
        Path | None, typer.Option(help="What to do instead, TOML; see docs/training.md.", show_default=False)
    ] = None,
    rollouts: Annotated[int, typer.Option(min=1, help="Attempts in the check of each actor at each task.")] = 1,
    desktops: Annotated[
        int | None, typer.Option(min=1, help="Desktops at once; four for each core unless given.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over, whatever was finished before.")] = False,
    backend: BackendOption = "local",
    json: Json = False,
) -> None:
    """Run everything once on this machine, and write a report.

    First a check: tasks that come with Frontdesk are attempted by their own solution, by an actor that does nothing, by
    one that calls everything infeasible, and by one that acts at random, to see that outcomes can be trusted here. Then
    the whole loop, small: tasks are made and proven, a small policy learns from demonstrations, practises, and is
    evaluated on tasks that it never practised. Interrupt it when you like: the same command goes on where it was, and
    once it is finished prints its report again. Exit code 1 if the check fails, or the machine.
    """
    import os

    from cli.image import require_image
    from evals.quickstart import QuickstartTask, problems, start_run
    from sandbox.doctor import examine, usable
    from store import Home

    output = Output(json=json)
    begun = time.monotonic()
    chosen = None if check else _plan(plan, seed=seed)
    findings = examine(Home.default().path)
    if not usable(findings):
        show_findings(output, findings)
        raise typer.Exit(FAILED)
    at_once = desktops or 4 * len(os.sched_getaffinity(0))
    with open_workspace() as work:
        found = work.shipped()
        tasks = [QuickstartTask(bundle=task.bundle, assets=task.assets) for task in found]
        digests = {require_image(output, work.home, task.bundle.task.desktop.profile, backend).digest for task in found}
        for task in found:
            work.keep(task)
        run = start_run(
            work.catalog,
            tasks,
            image_digest=" ".join(sorted(digests)),
            num_rollouts=rollouts,
            seed=seed,
            fresh=fresh,
        )
        again = run.status == "finished"
        trajectories = _attempt(
            work, output, run, tasks, rollouts=rollouts, seed=seed, at_once=at_once, backend=backend
        )
        report, folder = _report(work, run, tasks, trajectories)
        wrong = problems(tasks, trajectories)
        data: dict[str, object] = {
            "run": run.id,
            "problems": wrong,
            "report": folder,
            "outcomes": [
                {"task": report.names[task], "actor": actor, "count": count}
                for (task, actor), count in report.table.cells.items()
            ],
        }
        parts = _parts(report, folder, wrong, again=again)
        if chosen is not None and not wrong:
            output.note(*parts[:-2])
            learned, parts = learn(output, work, chosen, desktops=at_once, backend=backend, fresh=fresh)
            data |= learned
    output.result({**data, "seconds": round(time.monotonic() - begun, 1)}, *parts)
    if wrong:
        raise typer.Exit(FAILED)


def _plan(file: Path | None, *, seed: int) -> QuickstartPlan:
    from agent.config import load_toml
    from trainer.quickstart_plan import QuickstartPlan, default_plan

    return default_plan(seed) if file is None else load_toml(QuickstartPlan, file)


def _attempt(
    work: Workspace,
    output: Output,
    run: RunRow,
    tasks: list[QuickstartTask],
    *,
    rollouts: int,
    seed: int,
    at_once: int,
    backend: Backend,
) -> list[Trajectory]:
    from evals.quickstart import finish_run, plan_rollouts

    plan = plan_rollouts(run.id, tasks, num_rollouts=rollouts, seed=seed)
    names = {task.bundle.id: task.bundle.task.name for task in tasks}
    with output.progress("Attempting the tasks", total=len(plan)) as progress:
        trajectories = asyncio.run(_run(work, plan, at_once, progress, names, backend))
    finish_run(work.catalog, run)
    return trajectories


async def _run(
    work: Workspace,
    plan: list[Rollout],
    at_once: int,
    progress: Progress,
    names: dict[str, str],
    backend: Backend,
) -> list[Trajectory]:
    from evals.rollouts import run_rollouts

    width = max(map(len, names.values()))

    def tell(rollout: Rollout, trajectory: Trajectory, kept: bool) -> None:
        if kept:
            progress.finished()
            return
        mark = MARKS["warn"] if trajectory.outcome == "infra_error" else MARKS["none"]
        mark = MARKS[OUTCOME_MARKS[trajectory.outcome]] if trajectory.actor == "oracle" else mark
        took = f"[dim]{len(trajectory.turns)} turn{'s' * (len(trajectory.turns) != 1)}[/dim]"
        task = names[trajectory.task_id]
        progress.finished(f"{mark} {task:<{width}}  {trajectory.actor:<17}  {trajectory.outcome:<11}  {took}")

    async with lender(work.home, desktops=at_once, backend=backend) as hub:
        return await run_rollouts(plan, hub, work.trajectories, work.blobs, limit=at_once, on_end=tell)


def _report(
    work: Workspace, run: RunRow, tasks: list[QuickstartTask], trajectories: list[Trajectory]
) -> tuple[Report, Path]:
    from evals.markdown import render_markdown
    from evals.page import render_html
    from evals.report import build_report

    names = {task.bundle.id: task.bundle.task.name for task in tasks}
    report = build_report(trajectories, title=f"Quickstart {run.id}", blobs=work.blobs, names=names)
    folder = _new_folder(work.home.reports / time.strftime("%Y-%m-%d-%H%M%S"))
    (folder / "report.md").write_text(render_markdown(report), encoding="utf-8")
    (folder / "report.html").write_text(render_html(report), encoding="utf-8")
    return report, folder


def _new_folder(wanted: Path) -> Path:
    """Make a folder of this name, or with a number after it where two reports are of the same second."""
    for number in itertools.count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("numbers do not end")


def _parts(report: Report, folder: Path, wrong: list[str], *, again: bool) -> list[RenderableType]:
    from rich.markup import escape

    actors = report.table.actors
    totals = [report.table.total(actor) for actor in actors]
    rows = [
        [report.names[task], *(_cell(report.table.cell(task, actor)) for actor in actors)]
        for task in report.table.tasks
    ]
    rows.append(["[bold]all[/bold]", *(f"[bold]{_cell(total)}[/bold]" for total in totals)])
    intervals = [f"{total.interval.low:.2f}–{total.interval.high:.2f}" if total.trials else "" for total in totals]
    rows.append(["[dim]95 % interval[/dim]", *(f"[dim]{interval}[/dim]" for interval in intervals)])
    legend = "; ".join(f"{actor} {SHOWN_ACTORS[actor]}" for actor in actors)
    good = (
        f"{MARKS['ok']} [green]Outcomes of this machine can be trusted:[/green] solutions pass, doing nothing does not."
    )
    before = "[dim]These attempts were finished before; --fresh makes new ones.[/dim]"
    bad = f"{MARKS['bad']} [red]Outcomes of this machine cannot be trusted:[/red]"
    return [
        "",
        table(["Passed", *[f">{actor}" for actor in actors]], rows),
        "",
        f"[dim]{legend}[/dim]",
        "",
        *([before] if again else []),
        *([bad, *[f"  {escape(line)}" for line in wrong]] if wrong else [good]),
        f"  report   [cyan]{folder / 'report.html'}[/cyan]",
        "  look     [cyan]frontdesk episodes list[/cyan], then [cyan]frontdesk episodes show ID --frames DIR[/cyan]",
        "  try      [cyan]frontdesk desk open[/cyan], then [cyan]frontdesk desk do 'click 100 200'[/cyan]",
    ]


def _cell(count: OutcomeCount) -> str:
    infra = f" [yellow](+{count.infra} infra)[/yellow]" if count.infra else ""
    return f"{count.passed}/{count.trials}{infra}"
