"""`frontdesk train`: a run file becomes a policy, by demonstrations and then by practice on real desktops."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command import Json, command
from cli.hubs import Backend, BackendOption, HubOption, lender
from cli.output import MARKS, Output, age, facts
from cli.training_view import TrainingView
from cli.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.config import RunConfig, TaskChoice
    from trainer.tasks import TrainingTask

__all__ = ["chosen_tasks", "register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "train",
        panel="Training",
        examples={
            "frontdesk train run.toml": "begin the run, or go on with it",
            "frontdesk train run.toml --dry-run": "what it would do",
            "frontdesk train run.toml --shuffle-rewards": "the control that must learn nothing",
        },
    )(train)


def train(
    run: Annotated[Path, typer.Argument(help="The run file, TOML.")],
    resume: Annotated[bool, typer.Option("--resume", help="Only go on with a run that was begun.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    shuffle_rewards: Annotated[
        bool, typer.Option("--shuffle-rewards", help="Deal each update's rewards out at random, as a control.")
    ] = False,
    hub: HubOption = "",
    backend: BackendOption = "local",
    json: Json = False,
) -> None:
    """Train a policy by online reinforcement on real desktops.

    A new policy first imitates the tasks' own solutions, and then practises the tasks. Interrupt it when you like: the
    same command goes on from its newest checkpoint, and trains on no attempt twice. Metrics are written to
    metrics.jsonl and for tensorboard in the run's directory.
    """
    from agent.config import load_toml
    from trainer.config import RunConfig

    output = Output(json=json)
    config = load_toml(RunConfig, run)
    name = f"{config.name}-shuffled" if shuffle_rewards else config.name
    with open_workspace() as work:
        root = work.home.runs / "train" / name
        if resume and not (root / "run.json").exists():
            raise ValueError(f"there is no run {name!r} to go on with; leave out --resume to begin it")
        tasks = chosen_tasks(work, config.tasks)
        if dry_run:
            _describe(output, config, tasks, root)
            return
        begun = time.monotonic()
        with TrainingView(output.err) as view:
            last = asyncio.run(
                _train(output, work, config, tasks, root, view, shuffle=shuffle_rewards, hub_at=hub, backend=backend)
            )
    took = time.monotonic() - begun
    output.result(
        {"run": name, "checkpoint": last, "directory": root, "seconds": round(took, 1)},
        f"{MARKS['ok']} trained for {age(took)}",
        f"  policy    [cyan]{last}[/cyan]",
        f"  metrics   [cyan]{root / 'metrics.jsonl'}[/cyan]",
        f"  evaluate  [cyan]frontdesk eval {last}[/cyan]",
    )


def chosen_tasks(work: Workspace, choice: TaskChoice) -> list[TrainingTask]:
    """The generated tasks that a run file names. Hand-made ones have screens of another size."""
    from trainer.tasks import TrainingTask

    found = [
        TrainingTask(bundle=task.bundle, assets=task.assets, split=choice.split)
        for task in work.tasks(split=choice.split)
        if task.bundle.provenance.generator.startswith("pack:") and choice.allows(task.bundle.task)
    ]
    found.sort(key=lambda task: task.id)
    return found[: choice.limit]


async def _train(
    output: Output,
    work: Workspace,
    config: RunConfig,
    tasks: Sequence[TrainingTask],
    root: Path,
    view: TrainingView,
    *,
    shuffle: bool,
    hub_at: str,
    backend: Backend,
) -> Path:
    from cli.image import require_image
    from trainer.session import Session
    from verigen.packs import load_packs

    for profile in () if hub_at else sorted({task.bundle.task.desktop.profile for task in tasks}):
        await asyncio.to_thread(require_image, output, work.home, profile, backend)
    async with lender(work.home, hub_at, desktops=config.desktops, backend=backend) as hub:
        session = Session(
            config=config,
            tasks=tasks,
            root=root,
            hub=hub,
            store=work.trajectories,
            blobs=work.blobs,
            blobs_at=work.home.blobs,
            catalog=work.catalog,
            packs=load_packs(),
            shuffle=shuffle,
            watcher=view.watcher(),
        )
        return await session.run()


def _describe(output: Output, config: RunConfig, tasks: Sequence[TrainingTask], root: Path) -> None:
    practice, warm = config.practice, config.warm_start
    skills = sorted(set(itertools.chain.from_iterable(task.bundle.task.skills for task in tasks)))
    episodes = practice.updates * practice.groups_per_update * practice.group_size
    begins = f"from {config.policy}" if config.policy else f"{warm.demonstrations + warm.draws} demonstrations"
    data = {
        "run": config.name,
        "directory": root,
        "tasks": len(tasks),
        "skills": skills,
        "episodes_at_least": episodes,
        "begun": (root / "run.json").exists(),
    }
    output.result(
        data,
        facts(
            [
                ("run", f"{config.name}{' (begun already; it would go on)' if data['begun'] else ''}"),
                ("directory", str(root)),
                ("tasks", f"{len(tasks)} of split {config.tasks.split}"),
                ("skills", ", ".join(skills) or "none"),
                ("begins with", begins),
                (
                    "practice",
                    f"{practice.updates} updates of {practice.groups_per_update} groups of "
                    f"{practice.group_size}: at least {episodes} attempts",
                ),
                ("context", f"{config.harness.window} screenshots, {config.harness.delta} dropped at once"),
                ("desktops", str(config.desktops)),
            ]
        ),
        "" if tasks else f"{MARKS['warn']} there are no such tasks; make some with `frontdesk synth --count 30`",
    )
