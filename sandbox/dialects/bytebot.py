"""The bytebot dialect: the computer actions of bytebot's agents, as tool uses or as the bodies of its requests.

::

    {"type": "tool_use", "id": ID, "name": "computer_click_mouse", "input": {"coordinates": {"x": 1, "y": 2}}}
    {"action": "click_mouse", "coordinates": {"x": 1, "y": 2}, "button": "left", "clickCount": 1}

`set_task_status` ends the episode: completed, or needs_help and failed for what cannot be done. So does a reply without
a tool use, which is the final message (`endings`). Coordinates are pixels of the picture shown, scrolls are counted in
clicks, waits in milliseconds; delays are read and dropped. `application`, `read_file` and `write_file` are refused: a
desktop is used through its screen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sandbox.actions import (
    MAX_SCROLL,
    Action,
    Answer,
    ButtonDown,
    ButtonUp,
    Click,
    Done,
    Drag,
    Infeasible,
    KeyDown,
    KeyUp,
    Move,
    Point,
    Press,
    Screenshot,
    Scroll,
    TypeText,
    Wait,
)
from sandbox.dialects.content_blocks import read_blocks, write_results
from sandbox.dialects.endings import write_ending
from sandbox.dialects.fields import Fields
from sandbox.dialects.parts import DIRECTIONS, direction_of, one_way_scrolls, scrolls, strokes, waits, with_keys_held
from sandbox.dialects.protocol import (
    MAX_ACTIONS,
    Inexpressible,
    ParsedTurn,
    ParseError,
    Rejected,
    View,
    read_turn,
)
from sandbox.keys import render_key

__all__ = ["Bytebot"]

MAX_WAIT_MS = 600_000
_PREFIX = "computer_"
_STATUS = "set_task_status"
_BUTTONS = {"left": "left", "right": "right", "middle": "middle"}
_NOT_OFFERED = {
    "application": "start it as a person does, from the desktop",
    "read_file": "open the file in a program on the screen",
    "write_file": "write the file with a program on the screen",
}
_LOSSES = MappingProxyType(
    {
        "point": "where the picture shown is smaller than the screen, a point becomes the nearest one shown",
        "click": "cannot be written with the buttons back and forward",
        "button_down": "cannot be written with the buttons back and forward",
        "button_up": "cannot be written with the buttons back and forward",
        "drag": "from the pointer becomes a press, a move and a release, and its modifiers keys held around it; cannot "
        "be written with the buttons back and forward",
        "scroll": "a scroll in both directions becomes two",
        "press": "a chord that is held becomes its keys held around a wait",
        "wait": "is rounded to a millisecond",
    }
)


class Bytebot:
    """The dialect `bytebot`."""

    name = "bytebot"
    lossy: Mapping[str, str] = _LOSSES

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read tool uses. Never raises."""
        return read_turn(text, lambda given: read_blocks(given, lambda block: _call(block, view)))

    def render(self, action: Action, view: View) -> str:
        """Write one action as a `tool_use` block (or several), an answer as the final text."""
        if isinstance(action, Answer):
            return json.dumps({"type": "text", "text": write_ending(action)}, ensure_ascii=False)
        blocks = [{"type": "tool_use", "name": name, "input": given} for name, given in _write(action, view)]
        return "\n".join(json.dumps(block, ensure_ascii=False) for block in blocks)

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake; as `tool_result` blocks where ids are given."""
        return write_results(error, tool_call_ids)

    def system_prompt_fragment(self, view: View) -> str:
        """Lists the actions with the limits of coordinates."""
        width, height = view.shown
        return f"""\
