"""What an action does to a real desktop, as a window that covers it sees it: the same in every dialect.

Each case is an action written in a dialect, read back and executed. Its effect is the list of presses and releases that
arrive at the window, each with its place, key or symbol; clicks that a toolkit would join are counted together. How
the pointer got anywhere does not count, but for the points of a path while a button is down.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.actions import (
    Action,
    ButtonDown,
    ButtonUp,
    Click,
    Drag,
    KeyDown,
    KeyUp,
    Move,
    Point,
    Press,
    Scroll,
    TypeText,
)
from sandbox.desktop import Desktop, Settle
from sandbox.dialects import DIALECTS, Inexpressible, View

__all__ = ["ACTIONS", "CASES", "SCREEN", "Effects", "measure"]

SCREEN = (800, 600)
VIEW = View.unscaled(*SCREEN)
LOG = "/tmp/effects.jsonl"
MARK = 0xFF13
"""The keysym of `pause`, which ends each case in the log."""
NO_WAIT = Settle(first_ms=0, quiet_ms=0, cap_ms=0)
JOINED_MS = 400
"""Toolkits join two presses at one place that are no further apart."""

_RECORDER = """
import json, sys
from Xlib import X, Xatom, display
d = display.Display()
screen = d.screen()
mask = X.KeyPressMask | X.KeyReleaseMask | X.ButtonPressMask | X.ButtonReleaseMask | X.PointerMotionMask
window = screen.root.create_window(
    0, 0, screen.width_in_pixels, screen.height_in_pixels, 0, X.CopyFromParent, override_redirect=1, event_mask=mask
)
window.map()
d.sync()
window.set_input_focus(X.RevertToParent, X.CurrentTime)
d.sync()
log = open(sys.argv[1], "w")
print(json.dumps(["ready"]), file=log, flush=True)
while True:
    event = d.next_event()
    if event.type == X.MappingNotify:
        d.refresh_keyboard_mapping(event)
    elif event.type in (X.KeyPress, X.KeyRelease):
        symbol = d.keycode_to_keysym(event.detail, event.state & X.ShiftMask and 1)
        word = "key down" if event.type == X.KeyPress else "key up"
        print(json.dumps([word, symbol or d.keycode_to_keysym(event.detail, 0)]), file=log, flush=True)
    elif event.type in (X.ButtonPress, X.ButtonRelease):
        word = "down" if event.type == X.ButtonPress else "up"
        print(json.dumps([word, event.detail, event.root_x, event.root_y, event.time]), file=log, flush=True)
    elif event.type == X.MotionNotify:
        print(json.dumps(["at", event.root_x, event.root_y]), file=log, flush=True)
"""


def _points(count: int) -> list[Point]:
    """Points that every dialect's space of coordinates keeps, too far apart for clicks to be joined, near for drags."""
    found: list[Point] = []
    for number in range(10_000):
        point = Point(x=200 + 11 * number % 401, y=200 + 29 * number % 203)
        moves = [dialect.parse(dialect.render(Move(point=point), VIEW), VIEW).actions for dialect in DIALECTS.values()]
        near = any(abs(point.x - other.x) < 8 and abs(point.y - other.y) < 8 for other in found)
        if not near and all(actions == (Move(point=point),) for actions in moves):
            found.append(point)
        if len(found) == count:
            return found
    raise AssertionError("no points are kept by every dialect")


# Each action has places of its own, so that the clicks of two cases in a row need no pause between them.
P = _points(29)
ACTIONS: dict[str, tuple[Action, ...]] = {
    "move": (Move(point=P[0]),),
    "click": (Click(point=P[1]),),
    "click at the pointer": (Move(point=P[2]), Click()),
    "right click": (Click(point=P[3], button="right"),),
    "middle click": (Click(point=P[4], button="middle"),),
    "back click": (Click(point=P[5], button="back"),),
    "double click": (Click(point=P[6], clicks=2),),
    "triple click": (Click(point=P[7], clicks=3),),
    "click with ctrl": (Click(point=P[8], modifiers=("ctrl",)),),
    "double click with ctrl and shift": (Click(point=P[9], clicks=2, modifiers=("ctrl", "shift")),),
    "press and release a button": (ButtonDown(point=P[10]), Move(point=P[11]), ButtonUp(point=P[12])),
    "drag": (Drag(path=(P[13], P[14])),),
    "drag from the pointer": (Click(point=P[15]), Drag(path=(P[16],))),
    "drag through a point": (Drag(path=(P[17], P[18], P[19])),),
    "drag with the right button": (Drag(path=(P[20], P[21]), button="right"),),
    "drag with shift": (Drag(path=(P[22], P[23]), modifiers=("shift",)),),
    "scroll up": (Scroll(point=P[24], dy=5),),
    "scroll down at the pointer": (Move(point=P[25]), Scroll(dy=-10)),
    "scroll right": (Scroll(point=P[26], dx=5),),
    "scroll down and left": (Scroll(point=P[27], dx=-5, dy=-5),),
    "scroll with ctrl": (Scroll(point=P[28], dy=5, modifiers=("ctrl",)),),
    "type": (TypeText(text='it\'s; (C:\\new) <"é美😀">\n\tx'),),
    "press enter": (Press(keys=("enter",)),),
    "press ctrl+s": (Press(keys=("ctrl", "s")),),
    "press ctrl++": (Press(keys=("ctrl", "+")),),
    "press ctrl+S": (Press(keys=("ctrl", "S")),),
    "press alt+shift+pagedown": (Press(keys=("alt", "shift", "pagedown")),),
    "hold and release a key": (KeyDown(key="shift"), Press(keys=("left",)), KeyUp(key="shift")),
}

