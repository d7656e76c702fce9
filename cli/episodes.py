"""`frontdesk episodes`: what happened in attempts. Making one is in cli/episode_run.py, playing one again in
cli/episode_replay.py."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli import episode_replay, episode_run
from cli.command import Json, command, group
from cli.output import MARKS, Output, age, facts, table
from cli.workspace import OUTCOME_MARKS, Workspace, open_workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from store import Trajectory
    from store.trajectory import Turn

__all__ = ["app"]

app = group("Episodes: what an agent saw, did and achieved in each attempt.")


episode_run.register(app)
episode_replay.register(app)


@command(
    app,
    "list",
    examples={
        "frontdesk episodes list": "the newest",
        "frontdesk episodes list --outcome fail --actor oracle": "solutions that failed",
    },
)
def list_(
    task: Annotated[str | None, typer.Option(help="Only this task.", show_default=False)] = None,
    actor: Annotated[str | None, typer.Option(help="Only this actor.", show_default=False)] = None,
    outcome: Annotated[
        Literal["pass", "fail", "infra_error"] | None, typer.Option(help="Only this outcome.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    json: Json = False,
) -> None:
    """List episodes, newest first."""
    output = Output(json=json)
    with open_workspace() as work:
        task_id = work.find(task).bundle.id if task else None
        rows = work.catalog.episodes(task_id=task_id, actor=actor, outcome=outcome, limit=limit)
        names = {found.bundle.id: found.bundle.task.name for found in work.tasks()}
    cells = [
        (
            MARKS[OUTCOME_MARKS[row.outcome]],
            f"[dim]{row.id}[/dim]",
            names.get(row.task_id, row.task_id[:8]),
            row.actor,
            "" if row.reward is None else f"{row.reward:g}",
            str(row.num_turns),
            row.stop_reason,
            f"{row.seconds:.1f} s",
            f"{age(time.time() - row.started_at)} ago",
        )
        for row in rows
    ]
    columns = ["", "Id", "Task", "Actor", ">Reward", ">Turns", "Ended by", ">Took", ">Begun"]
    shown = table(columns, cells)
    output.result({"episodes": [row.model_dump() for row in rows]}, shown if cells else "No episode fits.")


@command(
    app,
    "show",
    examples={
        "frontdesk episodes show 3f2a": "turn by turn; the beginning of an id is enough",
        "frontdesk episodes show 3f2a --frames ./frames": "with the screenshots, actions drawn on them",
    },
)
def show(
    episode: Annotated[str, typer.Argument(help="An episode's id, or the beginning of one.")],
    frames: Annotated[
        Path | None, typer.Option(help="Folder to write the screenshots to, as PNG.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Show one episode: its turns, and its outcome with the reasons.

    Also says how many sequences it would be cut into for training.
    """
    output = Output(json=json)
    with open_workspace() as work:
        trajectory = work.trajectories.load(work.catalog.episode(episode).id)
        written = _write_frames(work, trajectory, frames) if frames else []
    segments = _num_segments(trajectory)
    data = trajectory.model_dump(mode="json") | {"num_segments": segments, "frames": written}
    parts = [*_head(trajectory), _turns(trajectory), "", *_outcome(trajectory), _training(trajectory, segments)]
    if written:
        parts.append(f"{len(written)} screenshots in [cyan]{frames}[/cyan]")
    output.result(data, *parts)


def _head(trajectory: Trajectory) -> list[RenderableType]:
    from rich.markup import escape

    begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(trajectory.started_at))
    return [
        f"[bold]{escape(trajectory.instruction)}[/bold]",
        facts(
            [
                ("episode", trajectory.id),
                ("actor", trajectory.actor),
                ("task", f"{trajectory.task_id[:8]}, group {trajectory.group_id or 'none'}"),
                ("rules", f"harness {trajectory.harness_hash[:8]}, image {trajectory.image_digest[:12] or 'none'}"),
                ("seeds", f"{trajectory.seed_env} (desktop), {trajectory.seed_sampling} (sampling)"),
                ("begun", f"{begun}, took {trajectory.seconds:.1f} s"),
            ]
        ),
        "",
    ]


def _turns(trajectory: Trajectory) -> RenderableType:
    from rich.markup import escape

    rows = []
    for turn in trajectory.turns:
        said = turn.parse_error or "; ".join(turn.action_errors)
        rows.append(
            (
                str(turn.index),
                escape(_actions_text(turn)),
                {True: "[green]yes[/green]", False: "[dim]no[/dim]", None: ""}[turn.changed],
                f"{min(turn.visible)}–{max(turn.visible)}" if turn.visible else "",
                f"{sum(turn.timings_ms.values()):.0f} ms",
                f"[red]{escape(said)}[/red]" if said else "",
            )
        )
    return table([">Turn", "Did", "Changed", "Saw", ">Took", "Trouble"], rows)


def _actions_text(turn: Turn) -> str:
    from sandbox.actions import parse_action
    from sandbox.dialects import View, get_dialect

    view = View.unscaled(32768, 32768)
    return "\n".join(get_dialect("compact").render(parse_action(action), view) for action in turn.actions)


def _outcome(trajectory: Trajectory) -> list[RenderableType]:
    from rich.markup import escape

    reward = "no reward" if trajectory.reward is None else f"reward {trajectory.reward:g}"
    lines: list[RenderableType] = [
        f"{MARKS[OUTCOME_MARKS[trajectory.outcome]]} [bold]{trajectory.outcome}[/bold], {reward}, "
        f"ended by {trajectory.stop_reason}"
    ]
    if trajectory.error is not None:
        lines.append(f"  {trajectory.error.phase}: {trajectory.error.type}: {escape(trajectory.error.message)}")
        lines += [f"    {escape(name)}: {escape(value)}" for name, value in trajectory.error.state.items()]
    for check in trajectory.checks:
        mark = MARKS["ok" if check["score"] >= 1 else "bad"]
        lines.append(f"  {mark} {escape(str(check['name']))} {check['score']:g}  {escape(str(check['reason']))}")
    return lines


def _num_segments(trajectory: Trajectory) -> int:
    """Training sequences that the record falls into: a new one begins wherever screenshots were dropped."""
    first = [min(turn.visible, default=0) for turn in trajectory.turns]
    return bool(first) + sum(after > before for before, after in itertools.pairwise(first))


def _training(trajectory: Trajectory, segments: int) -> str:
    cut = f"{segments} segment{'' if segments == 1 else 's'} by its context window"
    if trajectory.outcome == "infra_error":
        return f"  trains: no, an infra_error teaches nothing ({cut})"
    if any(turn.tokens is None for turn in trajectory.turns):
        return f"  trains: no, this actor's tokens were not recorded ({cut})"
    return f"  trains as {cut}"


def _write_frames(work: Workspace, trajectory: Trajectory, folder: Path) -> list[str]:
    from evals.drawing import draw_actions
    from sandbox.actions import parse_action
    from sandbox.frame import Frame

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for turn in trajectory.turns:
        if turn.frame is None:
            continue
        frame = Frame.decode(work.blobs.get(turn.frame))
        path = folder / f"{turn.index:03d}.png"
        actions = [parse_action(action) for action in turn.actions]
        draw_actions(frame, actions, title=f"turn {turn.index}").save(path, compress_level=1)
        written.append(str(path))
    if trajectory.final_frame is not None:
        path = folder / "final.png"
        Frame.decode(work.blobs.get(trajectory.final_frame)).image().save(path, compress_level=1)
        written.append(str(path))
    return written