Answer with one JSON object for each action. POINT is {{"x": X, "y": Y}} in pixels of the {width}x{height} screenshot.
{{"action": "move_mouse", "coordinates": POINT}}, also trace_mouse with a path of points
{{"action": "click_mouse", "coordinates": POINT, "button": "left" or "right" or "middle", "clickCount": 1 to 3}}
{{"action": "press_mouse", "button": "left", "press": "down" or "up"}}
{{"action": "drag_mouse", "path": [POINT, POINT], "button": "left"}}
{{"action": "scroll", "coordinates": POINT, "direction": "up" or "down" or "left" or "right", "scrollCount": CLICKS}}
{{"action": "type_keys", "keys": [KEY, KEY]}}: a chord; press_keys with "press": "down" or "up" holds and releases
{{"action": "type_text", "text": TEXT}}, also paste_text
{{"action": "wait", "duration": MILLISECONDS}}
{{"action": "screenshot"}}
holdKeys: [KEY] may be added to what the mouse does.
{{"action": "{_STATUS}", "status": "completed" or "needs_help", "description": WHY}}: the task is done, or cannot be
An answer, where the task asks for one, is a text without any action: [ANSWER] TEXT"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """None: there is a tool for each action, and the prompt lists them."""
        return None


def _call(block: dict[str, Any], view: View) -> list[Action]:
    given = block.get("input", {k: v for k, v in block.items() if k not in ("type", "id", "name")})
    if not isinstance(given, dict):
        raise Rejected("input: must be an object")
    named = block.get("name")
    kind = given.get("action") if named in (None, "computer") else named
    kind = kind.removeprefix(_PREFIX) if isinstance(kind, str) else kind
    if isinstance(kind, str) and kind in _NOT_OFFERED:
        raise Rejected(f"action: {kind} is not offered; {_NOT_OFFERED[kind]}")
    if not isinstance(kind, str) or kind not in _ACTIONS:
        raise Rejected(f"action: must be one of {', '.join(_ACTIONS)}, not {str(kind)[:40]!r}")
    fields = Fields({k: v for k, v in given.items() if k != "action"}, of=kind, view=view, space="shown")
    actions = _ACTIONS[kind](fields)
    fields.no_more()
    return actions


def _held(fields: Fields) -> tuple[str, ...]:
    return fields.chord("holdKeys")


def _path(fields: Fields) -> list[Point]:
    return [fields.point_of(f"path[{at}]", each) for at, each in enumerate(fields.items("path"))]


def _move(fields: Fields) -> list[Action]:
    point = fields.point("coordinates", required=True)
    assert point is not None
    return [Move(point=point)]


def _trace(fields: Fields) -> list[Action]:
    moves = [Move(point=point) for point in _path(fields)]
    if not moves:
        raise Rejected("path: trace_mouse needs at least one point")
    return with_keys_held(_held(fields), moves)


def _click(fields: Fields) -> list[Action]:
    button = fields.one_of("button", _BUTTONS, "left")
    count = "numClicks" if fields.has("numClicks") else "clickCount"
    clicks = fields.whole(count, 1, least=1, most=3)
    return [Click(point=fields.point("coordinates"), button=button, clicks=clicks, modifiers=_held(fields))]


def _press_mouse(fields: Fields) -> list[Action]:
    make = fields.one_of("press", {"down": ButtonDown, "up": ButtonUp})
    return [make(point=fields.point("coordinates"), button=fields.one_of("button", _BUTTONS, "left"))]


def _drag(fields: Fields) -> list[Action]:
    path = _path(fields)
    if len(path) < 2:
        raise Rejected(f"path: drag_mouse needs at least two points, not {len(path)}")
    return [Drag(path=tuple(path), button=fields.one_of("button", _BUTTONS, "left"), modifiers=_held(fields))]


def _scroll(fields: Fields) -> list[Action]:
    dx, dy = fields.one_of("direction", DIRECTIONS)
    count = "numScrolls" if fields.has("numScrolls") else "scrollCount"
    amount = fields.whole(count, 1, least=0, most=MAX_SCROLL * MAX_ACTIONS)
    return scrolls(dx * amount, dy * amount, point=fields.point("coordinates"), modifiers=_held(fields))


def _keys(fields: Fields) -> tuple[str, ...]:
    keys = fields.chord("keys")
    if not keys:
        raise Rejected("keys: there must be at least one key")
    return keys


def _type_keys(fields: Fields) -> list[Action]:
    _delay(fields)
    return [Press(keys=_keys(fields))]


def _press_keys(fields: Fields) -> list[Action]:
    make = fields.one_of("press", {"down": KeyDown, "up": KeyUp})
    return [make(key=key) for key in _keys(fields)]


def _type(fields: Fields) -> list[Action]:
    _delay(fields)
    return [TypeText(text=fields.text("text"))]


def _delay(fields: Fields) -> None:
    fields.number("delay", 0, least=0)


def _status(fields: Fields) -> list[Action]:
    done = fields.one_of("status", {"completed": True, "needs_help": False, "failed": False})
    description = fields.text("description", "")
    return [Done() if done else Infeasible(reason=description)]


_ACTIONS: dict[str, Callable[[Fields], list[Action]]] = {
    "move_mouse": _move,
    "trace_mouse": _trace,
    "click_mouse": _click,
    "press_mouse": _press_mouse,
    "drag_mouse": _drag,
    "scroll": _scroll,
    "type_keys": _type_keys,
    "press_keys": _press_keys,
    "type_text": _type,
    "paste_text": _type,
    "wait": lambda fields: waits(fields.number("duration", 500, least=0, most=MAX_WAIT_MS) / 1000),
    "screenshot": lambda fields: [Screenshot()],
    "cursor_position": lambda fields: [Screenshot()],  # the pointer is drawn in every screenshot
    _STATUS: _status,
}


def _write(action: Action, view: View) -> Iterator[tuple[str, dict[str, Any]]]:
    if getattr(action, "button", "left") not in _BUTTONS:
        raise Inexpressible(f"bytebot has no button {getattr(action, 'button', '')}")
    match action:
        case Move():
            yield f"{_PREFIX}move_mouse", _at(action.point, view)
        case Click():
            count = {"button": action.button, "clickCount": action.clicks}
            yield f"{_PREFIX}click_mouse", {**_at(action.point, view), **count, **_holding(action.modifiers)}
        case ButtonDown() | ButtonUp():
            press = {"button": action.button, "press": "down" if isinstance(action, ButtonDown) else "up"}
            yield f"{_PREFIX}press_mouse", {**_at(action.point, view), **press}
        case Drag(path=(_,)):
            for each in with_keys_held(action.modifiers, strokes(action)):
                yield from _write(each, view)
        case Drag():
            path = [_xy(point, view) for point in action.path]
            yield f"{_PREFIX}drag_mouse", {"path": path, "button": action.button, **_holding(action.modifiers)}
        case Scroll():
            for turn in one_way_scrolls(action):
                assert isinstance(turn, Scroll)
                yield f"{_PREFIX}scroll", {**_at(turn.point, view), **_turn(turn), **_holding(turn.modifiers)}
        case TypeText():
            yield f"{_PREFIX}type_text", {"text": action.text}
        case Press(hold_s=0):
            yield f"{_PREFIX}type_keys", {"keys": [render_key(key) for key in action.keys]}
        case Press():
            for each in with_keys_held(action.keys, [Wait(seconds=action.hold_s)]):
                yield from _write(each, view)
        case KeyDown() | KeyUp():
            press = {"press": "down" if isinstance(action, KeyDown) else "up"}
            yield f"{_PREFIX}press_keys", {"keys": [render_key(action.key)], **press}
        case Wait():
            yield f"{_PREFIX}wait", {"duration": round(action.seconds * 1000)}
        case Screenshot():
            yield f"{_PREFIX}screenshot", {}
        case Done():
            yield _STATUS, {"status": "completed", "description": ""}
        case Infeasible():
            yield _STATUS, {"status": "needs_help", "description": action.reason}


def _turn(scroll: Scroll) -> dict[str, Any]:
    return {"direction": direction_of(scroll), "scrollCount": abs(scroll.dx) + abs(scroll.dy)}


def _xy(point: Point, view: View) -> dict[str, float]:
    x, y = view.place(point, space="shown")
    return {"x": x, "y": y}


def _at(point: Point | None, view: View) -> dict[str, Any]:
    return {} if point is None else {"coordinates": _xy(point, view)}


def _holding(keys: tuple[str, ...]) -> dict[str, Any]:
    return {"holdKeys": [render_key(key) for key in keys]} if keys else {}
