"""The Anthropic dialects: the computer tool in its versions 20241022, 20250124 and 20251124.

Each reads all three; they differ in what they write and in the tool definition. A reply is the JSON of the API's
output: a `tool_use` block, a list of content blocks, a message, or bare inputs, with or without prose around::

    {"type": "tool_use", "id": "toolu_1", "name": "computer", "input": {"action": "left_click", "coordinate": [1, 2]}}

A reply without a tool use is the final message (`endings`). Beside tool uses a text block is thought, unless it comes
after the last one and is an ending by itself; a `thinking` block is always thought. Coordinates are pixels of the
picture shown. Keys are named as xdotool does (`ctrl+s`, `Page_Down`); several chords after each other are separated by
spaces. Also read are the clicks, `press_enter` and batches (`actions`) of other programs' tools of the same kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from sandbox.actions import (
    MAX_SCROLL,
    MAX_WAIT_S,
    Action,
    Answer,
    Button,
    ButtonDown,
    ButtonUp,
    Click,
    Done,
    Drag,
    Infeasible,
    Move,
    Point,
    Press,
    Screenshot,
    Scroll,
    TypeText,
    Wait,
)
from sandbox.dialects.content_blocks import read_blocks, write_results
from sandbox.dialects.endings import HOW_TO_END, write_ending
from sandbox.dialects.fields import Fields
from sandbox.dialects.parts import DIRECTIONS, at_pointer, one_way_scrolls, scrolls, single_clicks, times, waits
from sandbox.dialects.protocol import (
    MAX_ACTIONS,
    Inexpressible,
    ParsedTurn,
    ParseError,
    Rejected,
    View,
    read_turn,
)
from sandbox.keys import canonical_key, parse_chord, render_key

__all__ = ["Anthropic", "Version"]

Version = Literal["20241022", "20250124", "20251124"]

LOOK_S = 2.0
"""What a screenshot stands for where a version has no wait, seconds: the pause before it."""
MAX_DURATION_S = 100.0
_CLICKS: dict[str, tuple[Button, int]] = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
_READ_ONLY: dict[str, tuple[Button, int]] = {"back_click": ("back", 1), "forward_click": ("forward", 1)}
"""Clicks that other programs' tools of the same kind have."""
_NOT_OFFERED = {
    "zoom": "every screenshot shows the whole screen",
    "open_web_browser": "start it as a person does, from the desktop",
    "navigate": "type the address into the browser",
}
_XDOTOOL = {
    "enter": "Return",
    "esc": "Escape",
    "tab": "Tab",
    "backspace": "BackSpace",
    "delete": "Delete",
    "insert": "Insert",
    "home": "Home",
    "end": "End",
    "pageup": "Page_Up",
    "pagedown": "Page_Down",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "+": "plus",
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
}
_POINT = "where the picture shown is smaller than the screen, a point becomes the nearest one shown"
_CLICK = "a double or triple click of another button than the left becomes single clicks; "
_LOSSES = {
    "point": _POINT,
    "click": _CLICK + "the buttons back and forward cannot be written",
    "button_down": "is a move and then a press; cannot be written but for the left button",
    "button_up": "is a move and then a release; cannot be written but for the left button",
    "drag": "cannot be written but with the left button and one or two points",
    "scroll": "a scroll in both directions becomes two",
    "key_down": "cannot be written",
    "key_up": "cannot be written",
}
_LOSSES_20241022 = {
    "point": _POINT,
    "click": "is a move and then the click; a triple click, and a double one of another button than the left, become "
    "single clicks; back, forward and modifiers cannot be written",
    "drag": "is a move and then a drag from there; cannot be written but with the left button, one or two points and "
    "no modifiers",
    "press": "cannot be written when it is held for a time",
    "wait": "becomes as many screenshots of two seconds each, at least one",
    **{kind: "cannot be written" for kind in ("button_down", "button_up", "scroll", "key_down", "key_up")},
}


