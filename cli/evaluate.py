"""`frontdesk eval`: how often a policy succeeds on held-out tasks, beside baselines and beside another policy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command
from cli.errors import FAILED
from cli.hubs import Backend, BackendOption, HubOption, lender
from cli.output import MARKS, Output, table
from cli.workspace import Workspace, named_split, open_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from agent.harness import Harness
    from cli.progress import Progress
    from evals.outcomes import Comparison, OutcomeCount, OutcomeTable
    from evals.rollouts import Rollout
    from store import Trajectory
    from trainer.tasks import TrainingTask

__all__ = ["register"]

BASELINES = ("noop", "always-infeasible", "random")


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "eval",
        panel="Training",
        examples={
            "frontdesk eval my-run": "the newest policy of a run, on held-out tasks",
            "frontdesk eval my-run --against my-run:warm": "compared with what practice started from",
            "frontdesk eval my-run --black": "shown black screens",
            "frontdesk eval my-run --hub 127.0.0.1:7411": "on the desktops of a hub that runs",
        },
    )(evaluate)


def evaluate(
    policy: Annotated[str, typer.Argument(help="A run's name, RUN:warm for its warm start, or a directory.")],
    against: Annotated[str, typer.Option(help="Another policy, compared on the same tasks.")] = "",
    split: Annotated[str, typer.Option(help="train, validation or held-out.")] = "held-out",
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many tasks.", show_default=False)] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run file whose harness is used; a small policy's unless given.")
    ] = None,
    desktops: Annotated[int, typer.Option(min=1, help="Desktops at once.")] = 4,
    hub: HubOption = "",
    backend: BackendOption = "local",
    black: Annotated[bool, typer.Option("--black", help="Show the policy black screens, as a control.")] = False,
    baselines: Annotated[bool, typer.Option(help="Also run those that do nothing, refuse, or act at random.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of sampling.")] = 0,
    json: Json = False,
) -> None:
    """Evaluate a policy: greedy and sampled success with 95 % intervals.

    Attempts are kept: the same command runs only what is missing. Infra errors are shown apart and are in no rate. Exit
    code 1 if an attempt failed for reasons that are not the policy's.
    """
    from agent.config import load_toml
    from cli.image import require_image
    from evals.outcomes import compare, summarize
    from trainer.config import RunConfig, small_harness

    output = Output(json=json)
    harness = small_harness() if run is None else load_toml(RunConfig, run).harness
    with open_workspace() as work:
        policies = {name: _directory(work, name) for name in dict.fromkeys((policy, against)) if name}
        tasks = _tasks(work, split, limit)
        for profile in () if hub else sorted({task.bundle.task.desktop.profile for task in tasks}):
            require_image(output, work.home, profile, backend)
        trajectories = asyncio.run(
            _run(
                output,
                work,
                policies,
                tasks,
                harness,
                desktops=desktops,
                hub_at=hub,
                backend=backend,
                black=black,
                baselines=baselines,
                seed=seed,
            )
        )
    skills = {task.id: task.skills for task in tasks}
    apps = {task.id: task.apps for task in tasks}
    found = summarize(trajectories)
    pairs = [(f"{policy} {how}", f"{against} {how}") for how in ("greedy", "sampled")] if against else []
    comparisons = [compare(found, first, second) for first, second in pairs]
    segments = [len(each.turns) > harness.window for each in trajectories if each.actor == f"{policy} greedy"]
    share = sum(segments) / max(1, len(segments))
    output.result(
        {
            "tasks": len(tasks),
            "task_set": found.task_set_hash,
            "actors": {actor: _numbers(found.total(actor)) for actor in found.actors},
            "by_skill": _grouped(found, skills),
            "by_app": _grouped(found, apps),
            "comparisons": comparisons,
            "multi_segment_share": share,
        },
        *_parts(found, skills, apps, comparisons, share),
    )
    if any(found.total(actor).infra for actor in found.actors):
        raise typer.Exit(FAILED)


async def _run(
    output: Output,
    work: Workspace,
    policies: dict[str, Path],
    tasks: Sequence[TrainingTask],
    harness: Harness,
    *,
    desktops: int,
    hub_at: str,
    backend: Backend,
    black: bool,
    baselines: bool,
    seed: int,
) -> list[Trajectory]:
    from trainer.engine_process import start_engine
    from trainer.evaluate import baseline_rollouts, policy_identity, policy_rollouts, run_all
    from trainer.session import read_format

    trajectories: list[Trajectory] = []
    total = len(tasks) * (2 * len(policies) + len(BASELINES) * baselines)
    async with lender(work.home, hub_at, desktops=desktops, backend=backend) as hub:
        with output.progress("Evaluating", total=total) as progress:

            async def run(rollouts: list[Rollout]) -> None:
                nonlocal trajectories
                trajectories += await run_all(
                    rollouts, hub, work.trajectories, work.blobs, limit=desktops, on_end=_teller(progress)
                )

            if baselines:
                await run(baseline_rollouts(tasks, harness, seed=seed))
            for name, directory in policies.items():
                engine = await start_engine(directory)
                try:
                    for greedy in (True, False):
                        label = f"{name} {'greedy' if greedy else 'sampled'}"
                        progress.now(label)
                        await run(
                            policy_rollouts(
                                tasks,
                                engine,
                                read_format(directory),
                                harness,
                                label=label,
                                identity=policy_identity(directory),
                                greedy=greedy,
                                black=black,
                                seed=seed,
                            )
                        )
                finally:
                    await engine.close()
    return trajectories


def _teller(progress: Progress) -> Callable[[Rollout, Trajectory, bool], None]:
    def tell(rollout: Rollout, trajectory: Trajectory, kept: bool) -> None:
        if trajectory.error is not None and not kept:
            progress.line(f"{MARKS['warn']} {trajectory.id}: {trajectory.error.type}")
        progress.finished()

    return tell


def _directory(work: Workspace, name: str) -> Path:
    from trainer.checkpoints import CheckpointStore
    from trainer.session import last_checkpoint

    run, _, which = name.partition(":")
    root = work.home.runs / "train" / run
    if (Path(name) / "config.json").is_file():
        return Path(name)
    if which not in ("", "warm"):
        raise ValueError(f"{name!r} names no policy; write a run's name, RUN:warm, or a directory")
    found = None
    if root.is_dir():
        found = CheckpointStore(root / "warm").latest() if which else last_checkpoint(root)
    if found is None:
        raise ValueError(f"{name!r} is neither a run that has saved a policy nor a directory that holds one")
    return found


def _tasks(work: Workspace, split: str, limit: int | None) -> list[TrainingTask]:
    from trainer.tasks import TrainingTask

    named_split(split)
    found = [
        TrainingTask(bundle=task.bundle, assets=task.assets, split=split)
        for task in work.tasks(split=split)
        if task.bundle.provenance.generator.startswith("pack:")
    ]
    if not found:
        raise ValueError(f"there are no {split} tasks; make some with `frontdesk synth --count 30 --split {split}`")
    found.sort(key=lambda task: task.id)
    return found[:limit]


def _grouped(found: OutcomeTable, names: dict[str, str]) -> dict[str, dict[str, dict[str, float | int | None]]]:
    return {
        name: {actor: _numbers(count) for actor, count in row.items()} for name, row in _counts(found, names).items()
    }


def _counts(found: OutcomeTable, names: dict[str, str]) -> dict[str, dict[str, OutcomeCount]]:
    """Counts by name of a task's kind and actor."""
    from evals.outcomes import OutcomeCount

    counts: dict[str, dict[str, OutcomeCount]] = {}
    for (task, actor), count in found.cells.items():
        row = counts.setdefault(names[task], dict.fromkeys(found.actors, OutcomeCount()))
        row[actor] = row[actor] + count
    return dict(sorted(counts.items()))


