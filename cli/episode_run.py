"""`frontdesk episodes run`: let an actor attempt a task, and keep what happened."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.command import Json, command
from cli.errors import FAILED
from cli.hubs import Backend, BackendOption, HubOption, lender
from cli.output import MARKS, Output
from cli.workspace import OUTCOME_MARKS, FoundTask, Workspace, open_workspace

if TYPE_CHECKING:
    from agent import Harness, Policy
    from store import Trajectory

__all__ = ["register"]

Actor = Literal["oracle", "noop", "random", "infeasible", "model"]


def register(app: typer.Typer) -> None:
    """Add the command to `frontdesk episodes`."""
    command(
        app,
        "run",
        examples={
            "frontdesk episodes run mousepad-final-minutes": "its own solution",
            "frontdesk episodes run mousepad-final-minutes --actor random -k 4 --seed 7": "four attempts at random",
            "frontdesk episodes run TASK --actor model --base-url http://127.0.0.1:8000/v1 --model my-model": (
                "a model behind any OpenAI-compatible endpoint"
            ),
        },
    )(run)


def run(
    task: Annotated[str, typer.Argument(help="A task's name, id or bundle folder.")],
    actor: Annotated[Actor, typer.Option(help="Who acts.")] = "oracle",
    attempts: Annotated[int, typer.Option("--attempts", "-k", min=1, help="How many attempts.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the first attempt; the others count on from it.")] = 0,
    base_url: Annotated[str | None, typer.Option(help="Endpoint of the model.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model.", show_default=False)] = None,
    harness: Annotated[
        Path | None, typer.Option(help="Harness (TOML) that the actor works under.", show_default=False)
    ] = None,
    desktops: Annotated[int, typer.Option(min=1, help="Desktops used at once.")] = 2,
    hub: HubOption = "",
    backend: BackendOption = "local",
    json: Json = False,
) -> None:
    """Let an actor attempt a task on fresh desktops, and keep the episodes.

    Exit code 1 if an attempt ended as an infra_error; a failed attempt is an answer, not an error. A model's key is
    read from OPENAI_API_KEY.
    """
    from agent import Harness
    from cli.image import require_image

    output = Output(json=json)
    recipe = Harness.load(harness) if harness else Harness()
    with open_workspace() as work:
        found = work.find(task)
        policy = _policy(actor, found, base_url=base_url, model=model)
        work.keep(found)
        if not hub:
            require_image(output, work.home, found.bundle.task.desktop.profile, backend)
        done = asyncio.run(
            _run(
                work,
                output,
                found,
                policy,
                recipe,
                attempts=attempts,
                seed=seed,
                limit=desktops,
                hub_at=hub,
                backend=backend,
            )
        )
    output.result(
        {"episodes": [trajectory.model_dump(mode="json", exclude={"turns"}) for trajectory in done]},
        *[_line(trajectory, found.bundle.task.name) for trajectory in done],
        f"[dim]look at one: frontdesk episodes show {done[0].id}[/dim]",
    )
    if any(trajectory.outcome == "infra_error" for trajectory in done):
        raise typer.Exit(FAILED)


async def _run(
    work: Workspace,
    output: Output,
    found: FoundTask,
    policy: Policy,
    harness: Harness,
    *,
    attempts: int,
    seed: int,
    limit: int,
    hub_at: str,
    backend: Backend,
) -> list[Trajectory]:
    from evals.rollouts import Rollout, run_rollouts
    from verigen.runner import TaskRunner

    group_id = f"cli-{uuid.uuid4().hex[:8]}"
    runner = TaskRunner(found.bundle, found.assets)
    rollouts = [
        Rollout(
            id=f"{group_id}-{number}",
            task=runner,
            spec=found.bundle.task.desktop,
            policy=policy,
            group_id=group_id,
            seed_env=seed + number,
            seed_sampling=seed + number,
            harness=harness,
        )
        for number in range(attempts)
    ]
    try:
        with output.progress(f"{policy.name} at {found.bundle.task.name}", total=attempts) as progress:
            async with lender(work.home, hub_at, desktops=min(limit, attempts), backend=backend) as hub:
                return await run_rollouts(
                    rollouts,
                    hub,
                    work.trajectories,
                    work.blobs,
                    limit=limit,
                    on_end=lambda rollout, trajectory, kept: progress.finished(),
                )
    finally:
        await policy.close()


def _policy(actor: Actor, found: FoundTask, *, base_url: str | None, model: str | None) -> Policy:
    from agent.policies import AlwaysInfeasiblePolicy, NoopPolicy, RandomPolicy, ScriptedPolicy

    if actor == "model":
        if not base_url or not model:
            raise ValueError("a model needs --base-url and --model, for example --base-url http://127.0.0.1:8000/v1")
        from agent.models import OpenAICompatiblePolicy

        return OpenAICompatiblePolicy(base_url=base_url, model=model)
    if base_url or model:
        raise ValueError(f"--base-url and --model are for --actor model, not for {actor}")
    if actor == "oracle":
        return ScriptedPolicy(found.bundle.oracle)
    plain: dict[str, type[Policy]] = {"noop": NoopPolicy, "random": RandomPolicy, "infeasible": AlwaysInfeasiblePolicy}
    return plain[actor]()


def _line(trajectory: Trajectory, task: str) -> str:
    """One line that says how an attempt ended."""
    from rich.markup import escape

    mark = MARKS[OUTCOME_MARKS[trajectory.outcome]]
    why = _why(trajectory)
    return (
        f"{mark} {task}  {trajectory.actor}  [bold]{trajectory.outcome}[/bold]  {len(trajectory.turns)} turns in "
        f"{trajectory.seconds:.1f} s  [dim]{escape(why)}[/dim]"
    )


def _why(trajectory: Trajectory) -> str:
    """What decided the outcome, in one line."""
    if trajectory.error is not None:
        return f"{trajectory.error.type}: {trajectory.error.message}".splitlines()[0]
    short = [check for check in trajectory.checks if check["score"] < 1]
    return str(short[0]["reason"]) if short else "every check holds"