# What a declared loss takes away: single clicks are not joined to a triple one.
_NO_TRIPLE = {"openai", "openai-preview", "uitars", "uitars-v1", "anthropic-20241022", "browsergym", "cua-bench"}


def _cases() -> dict[tuple[str, str], tuple[Action, ...]]:
    cases: dict[tuple[str, str], tuple[Action, ...]] = {}
    for name, dialect in DIALECTS.items():
        for label, actions in ACTIONS.items():
            if label == "triple click" and name in _NO_TRIPLE:
                continue
            try:
                written = [dialect.render(action, VIEW) for action in actions]
            except Inexpressible:
                continue
            turns = [dialect.parse(text, VIEW) for text in written]
            assert all(turn.error is None for turn in turns), (label, name, turns)
            cases[label, name] = tuple(action for turn in turns for action in turn.actions)
    return cases


CASES = _cases()
"""(action, dialect) -> what the dialect's own text of the action is read as."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """What arrived at the window."""

    direct: dict[str, list[Any]]
    """Of each action, executed as it is."""
    spoken: dict[tuple[str, str], list[Any]]
    """Of each case."""


async def measure(desktop: Desktop) -> Effects:
    """Execute every action and every case on a desktop of the size `SCREEN`."""
    await desktop.spawn(["python3", "-c", _RECORDER, LOG])
    await _wait_for(desktop, lambda log: bool(log))
    runs: list[Sequence[Action]] = [*ACTIONS.values(), *CASES.values()]
    for actions in runs:
        done = await desktop.step([*actions, Press(keys=("pause",))], want=(), settle=NO_WAIT, deadline_s=30)
        assert all(result.ok for result in done.actions), (actions, done.actions)
    log = await _wait_for(desktop, lambda log: log.count(["key up", MARK]) == len(runs))
    effects = [_effect(part, points=_path(actions)) for part, actions in zip(_parts(log), runs, strict=True)]
    return Effects(
        direct=dict(zip(ACTIONS, effects[: len(ACTIONS)], strict=True)),
        spoken=dict(zip(CASES, effects[len(ACTIONS) :], strict=True)),
    )


async def _wait_for(desktop: Desktop, check: Any, *, timeout_s: float = 20.0) -> list[Any]:
    until = time.monotonic() + timeout_s
    while True:
        try:
            lines = (await desktop.get_file(LOG)).decode().split("\n")[:-1]
        except OSError:
            lines = []
        log = [json.loads(line) for line in lines]
        if check(log):
            return log[1:]
        assert time.monotonic() < until, f"the recorder's log stays at {log[-5:]}"
        await asyncio.sleep(0.05)


def _parts(log: list[Any]) -> list[list[Any]]:
    parts: list[list[Any]] = [[]]
    for event in log:
        if event == ["key up", MARK]:
            parts.append([])
        elif event != ["key down", MARK]:
            parts[-1].append(event)
    return parts[:-1]


def _path(actions: Sequence[Action]) -> set[tuple[int, int]]:
    points = [point for action in actions for point in (getattr(action, "point", None), *getattr(action, "path", ()))]
    return {(point.x, point.y) for point in points if point is not None}


def _effect(events: list[Any], *, points: set[tuple[int, int]]) -> list[Any]:
    made: list[Any] = []
    held = 0
    last: tuple[Any, ...] = ()
    last_ms, clicks = 0, 1
    place = (-1, -1)
    for event in events:
        match event:
            case ["at", x, y]:
                place = (x, y)
                if held and place in points and made[-1] != ("via", x, y):
                    made.append(("via", x, y))
            case ["down", button, x, y, at_ms]:
                joined = last == (button, x, y) and at_ms - last_ms <= JOINED_MS and button < 4
                clicks = clicks + 1 if joined else 1
                last, last_ms, place = (button, x, y), at_ms, (x, y)
                held += button not in (4, 5, 6, 7)
                made.append(("down", button, x, y, clicks))
            case ["up", button, x, y, _]:
                held -= button not in (4, 5, 6, 7)
                if made and made[-1] == ("via", x, y):
                    made.pop()  # where it ends is said by the release
                made.append(("up", button, x, y))
            case ["key down" | "key up" as word, symbol]:
                made.append((word, symbol))
    return [*made, ("pointer", *place)] if place != (-1, -1) else made
