"""One action as several simpler ones with the same effect, for dialects that lack its words, and the way back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sandbox.actions import (
    MAX_SCROLL,
    MAX_WAIT_S,
    Action,
    ButtonDown,
    ButtonUp,
    Click,
    Drag,
    KeyDown,
    KeyUp,
    Move,
    Point,
    Scroll,
    Wait,
)
from sandbox.dialects.protocol import MAX_ACTIONS, Rejected

__all__ = [
    "DIRECTIONS",
    "PIXELS_PER_CLICK",
    "at_pointer",
    "direction_of",
    "drags_joined",
    "one_way_scrolls",
    "pixels_to_clicks",
    "scrolls",
    "single_clicks",
    "strokes",
    "times",
    "waits",
    "with_keys_held",
]

PIXELS_PER_CLICK = 120
"""What one click of the wheel is, in dialects that scroll by pixels."""


DIRECTIONS = {"up": (0, 1), "down": (0, -1), "left": (-1, 0), "right": (1, 0)}
"""Where the wheel turns to: clicks to the right and up."""


def direction_of(scroll: Scroll) -> str:
    """The direction of a scroll in one of them; down for none."""
    way = (scroll.dx > 0) - (scroll.dx < 0), (scroll.dy > 0) - (scroll.dy < 0)
    return next((name for name, each in DIRECTIONS.items() if each == way), "down")


def pixels_to_clicks(pixels: float) -> int:
    """Wheel clicks for pixels: the nearest number, but at least one for any pixels at all."""
    return int(math.copysign(max(1, math.floor(abs(pixels) / PIXELS_PER_CLICK + 0.5)), pixels)) if pixels else 0


def scrolls(dx: int, dy: int, *, point: Point | None = None, modifiers: tuple[str, ...] = ()) -> list[Action]:
    """Turns of the wheel, as many as one action's limit makes them.

    Raises:
        Rejected: more than one turn's actions hold.
    """
    if max(abs(dx), abs(dy)) > MAX_SCROLL * MAX_ACTIONS:
        raise Rejected(f"a scroll of more than {MAX_SCROLL * MAX_ACTIONS} clicks is too far")
    made: list[Action] = []
    while True:
        part_x, part_y = (max(-MAX_SCROLL, min(left, MAX_SCROLL)) for left in (dx, dy))
        made.append(Scroll(point=point, dx=part_x, dy=part_y, modifiers=modifiers))
        dx, dy = dx - part_x, dy - part_y
        if not (dx or dy):
            return made


def waits(seconds: float) -> list[Action]:
    """A wait, as many actions as one action's limit makes it."""
    made: list[Action] = []
    while seconds > MAX_WAIT_S:
        made.append(Wait(seconds=MAX_WAIT_S))
        seconds -= MAX_WAIT_S
    return [*made, Wait(seconds=seconds)]


def times(total: float, each: float) -> int:
    """How many of a fixed amount come nearest to a total; at least one."""
    return max(1, math.floor(total / each + 0.5))


def single_clicks(action: Click) -> list[Action]:
    """A multiple click as clicks one after the other."""
    return [action.model_copy(update={"clicks": 1})] * action.clicks


def with_keys_held(keys: Sequence[str], body: Iterable[Action]) -> list[Action]:
    """Actions between the presses and the releases of keys."""
    return [*(KeyDown(key=key) for key in keys), *body, *(KeyUp(key=key) for key in reversed(keys))]


def strokes(action: Drag) -> list[Action]:
    """A drag as moves between the press and the release of its button."""
    start, path = ([], action.path) if len(action.path) == 1 else ([Move(point=action.path[0])], action.path[1:])
    moves = [Move(point=point) for point in path]
    return [*start, ButtonDown(button=action.button), *moves, ButtonUp(button=action.button)]


def one_way_scrolls(action: Scroll) -> list[Action]:
    """A scroll in both directions as one upright and one across."""
    if not (action.dx and action.dy):
        return [action]
    return [action.model_copy(update={"dx": 0}), action.model_copy(update={"dy": 0})]


def at_pointer(action: ButtonDown | ButtonUp) -> list[Action]:
    """A press or release of a button as a move and then the same where the pointer is."""
    if action.point is None:
        return [action]
    return [Move(point=action.point), action.model_copy(update={"point": None})]


def drags_joined(actions: Iterable[Action]) -> list[Action]:
    """A move directly before a drag from the pointer is the start of that drag."""
    made: list[Action] = []
    for action in actions:
        if isinstance(action, Drag) and len(action.path) == 1 and made and isinstance(made[-1], Move):
            start = made.pop()
            assert isinstance(start, Move)
            action = action.model_copy(update={"path": (start.point, *action.path)})
        made.append(action)
    return made
