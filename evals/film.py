"""A film strip: the screenshots of one attempt, small, with what was done drawn in."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.shown import shown_frame
from evals.drawing import draw_actions
from sandbox.actions import Action, action_json, parse_action
from sandbox.dialects import View, get_dialect
from sandbox.frame import Frame
from store.trajectory import Trajectory

__all__ = ["BlobSource", "Film", "FilmFrame", "film_of"]

MAX_FRAMES = 16
"""Of a longer attempt as many turns are shown, evenly chosen."""
THUMBNAIL = 360
"""Longer side of a picture, pixels."""


class BlobSource(Protocol):
    """Where screenshots come from; `store.BlobStore` is one."""

    def get(self, name: str, /) -> bytes:
        """The bytes of this hash."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FilmFrame:
    """One picture of a film strip."""

    title: str
    """Which turn, or the end."""
    thought: str
    """What it said to itself before."""
    did: str
    """What was done on it, in the compact dialect; one line per action."""
    note: str
    """What went wrong with it, if anything."""
    image: str
    """PNG data URI."""
    width: int
    height: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Film:
    """One attempt to look at."""

    actor: str
    task_id: str
    instruction: str
    outcome: str
    stop_reason: str
    num_turns: int
    frames: tuple[FilmFrame, ...]


def film_of(trajectory: Trajectory, blobs: BlobSource) -> Film:
    """The film strip of an attempt."""
    frames = []
    for index in _evenly(len(trajectory.turns), MAX_FRAMES):
        turn = trajectory.turns[index]
        if turn.frame is None:
            continue
        actions = [parse_action(data) for data in turn.actions]
        note = turn.parse_error or "; ".join(turn.action_errors)
        frames.append(_picture(blobs, turn.frame, actions, title=f"turn {index + 1}", thought=turn.thought, note=note))
    if trajectory.final_frame is not None:
        frames.append(_picture(blobs, trajectory.final_frame, [], title="end", thought="", note=""))
    return Film(
        actor=trajectory.actor,
        task_id=trajectory.task_id,
        instruction=trajectory.instruction,
        outcome=trajectory.outcome,
        stop_reason=trajectory.stop_reason,
        num_turns=len(trajectory.turns),
        frames=tuple(frames),
    )


def _picture(
    blobs: BlobSource, name: str, actions: Sequence[Action], *, title: str, thought: str, note: str
) -> FilmFrame:
    frame = Frame.decode(blobs.get(name))
    small = shown_frame(frame, THUMBNAIL)
    view = View(screen=(frame.width, frame.height), shown=(small.width, small.height))
    # Drawn at the small size, so that the marks stay as large as they are; the caption is text beside the picture.
    image = draw_actions(small, [_scaled(action, view) for action in actions]).crop((0, 0, small.width, small.height))
    buffer = io.BytesIO()
    image.quantize(128).save(buffer, "PNG", optimize=True)
    return FilmFrame(
        title=title,
        thought=thought,
        did="\n".join(_in_words(action, View.unscaled(frame.width, frame.height)) for action in actions),
        note=note,
        image="data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode(),
        width=small.width,
        height=small.height,
    )


def _in_words(action: Action, view: View) -> str:
    try:
        return get_dialect("compact").render(action, view)
    except ValueError:  # a point outside the screen, which the desktop refused
        return str(action_json(action))


def _scaled(action: Action, view: View) -> Action:
    """The action with its points moved to the small picture."""

    def move(data: Any) -> Any:
        if isinstance(data, dict) and set(data) == {"x", "y"}:
            return {
                axis: data[axis] * shown // screen
                for axis, shown, screen in zip(("x", "y"), view.shown, view.screen, strict=True)
            }
        if isinstance(data, dict):
            return {key: move(value) for key, value in data.items()}
        return [move(value) for value in data] if isinstance(data, list) else data

    return parse_action(move(action_json(action)))


def _evenly(total: int, most: int) -> list[int]:
    """Indices of range(total), all of them or evenly chosen with the first and the last."""
    if total <= most:
        return list(range(total))
    return [round(step * (total - 1) / (most - 1)) for step in range(most)]
