"""The Qwen dialects: calls of `computer_use` in tags, from Qwen2.5-VL (`qwen25`) and Qwen3-VL (`qwen3`).

::

    <tool_call>
    {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 300]}}
    </tool_call>

They differ in what a coordinate counts: `qwen25` pixels of the picture as its encoder resizes it (multiples of 28),
`qwen3` a grid from 0 to 999, `qwen3-absolute` resized pixels again (multiples of 32). A call may also stand without
tags, in a fence, as bare arguments, or as a chat message's tool call. A drag starts at the pointer: `mouse_move`
directly before it is its start. 120 pixels of scrolling are a click of the wheel, and positive is up and right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sandbox.actions import (
    MAX_WAIT_S,
    Action,
    Answer,
    Button,
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
from sandbox.dialects.fields import Fields
from sandbox.dialects.json_text import Json, load, segments, split_thinking
from sandbox.dialects.parts import (
    PIXELS_PER_CLICK,
    drags_joined,
    one_way_scrolls,
    pixels_to_clicks,
    scrolls,
    single_clicks,
)
from sandbox.dialects.protocol import (
    Inexpressible,
    ParsedTurn,
    ParseError,
    Reading,
    Rejected,
    View,
    read_turn,
    result_text,
)
from sandbox.dialects.replies import Called, Said, assemble
from sandbox.dialects.view import Space
from sandbox.keys import render_key

__all__ = ["Qwen"]

TOOL = "computer_use"
_CLICKS: dict[str, tuple[Button, int]] = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
_STATUS: dict[str, type[Done] | type[Infeasible]] = {"success": Done, "failure": Infeasible}
_LOSSES = MappingProxyType(
    {
        "point": "where the space of coordinates is coarser than the screen, a point becomes the nearest one in it",
        "click": "multiple clicks of other buttons than the left become single ones; the buttons back and forward, and "
        "modifiers, cannot be written",
        "button_down": "cannot be written",
        "button_up": "cannot be written",
        "drag": "cannot be written but with the left button, one or two points and no modifiers",
        "scroll": "a scroll in both directions becomes two; modifiers cannot be written",
        "press": "cannot be written when it is held for a time",
        "key_down": "cannot be written",
        "key_up": "cannot be written",
        "screenshot": "becomes a wait of no time",
    }
)


class Qwen:
    """A dialect of Qwen's `computer_use` tool.

    Args:
        space: what its coordinates count.
    """

    lossy: Mapping[str, str] = _LOSSES

    def __init__(self, name: str, space: Space) -> None:
        self.name = name
        self._space = space

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read calls. Never raises."""
        return read_turn(text, lambda given: _read(given, view, self._space))

    def render(self, action: Action, view: View) -> str:
        """Write one action as a call (or several)."""
        calls = [{"name": TOOL, "arguments": each} for each in _write(action, view, self._space)]
        return "\n".join(f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in calls)

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake."""
        return f"<tool_response>\n{result_text(error)}\n</tool_response>"

    def system_prompt_fragment(self, view: View) -> str:
        """The tool and the form of its calls, as these models know them."""
        function = json.dumps(self.tool_schema(view), ensure_ascii=False)
        return f"""\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{function}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """The function `computer_use`, with the size of the space of its coordinates."""
        width, height = view.size(self._space)
        description = (
            "Use a mouse and keyboard to interact with a computer, and take screenshots. "
            f"The screen's resolution is {width}x{height}; coordinates go from 0 to {width - 1} and {height - 1}."
        )
        properties: dict[str, Any] = {
            "action": {"type": "string", "enum": list(_ACTIONS)},
            "keys": {"type": "array", "items": {"type": "string"}, "description": "Keys held together, for key."},
            "text": {"type": "string", "description": "For type and answer; for terminate the reason of a failure."},
            "coordinate": {"type": "array", "items": {"type": "number"}, "description": "[x, y]"},
            "pixels": {"type": "number", "description": "For scroll and hscroll; positive is up and right."},
            "time": {"type": "number", "description": "Seconds, for wait."},
            "status": {"type": "string", "enum": list(_STATUS), "description": "For terminate."},
        }
        parameters = {"type": "object", "properties": properties, "required": ["action"]}
        return {"type": "function", "function": {"name": TOOL, "description": description, "parameters": parameters}}


def _read(text: str, view: View, space: Space) -> Reading:
    thought, said = split_thinking(text)
    parts: list[Said | Called] = []
    for segment in segments(said):
        if isinstance(segment, Json):
            parts += [_part(call, view, space) for call in _calls(segment.value)]
        else:
            parts.append(Said(text=segment.text))
    reading = assemble(parts, thought=thought, noun="call", ends_in_words=False)
    if not reading.actions:
        raise Rejected("there is no <tool_call> in the reply")
    return replace(reading, actions=drags_joined(reading.actions))


def _part(call: dict[str, Any], view: View, space: Space) -> Called:
    given_id = call.get("id")
    return Called(read=lambda: _call(call, view, space), id=given_id if isinstance(given_id, str) else None)