def _numbers(count: OutcomeCount) -> dict[str, float | int | None]:
    return {
        "passed": count.passed,
        "judged": count.trials,
        "infra": count.infra,
        "rate": count.rate,
        "low": count.interval.low,
        "high": count.interval.high,
    }


def _parts(
    found: OutcomeTable,
    skills: dict[str, str],
    apps: dict[str, str],
    comparisons: Sequence[Comparison],
    share: float,
) -> list[RenderableType]:
    totals = []
    for actor in found.actors:
        count = found.total(actor)
        rate = "" if count.rate is None else f"{count.rate:.2f}"
        interval = f"{count.interval.low:.2f}–{count.interval.high:.2f}" if count.trials else ""
        infra = f"[yellow]{count.infra}[/yellow]" if count.infra else ""
        totals.append([actor, f"{count.passed}/{count.trials}", rate, interval, infra])
    shown = [actor for actor in found.actors if actor not in BASELINES]
    parts: list[RenderableType] = [table(["Actor", ">passed", ">rate", ">95 % interval", ">infra errors"], totals), ""]
    for title, names in (("Apps", apps), ("Skills", skills)):
        rows = [
            [name, *(f"{row[actor].passed}/{row[actor].trials}" for actor in shown)]
            for name, row in _counts(found, names).items()
        ]
        parts += [table([title, *(f">{actor}" for actor in shown)], rows), ""]
    parts += [
        f"{each.first} minus {each.second}: {each.difference:+.2f} on {each.num_tasks} tasks, p = {each.p_value:.2g} "
        f"({each.method})"
        for each in comparisons
    ]
    parts.append(
        f"[dim]task set {found.task_set_hash[:12]}; {share:.0%} of greedy attempts took several segments[/dim]"
    )
    return parts
