"""The OpenAI dialects: computer calls, one action each (`openai-preview`) or several in a batch (`openai`).

Both read both. A reply is the JSON of the API's output: an item, a list of items, a response, a chat message with tool
calls, or bare actions, with or without prose around::

    {"type": "computer_call", "call_id": "call_1", "actions": [{"type": "click", "button": "left", "x": 1, "y": 2}]}

A reply without a call is the final message (`endings`). Beside calls a message is thought, unless it comes after the
last one and is an ending by itself. Coordinates are pixels of the picture shown; 120 pixels of scrolling are a click
of the wheel, and the API's positive y is down. `pending_safety_checks` are the client's to acknowledge: they stay in
`raw`.

In a chord with Ctrl, Alt or Super a capital letter is the name of its key: these models write `["CTRL", "A"]`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sandbox.actions import (
    Action,
    Answer,
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
from sandbox.dialects.endings import HOW_TO_END, write_ending
from sandbox.dialects.fields import Fields
from sandbox.dialects.json_text import Json, load, segments, split_thinking
from sandbox.dialects.parts import PIXELS_PER_CLICK, pixels_to_clicks, scrolls, single_clicks, times, with_keys_held
from sandbox.dialects.protocol import (
    Inexpressible,
    ParsedTurn,
    ParseError,
    Reading,
    Rejected,
    View,
    explain,
    read_turn,
    result_text,
)
from sandbox.dialects.replies import Called, Said, assemble
from sandbox.keys import render_key

__all__ = ["OpenAI"]

WAIT_S = 1.0
"""What one `wait` waits, seconds."""
_BUTTONS = {"left": "left", "right": "right", "wheel": "middle", "middle": "middle", "back": "back"} | {
    "forward": "forward"
}
_ARROWS = {"up", "down", "left", "right"}
_CAPITALS_ARE_KEYS = frozenset({"ctrl", "alt", "super", "ctrl_r", "alt_r", "super_r"})
_LOSSES = MappingProxyType(
    {
        "point": "where the picture shown is smaller than the screen, a point becomes the nearest one shown",
        "click": "a triple click, and a double one of another button than the left, become single clicks",
        "button_down": "cannot be written",
        "button_up": "cannot be written",
        "drag": "cannot be written but with the left button",
        "press": "cannot be written when it is held for a time",
        "key_down": "cannot be written",
        "key_up": "cannot be written",
        "wait": "becomes as many waits of one second, at least one",
    }
)


class OpenAI:
    """A dialect of OpenAI's computer tool.

    Args:
        batched: the tool's calls hold lists of actions; the older one's a single action.
    """

    lossy: Mapping[str, str] = _LOSSES

    def __init__(self, *, batched: bool) -> None:
        self.name = "openai" if batched else "openai-preview"
        self._batched = batched

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read the API's output. Never raises."""
        return read_turn(text, lambda given: _read(given, view))

    def render(self, action: Action, view: View) -> str:
        """Write one action as a computer call, or as the final message."""
        if isinstance(action, Done | Infeasible | Answer):
            content = [{"type": "output_text", "text": write_ending(action)}]
            return json.dumps({"type": "message", "role": "assistant", "content": content}, ensure_ascii=False)
        written = list(_write(action, view))
        if self._batched:
            return json.dumps({"type": "computer_call", "actions": written}, ensure_ascii=False)
        calls = [{"type": "computer_call", "action": each} for each in written]
        return "\n".join(json.dumps(call, ensure_ascii=False) for call in calls)

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake; a computer call's own output can only be a screenshot."""
        calls = f" (computer_call {', '.join(tool_call_ids)})" if tool_call_ids else ""
        return result_text(error) + calls

    def system_prompt_fragment(self, view: View) -> str:
        """Says how to use the tool, and how to end."""
        width, height = view.shown
        calls = "its actions are done in order" if self._batched else "one action a call"
        return f"""\
Act with the computer tool; {calls}. Coordinates are pixels of the {width}x{height} screenshot.
As JSON: {self.render(Click(point=Point(x=0, y=0)), View.unscaled(1, 1))}
To end, answer with a message and no call:
{HOW_TO_END}"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """The tool as the Responses API takes it."""
        if self._batched:
            return {"type": "computer"}
        width, height = view.shown
        return {
            "type": "computer_use_preview",
            "display_width": width,
            "display_height": height,
            "environment": "linux",
        }


def _read(text: str, view: View) -> Reading:
    thought, said = split_thinking(text)
    parts: list[Said | Called] = []
    for segment in segments(said):
        if isinstance(segment, Json):
            parts += [_part(item, view) for item in _items(segment.value)]
        else:
            parts.append(Said(text=segment.text))
    return assemble(parts, thought=thought, noun="call", ends_in_words=True)


def _items(value: Any, *, depth: int = 3) -> Iterator[dict[str, Any]]:
    """The output items in a JSON value, out of the API's envelopes."""
    if depth and isinstance(value, list):
        for each in value:
            yield from _items(each, depth=depth - 1)
    elif not isinstance(value, dict):
        raise Rejected("an output item must be an object")
    elif depth and isinstance(value.get("output"), list):
        yield from _items(value["output"], depth=depth - 1)
    elif depth and isinstance(value.get("tool_calls"), list):
        if value.get("content"):
            yield {"type": "message", "content": value["content"]}
        yield from _items(value["tool_calls"], depth=depth - 1)
    else:
        yield value