def _calls(value: Any) -> Iterator[dict[str, Any]]:
    listed = value.get("tool_calls") if isinstance(value, dict) else value
    for call in listed if isinstance(listed, list) else [value]:
        if not isinstance(call, dict):
            raise Rejected("a call must be an object")
        yield call


def _call(call: dict[str, Any], view: View, space: Space) -> list[Action]:
    function = call.get("function", call)
    if not isinstance(function, dict):
        raise Rejected("function: must be an object")
    if function.get("name") not in (None, TOOL, "computer"):
        raise Rejected(f"name: there is only the function {TOOL}, not {str(function['name'])[:40]!r}")
    given = function.get("arguments", {k: v for k, v in function.items() if k not in ("name", "id", "type")})
    if isinstance(given, str):
        given = load(given)
    if not isinstance(given, dict):
        raise Rejected("arguments: must be an object")
    kind = given.get("action")
    if not isinstance(kind, str) or kind not in _ACTIONS:
        raise Rejected(f"action: must be one of {', '.join(_ACTIONS)}, not {str(kind)[:40]!r}")
    fields = Fields({k: v for k, v in given.items() if k != "action"}, of=kind, view=view, space=space)
    actions = _ACTIONS[kind](kind, fields)
    fields.no_more()
    return actions


def _click(kind: str, fields: Fields) -> list[Action]:
    button, clicks = _CLICKS[kind]
    return [Click(point=fields.point("coordinate"), button=button, clicks=clicks)]


def _move(kind: str, fields: Fields) -> list[Action]:
    point = fields.point("coordinate", required=True)
    assert point is not None
    return [Move(point=point) if kind == "mouse_move" else Drag(path=(point,))]


def _key(kind: str, fields: Fields) -> list[Action]:
    keys = fields.chord("keys")
    if not keys:
        raise Rejected("keys: key needs at least one key")
    return [Press(keys=keys)]


def _scroll(kind: str, fields: Fields) -> list[Action]:
    clicks = pixels_to_clicks(fields.number("pixels"))
    dx, dy = (clicks, 0) if kind == "hscroll" else (0, clicks)
    return scrolls(dx, dy, point=fields.point("coordinate"))


def _wait(kind: str, fields: Fields) -> list[Action]:
    return [Wait(seconds=fields.number("time", 1.0, least=0, most=MAX_WAIT_S))]


def _terminate(kind: str, fields: Fields) -> list[Action]:
    ending = fields.one_of("status", _STATUS)
    return [Done() if ending is Done else Infeasible(reason=fields.text("text", ""))]


_ACTIONS: dict[str, Callable[[str, Fields], list[Action]]] = {
    "key": _key,
    "type": lambda kind, fields: [TypeText(text=fields.text("text"))],
    "mouse_move": _move,
    **dict.fromkeys(_CLICKS, _click),
    "left_click_drag": _move,
    "scroll": _scroll,
    "hscroll": _scroll,
    "wait": _wait,
    "terminate": _terminate,
    "answer": lambda kind, fields: [Answer(text=fields.text("text"))],
}


def _write(action: Action, view: View, space: Space) -> Iterator[dict[str, Any]]:
    def at(point: Point | None) -> dict[str, list[float]]:
        return {} if point is None else {"coordinate": list(view.place(point, space=space))}

    match action:
        case Move():
            yield {"action": "mouse_move", **at(action.point)}
        case Click(button="left", modifiers=()) | Click(button="right" | "middle", clicks=1, modifiers=()):
            kind = next(name for name, meaning in _CLICKS.items() if meaning == (action.button, action.clicks))
            yield {"action": kind, **at(action.point)}
        case Click(button="right" | "middle", modifiers=()):
            for each in single_clicks(action):
                yield from _write(each, view, space)
        case Drag(button="left", path=(*start, end), modifiers=()) if len(start) < 2:
            if start:
                yield {"action": "mouse_move", **at(start[0])}
            yield {"action": "left_click_drag", **at(end)}
        case Scroll(dx=dx, dy=dy, modifiers=()):
            if dx and dy:
                for each in one_way_scrolls(action):
                    yield from _write(each, view, space)
            else:
                kind = "hscroll" if dx else "scroll"
                yield {"action": kind, **at(action.point), "pixels": (dx or dy) * PIXELS_PER_CLICK}
        case TypeText():
            yield {"action": "type", "text": action.text}
        case Press(hold_s=0):
            yield {"action": "key", "keys": [render_key(key) for key in action.keys]}
        case Wait():
            yield {"action": "wait", "time": action.seconds}
        case Screenshot():
            yield {"action": "wait", "time": 0}
        case Done():
            yield {"action": "terminate", "status": "success"}
        case Infeasible():
            yield {"action": "terminate", "status": "failure"} | ({"text": action.reason} if action.reason else {})
        case Answer():
            yield {"action": "answer", "text": action.text}
        case _:
            raise Inexpressible(f"Qwen's {TOOL} has no words for {action.kind} with these arguments")