class Anthropic:
    """A version of Anthropic's computer tool."""

    def __init__(self, version: Version) -> None:
        self.name = "anthropic" if version == "20251124" else f"anthropic-{version}"
        self.lossy: Mapping[str, str] = MappingProxyType(_LOSSES_20241022 if version == "20241022" else _LOSSES)
        self._version = version

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read the API's output. Never raises."""
        return read_turn(text, lambda given: read_blocks(given, lambda block: _call(block, view)))

    def render(self, action: Action, view: View) -> str:
        """Write one action as a `tool_use` block (or several), or as the final text."""
        if isinstance(action, Done | Infeasible | Answer):
            return json.dumps({"type": "text", "text": write_ending(action)}, ensure_ascii=False)
        write = _write_20241022 if self._version == "20241022" else _write
        blocks = [{"type": "tool_use", "name": "computer", "input": each} for each in write(action, view)]
        return "\n".join(json.dumps(block, ensure_ascii=False) for block in blocks)

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake; as `tool_result` blocks where ids are given."""
        return write_results(error, tool_call_ids)

    def system_prompt_fragment(self, view: View) -> str:
        """Says how to use the tool, and how to end."""
        width, height = view.shown
        return f"""\
Act with the computer tool. Coordinates are pixels of the {width}x{height} screenshot.
As JSON: {self.render(Click(point=Point(x=0, y=0)), View.unscaled(1, 1))}
To end, answer with a text and no tool use:
{HOW_TO_END}"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """The tool as the Messages API takes it."""
        width, height = view.shown
        return {
            "type": f"computer_{self._version}",
            "name": "computer",
            "display_width_px": width,
            "display_height_px": height,
            "display_number": 1,
        }


def _call(block: dict[str, Any], view: View) -> list[Action]:
    given = block.get("input", {k: v for k, v in block.items() if k not in ("type", "id", "name")})
    if block.get("name") not in (None, "computer"):
        raise Rejected(f"name: there is only the tool computer, not {str(block['name'])[:40]!r}")
    if not isinstance(given, dict):
        raise Rejected("input: must be an object")
    if isinstance(given.get("actions"), list):
        return [action for each in given["actions"] for action in _one(each, view)]
    return _one(given, view)


def _one(given: Any, view: View) -> list[Action]:
    if not isinstance(given, dict):
        raise Rejected("actions: each must be an object")
    kind = given.get("action")
    if not isinstance(kind, str) or kind not in _ACTIONS:
        if isinstance(kind, str) and kind in _NOT_OFFERED:
            raise Rejected(f"action: {kind} is not offered; {_NOT_OFFERED[kind]}")
        raise Rejected(f"action: must be one of {', '.join(_ACTIONS)}, not {str(kind)[:40]!r}")
    fields = Fields({k: v for k, v in given.items() if k != "action"}, of=kind, view=view, space="shown")
    actions = _ACTIONS[kind](kind, fields)
    fields.no_more()
    return actions


def _modifiers(fields: Fields) -> tuple[str, ...]:
    keys = fields.chord("text")
    return keys or fields.chord("key")


def _click(kind: str, fields: Fields) -> list[Action]:
    button, clicks = (_CLICKS | _READ_ONLY)[kind]
    return [Click(point=fields.point("coordinate"), button=button, clicks=clicks, modifiers=_modifiers(fields))]


def _move(kind: str, fields: Fields) -> list[Action]:
    point = fields.point("coordinate", required=True)
    assert point is not None
    return [Move(point=point)]


def _drag(kind: str, fields: Fields) -> list[Action]:
    start, end = fields.point("start_coordinate"), fields.point("coordinate", required=True)
    assert end is not None
    return [Drag(path=(end,) if start is None else (start, end), modifiers=_modifiers(fields))]


def _button(kind: str, fields: Fields) -> list[Action]:
    make = ButtonDown if kind == "left_mouse_down" else ButtonUp
    return [make(point=fields.point("coordinate"))]


def _scroll(kind: str, fields: Fields) -> list[Action]:
    dx, dy = fields.one_of("scroll_direction", DIRECTIONS)
    amount = fields.whole("scroll_amount", 5, least=0, most=MAX_SCROLL * MAX_ACTIONS)
    return scrolls(dx * amount, dy * amount, point=fields.point("coordinate"), modifiers=_modifiers(fields))


def _key(kind: str, fields: Fields) -> list[Action]:
    text = fields.text("text") if fields.has("text") or not fields.has("key") else fields.text("key")
    try:
        return [Press(keys=_chord(text))]
    except ValueError:
        words = text.split()
        if len(words) < 2:
            raise
        return [Press(keys=_chord(word)) for word in words]


def _hold(kind: str, fields: Fields) -> list[Action]:
    seconds = fields.number("duration", least=0, most=MAX_WAIT_S)
    return [Press(keys=_chord(fields.text("text")), hold_s=seconds)]


def _chord(text: str) -> tuple[str, ...]:
    return parse_chord(text) if len(text) > 1 else (canonical_key(text),)


def _wait(kind: str, fields: Fields) -> list[Action]:
    return waits(fields.number("duration", 1.0, least=0, most=MAX_DURATION_S))


_ACTIONS: dict[str, Callable[[str, Fields], list[Action]]] = {
    "key": _key,
    "type": lambda kind, fields: [TypeText(text=fields.text("text"))],
    "mouse_move": _move,
    **dict.fromkeys((*_CLICKS, *_READ_ONLY), _click),
    "left_click_drag": _drag,
    "screenshot": lambda kind, fields: [Screenshot()],
    "cursor_position": lambda kind, fields: [Screenshot()],  # the pointer is drawn in every screenshot
    "left_mouse_down": _button,
    "left_mouse_up": _button,
    "scroll": _scroll,
    "hold_key": _hold,
    "press_enter": lambda kind, fields: [Press(keys=("enter",))],
    "wait": _wait,
}


def _write(action: Action, view: View) -> Iterator[dict[str, Any]]:
    match action:
        case Move():
            yield {"action": "mouse_move", **_at("coordinate", action.point, view)}
        case Click(button="left") | Click(button="right" | "middle", clicks=1):
            kind = next(name for name, meaning in _CLICKS.items() if meaning == (action.button, action.clicks))
            yield {"action": kind, **_at("coordinate", action.point, view), **_held(action.modifiers)}
        case Click(button="right" | "middle"):
            for each in single_clicks(action):
                yield from _write(each, view)
        case ButtonDown(button="left", point=None):
            yield {"action": "left_mouse_down"}
        case ButtonUp(button="left", point=None):
            yield {"action": "left_mouse_up"}
        case ButtonDown(button="left") | ButtonUp(button="left"):
            for each in at_pointer(action):
                yield from _write(each, view)
        case Drag(button="left", path=(*start, end)) if len(start) < 2:
            begin = _at("start_coordinate", start[0] if start else None, view)
            yield {"action": "left_click_drag", **begin, **_at("coordinate", end, view), **_held(action.modifiers)}
        case Scroll(dx=dx, dy=dy) if dx and dy:
            for each in one_way_scrolls(action):
                yield from _write(each, view)
        case Scroll(dx=dx, dy=dy):
            direction = ("right" if dx > 0 else "left") if dx else ("up" if dy > 0 else "down")
            turn = {"scroll_direction": direction, "scroll_amount": abs(dx or dy)}
            yield {"action": "scroll", **_at("coordinate", action.point, view), **turn, **_held(action.modifiers)}
        case TypeText():
            yield {"action": "type", "text": action.text}
        case Press(hold_s=0):
            yield {"action": "key", "text": _chord_name(action.keys)}
        case Press():
            yield {"action": "hold_key", "text": _chord_name(action.keys), "duration": action.hold_s}
        case Wait():
            yield {"action": "wait", "duration": action.seconds}
        case Screenshot():
            yield {"action": "screenshot"}
        case _:
            raise Inexpressible(f"Anthropic's computer tool has no words for {action.kind} with these arguments")


def _write_20241022(action: Action, view: View) -> Iterator[dict[str, Any]]:
    match action:
        case Click(modifiers=(), point=Point() as point):
            yield from _write(Move(point=point), view)
            yield from _write_20241022(action.model_copy(update={"point": None}), view)
        case Click(modifiers=(), clicks=3, button="left"):
            for each in single_clicks(action):
                yield from _write_20241022(each, view)
        case Drag(modifiers=(), path=(start, end)):
            yield from _write(Move(point=start), view)
            yield from _write_20241022(action.model_copy(update={"path": (end,)}), view)
        case Click(modifiers=()) | Drag(modifiers=(), path=(_,)) | Move() | TypeText() | Press(hold_s=0) | Screenshot():
            yield from _write(action, view)
        case Wait():
            for _ in range(times(action.seconds, LOOK_S)):
                yield {"action": "screenshot"}
        case _:
            raise Inexpressible(f"computer_20241022 has no words for {action.kind} with these arguments")


def _at(name: str, point: Point | None, view: View) -> dict[str, list[float]]:
    return {} if point is None else {name: list(view.place(point, space="shown"))}


def _held(modifiers: tuple[str, ...]) -> dict[str, str]:
    return {"text": _chord_name(modifiers)} if modifiers else {}


def _chord_name(keys: tuple[str, ...]) -> str:
    return "+".join(_XDOTOOL.get(key) or render_key(key) for key in keys)