def _part(item: dict[str, Any], view: View) -> Said | Called:
    kind = item.get("type")
    if kind == "reasoning":
        return Said(text=_words(item.get("summary") or [], "summary"), reasoning=True)
    if kind in ("message", "output_text") or (kind is None and "content" in item):
        return Said(text=_words(item.get("content", item.get("text")), "content"))
    call_id = None if isinstance(kind, str) and kind in _ACTIONS else item.get("call_id", item.get("id"))
    return Called(read=lambda: _call(item, view), id=call_id if isinstance(call_id, str) else None)


def _call(item: dict[str, Any], view: View) -> list[Action]:
    if item.get("type") not in ("function_call", "function"):
        return _batch(item, view)
    function = item.get("function", item)
    if not isinstance(function, dict) or not str(function.get("name", "computer")).startswith("computer"):
        raise Rejected("name: there is only the tool computer")
    arguments = function.get("arguments")
    call = load(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(call, dict):
        raise Rejected("arguments: must be an object")
    return _batch(call, view)


def _batch(call: dict[str, Any], view: View) -> list[Action]:
    if not isinstance(call.get("actions"), list):
        return _action(call.get("action", call), view)
    made: list[Action] = []
    for number, action in enumerate(call["actions"]):
        try:
            made += _action(action, view)
        except ValueError as error:
            raise Rejected(f"actions[{number}].{explain(error)}") from error
    return made


def _action(action: Any, view: View) -> list[Action]:
    if not isinstance(action, dict):
        raise Rejected("action: must be an object with a type")
    kind = action.get("type")
    if not isinstance(kind, str) or kind not in _ACTIONS:
        raise Rejected(f"type: must be one of {', '.join(_ACTIONS)}, not {str(kind)[:40]!r}")
    fields = Fields({k: v for k, v in action.items() if k != "type"}, of=kind, view=view, space="shown")
    actions = _ACTIONS[kind](fields)
    fields.no_more()
    return actions


def _words(content: Any, name: str) -> str:
    parts = content if isinstance(content, list) else [content]
    texts: list[str] = []
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise Rejected(f"{name}: must be a text or a list of parts with a text")
        texts.append(text)
    return "\n".join(texts)


def _keys(fields: Fields) -> tuple[str, ...]:
    keys = fields.chord("keys")
    if _CAPITALS_ARE_KEYS.isdisjoint(keys):
        return keys
    written = fields.names("keys")
    return tuple(key.lower() if len(key) == 1 and "A" <= key <= "Z" and key in written else key for key in keys)


def _click(fields: Fields) -> list[Action]:
    button = fields.one_of("button", _BUTTONS, "left")
    return [Click(point=fields.xy(), button=button, modifiers=_keys(fields))]


def _double_click(fields: Fields) -> list[Action]:
    button = fields.one_of("button", _BUTTONS, "left")
    return [Click(point=fields.xy(), button=button, clicks=2, modifiers=_keys(fields))]


def _drag(fields: Fields) -> list[Action]:
    path = [fields.point_of(f"path[{at}]", each) for at, each in enumerate(fields.items("path"))]
    return [Drag(path=tuple(path), modifiers=_keys(fields))]


def _move(fields: Fields) -> list[Action]:
    point = fields.xy(required=True)
    assert point is not None
    return with_keys_held(_keys(fields), [Move(point=point)])


def _scroll(fields: Fields) -> list[Action]:
    dx, dy = (pixels_to_clicks(fields.number(name, 0)) for name in ("scroll_x", "scroll_y"))
    return scrolls(dx, -dy, point=fields.xy(), modifiers=_keys(fields))


def _keypress(fields: Fields) -> list[Action]:
    keys = _keys(fields)
    if not keys:
        raise Rejected("keys: keypress needs at least one key")
    return [Press(keys=keys)]


_ACTIONS: dict[str, Callable[[Fields], list[Action]]] = {
    "click": _click,
    "double_click": _double_click,
    "drag": _drag,
    "keypress": _keypress,
    "move": _move,
    "screenshot": lambda fields: [Screenshot()],
    "scroll": _scroll,
    "type": lambda fields: [TypeText(text=fields.text("text"))],
    "wait": lambda fields: [Wait(seconds=WAIT_S)],
}


def _write(action: Action, view: View) -> Iterator[dict[str, Any]]:
    match action:
        case Click(clicks=1):
            button = "wheel" if action.button == "middle" else action.button
            yield {"type": "click", "button": button, **_xy(action.point, view), **_held(action.modifiers)}
        case Click(clicks=2, button="left"):
            yield {"type": "double_click", **_xy(action.point, view), **_held(action.modifiers)}
        case Click():
            for each in single_clicks(action):
                yield from _write(each, view)
        case Drag(button="left"):
            path = [_xy(point, view) for point in action.path]
            yield {"type": "drag", "path": path, **_held(action.modifiers)}
        case Move():
            yield {"type": "move", **_xy(action.point, view)}
        case Press(hold_s=0):
            yield {"type": "keypress", "keys": _key_names(action.keys)}
        case Screenshot():
            yield {"type": "screenshot"}
        case Scroll():
            pixels = {"scroll_x": action.dx * PIXELS_PER_CLICK, "scroll_y": -action.dy * PIXELS_PER_CLICK}
            yield {"type": "scroll", **_xy(action.point, view), **pixels, **_held(action.modifiers)}
        case TypeText():
            yield {"type": "type", "text": action.text}
        case Wait():
            for _ in range(times(action.seconds, WAIT_S)):
                yield {"type": "wait"}
        case _:
            raise Inexpressible(f"OpenAI's computer tool has no words for {action.kind} with these arguments")


def _xy(point: Point | None, view: View) -> dict[str, float]:
    if point is None:
        return {}
    x, y = view.place(point, space="shown")
    return {"x": x, "y": y}


def _held(modifiers: tuple[str, ...]) -> dict[str, list[str]]:
    return {"keys": _key_names(modifiers)} if modifiers else {}


def _key_names(keys: tuple[str, ...]) -> list[str]:
    """Names as these models write them; a capital letter by its code point, since `A` beside Ctrl is the key `a`."""
    named = not _CAPITALS_ARE_KEYS.isdisjoint(keys)
    return [f"U{ord(key):04X}" if named and "A" <= key <= "Z" else _key_name(key) for key in keys]


def _key_name(key: str) -> str:
    if len(key) == 1:
        return render_key(key)
    return f"ARROW{key.upper()}" if key in _ARROWS else key.upper()
