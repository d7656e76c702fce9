"""Drawn screens with labelled buttons, and demonstrations of clicking them: what a warm start is tried on.

No desktop takes part, so that learning can be measured by itself. A task names one button or two; the oracle clicks
each in turn, sees it pressed, and says that it is done.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from agent.context import visible_turns
from sandbox.frame import Frame
from store.trajectory import Trajectory, Turn
from trainer.widgets import Widget

__all__ = ["DESKTOP", "SMALL", "Screen", "ScreenKind", "demonstration", "make_screen", "make_task"]

_FONT = ImageFont.load_default(11)
_GRID = 8
"""Buttons lie on multiples of so many pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScreenKind:
    """What screens of one kind have in common."""

    width: int
    height: int
    names: tuple[str, ...]
    num_buttons: int


SMALL = ScreenKind(
    width=192,
    height=128,
    names=("Save", "Open", "Close", "Print", "Copy", "Paste", "Undo", "Find", "Help", "Zoom"),
    num_buttons=4,
)
"""Learnt in a minute."""
DESKTOP = ScreenKind(
    width=320,
    height=224,
    names=(*SMALL.names, "Redo", "View", "Edit", "Next", "Back", "Home", "Apply", "Cancel", "Reset", "Delete"),
    num_buttons=7,
)
"""As large as a small desktop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """One layout of buttons."""

    kind: ScreenKind
    widgets: tuple[Widget, ...]

    def draw(self, pressed: Sequence[str] = ()) -> Frame:
        """The screen with some of its buttons pressed."""
        image = Image.new("RGB", (self.kind.width, self.kind.height), (58, 110, 165))
        pen = ImageDraw.Draw(image)
        for widget in self.widgets:
            box = (widget.left, widget.top, widget.right - 1, widget.bottom - 1)
            down = widget.name in pressed
            pen.rectangle(box, fill=(150, 190, 150) if down else (212, 208, 200), outline=(64, 64, 64))
            pen.text(widget.center, widget.name, fill=(0, 0, 0), font=_FONT, anchor="mm")
        return Frame.from_pixels(self.kind.width, self.kind.height, image.tobytes())


def make_screen(kind: ScreenKind, rng: random.Random) -> Screen:
    """Buttons with different names at places that do not overlap."""
    width, height = 6 * _GRID, 2 * _GRID
    cells = [
        (x + rng.choice((0, _GRID)), y + rng.choice((0, _GRID)))
        for x in range(0, kind.width - width - _GRID + 1, width + _GRID)
        for y in range(0, kind.height - height - _GRID + 1, height + _GRID)
    ]
    names = rng.sample(kind.names, kind.num_buttons)
    widgets = tuple(
        Widget(name=name, left=left, top=top, right=left + width, bottom=top + height)
        for name, (left, top) in zip(names, rng.sample(cells, kind.num_buttons), strict=True)
    )
    return Screen(kind=kind, widgets=widgets)


def make_task(screen: Screen, rng: random.Random) -> tuple[str, tuple[Widget, ...]]:
    """An instruction and the buttons that it asks for, in order."""
    targets = tuple(rng.sample(screen.widgets, rng.choice((1, 2))))
    return "Click " + " then ".join(target.name for target in targets), targets


def demonstration(
    name: str, screen: Screen, instruction: str, targets: Sequence[Widget], *, window: int, delta: int
) -> tuple[Trajectory, dict[str, Frame]]:
    """The oracle's trajectory, and its screenshots by name."""
    frames: dict[str, Frame] = {}
    turns = []
    for index in range(len(targets) + 1):
        frame = screen.draw([target.name for target in targets[:index]])
        frames[frame.sha256] = frame
        action: dict[str, object] = {"kind": "done"}
        raw = "done"
        if index < len(targets):
            x, y = targets[index].center
            action = {"kind": "click", "point": {"x": x, "y": y}}
            raw = f"click {x} {y}"
        visible = tuple(turn - 1 for turn in visible_turns(index + 1, window, delta))
        turns.append(Turn(index=index, frame=frame.sha256, cursor=(0, 0), visible=visible, raw=raw, actions=(action,)))
    trajectory = Trajectory(
        id=name,
        task_id=name,
        instruction=instruction,
        actor="oracle",
        harness_hash="",
        image_digest="",
        policy_hash="oracle",
        seed_env=0,
        seed_sampling=0,
        turns=tuple(turns),
        stop_reason="done",
        outcome="pass",
        reward=1.0,
        started_at=0.0,
        seconds=0.0,
    )
    return trajectory, frames
