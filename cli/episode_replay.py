"""`frontdesk episodes replay`: play a recorded episode again on a fresh desktop, and say where it differs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.command import Json, command
from cli.errors import FAILED
from cli.hubs import Backend, BackendOption
from cli.output import MARKS, Output
from cli.workspace import FoundTask, Workspace, open_workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from agent.harness import Harness
    from agent.replay import Replay, ReplayStep
    from sandbox.image import Image
    from store import Trajectory

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `frontdesk episodes`."""
    command(
        app,
        "replay",
        examples={
            "frontdesk episodes replay 3f2a": "the same actions, at the same pace",
            "frontdesk episodes replay 3f2a --fast --save ./differs": "at once, and keep pictures of what differs",
        },
    )(replay)


def replay(
    episode: Annotated[str, typer.Argument(help="An episode's id, or the beginning of one.")],
    save: Annotated[
        Path | None,
        typer.Option(help="Folder for pictures of the first difference: recorded, now, both.", show_default=False),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Do not wait where the policy thought.")] = False,
    harness: Annotated[
        Path | None,
        typer.Option(help="Harness (TOML) of the episode, if it had one of its own.", show_default=False),
    ] = None,
    backend: BackendOption = "local",
    json: Json = False,
) -> None:
    """Play an episode again on a fresh desktop, and report the first difference.

    The desktop has the episode's image, screen and start state. Compared are every pixel, the pointer, the active
    window, refused actions, and in the end the evidence and the score. Exit code 1 if anything differs, 2 if the
    episode's task or image is no longer there.
    """
    from agent.harness import Harness

    output = Output(json=json)
    with open_workspace() as work:
        trajectory = work.trajectories.load(work.catalog.episode(episode).id)
        task = _task(work, trajectory)
        image = _image(work, task, trajectory)
        recipe, known = _harness(trajectory, Harness.load(harness) if harness else None)
        played = asyncio.run(_play(output, work, trajectory, task, image, recipe, paced=not fast, backend=backend))
    pictures = _save(played, save) if save else []
    data = _data(played) | {"episode": trajectory.id, "harness_known": known, "pictures": pictures}
    parts = [*_report(played), *(f"  [cyan]{path}[/cyan]" for path in pictures)]
    if not known:
        parts.append(
            f"[dim]its harness ({trajectory.harness_hash[:8]}) is not known here, so the screen was looked at as the "
            f"default harness does; give it with --harness[/dim]"
        )
    output.result(data, *parts)
    if not played.same:
        raise typer.Exit(FAILED)


def _task(work: Workspace, trajectory: Trajectory) -> FoundTask:
    from store.errors import NotFound

    try:
        return work.find(trajectory.task_id)
    except NotFound as error:
        raise NotFound(
            f"the task of episode {trajectory.id} ({trajectory.task_id[:12]}) is no longer there, so its start state "
            f"cannot be made again; `frontdesk tasks import` brings a task back"
        ) from error


def _image(work: Workspace, task: FoundTask, trajectory: Trajectory) -> Image:
    from sandbox.image import ImageCache

    if not trajectory.image_digest:
        raise ValueError(f"episode {trajectory.id} never had a desktop; there is nothing to play again")
    profile = task.bundle.task.desktop.profile
    images = ImageCache(work.home.images)
    found = next((image for image in images.list() if image.digest == trajectory.image_digest), None)
    if found is None:
        there = ", ".join(image.digest[:12] for image in images.list() if image.profile == profile) or "none"
        raise ValueError(
            f"the image of episode {trajectory.id} ({profile} {trajectory.image_digest[:12]}) is no longer there; of "
            f"{profile!r} there is {there}. An episode is only played again on exactly its own image"
        )
    return found


def _harness(trajectory: Trajectory, given: Harness | None) -> tuple[Harness, bool]:
    """The episode's harness, and whether it is that one."""
    from agent.harness import Harness
    from trainer.config import small_harness

    known = (given,) if given else (Harness(), small_harness())
    found = next((each for each in known if each.hash == trajectory.harness_hash), None)
    if found is None and given is not None:
        raise ValueError(f"the harness given is {given.hash[:8]}; the episode's is {trajectory.harness_hash[:8]}")
    return found or Harness(), found is not None


async def _play(
    output: Output,
    work: Workspace,
    trajectory: Trajectory,
    task: FoundTask,
    image: Image,
    harness: Harness,
    *,
    paced: bool,
    backend: Backend,
) -> Replay:
    from agent.replay import replay_episode
    from sandbox.backends.named import make_backend
    from sandbox.image import ImageCache
    from verigen.runner import TaskRunner

    made = make_backend(backend, ImageCache(work.home.images), work.home.run, image=image)
    try:
        desktop = await made.boot(task.bundle.task.desktop)
        with output.progress("Playing", total=len(trajectory.turns) + 1) as progress:
            return await replay_episode(
                desktop,
                TaskRunner(task.bundle, task.assets),
                trajectory,
                work.blobs.get,
                harness=harness,
                paced=paced,
                on_step=lambda step: progress.finished(),
            )
    finally:
        await made.close()


def _report(played: Replay) -> Iterator[RenderableType]:
    from rich.markup import escape

    num_same = sum(step.recorded == step.replayed for step in played.steps)
    late = [step.late_ms for step in played.steps if step.late_ms]
    if played.first is not None:
        yield f"{MARKS['bad']} [bold]{escape(_where(played.first))}[/bold]"
        for name, (before, now) in played.first.facts.items():
            yield f"  {name}: recorded {escape(_short(before))}, now {escape(_short(now))}"
    mark = MARKS["ok" if num_same == len(played.steps) else "bad"]
    yield f"{mark} {num_same} of {len(played.steps)} screens are equal"
    if late:
        yield f"  [dim]{len(late)} of them up to {max(late):.0f} ms late[/dim]"
    for name, (before, now) in played.ending.items():
        yield f"{MARKS['bad']} in the end, {name}: recorded {escape(_short(before))}, now {escape(_short(now))}"
    if not played.ending:
        yield f"{MARKS['ok']} the end is equal"
    recorded_s, now_s = played.clocks_s
    if recorded_s is not None:
        yield f"[dim]the desktop's clock: {_date(recorded_s)} recorded, {_date(now_s)} now[/dim]"


def _where(step: ReplayStep) -> str:
    when = "the start" if step.step == 0 else f"the screen after turn {step.step - 1}"
    if step.difference is not None:
        box = step.difference.box
        return (
            f"{when} differs in {step.difference.pixels} pixels, within {box.width}x{box.height} at ({box.x}, {box.y})"
        )
    if step.recorded != step.replayed:
        return f"{when} differs; the recorded screenshot is no longer kept"
    return f"the state differs at {when}"


def _data(played: Replay) -> dict[str, Any]:
    first = played.first
    return {
        "same": played.same,
        "first": None if first is None else asdict(first),
        "steps": [asdict(step) for step in played.steps],
        "ending": {name: {"recorded": pair[0], "now": pair[1]} for name, pair in played.ending.items()},
        "clock_s": {"recorded": played.clocks_s[0], "now": played.clocks_s[1]},
    }


def _save(played: Replay, folder: Path) -> list[str]:
    from evals.drawing import draw_difference

    if played.frames is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    before, now = played.frames
    pictures = {"now": now.image()}
    if before is not None:
        pictures |= {"recorded": before.image(), "difference": draw_difference(before, now)}
    paths = []
    for name, picture in sorted(pictures.items()):
        paths.append(str(folder / f"{name}.png"))
        picture.save(paths[-1], compress_level=1)
    return paths


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
