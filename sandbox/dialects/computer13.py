"""The computer13 dialect: OSWorld's thirteen actions as JSON, and the words WAIT, DONE and FAIL.

::

    {"action_type": "CLICK", "x": 100, "y": 200}
    {"action_type": "HOTKEY", "parameters": {"keys": ["ctrl", "s"]}}
    DONE

Parameters may be flat or nested, several actions may stand in a list or after each other, in a fence or bare. A word
counts alone on its line in capitals, or alone as the whole reply in any case. Coordinates are pixels of the picture
shown. `MOVE_TO` directly before `DRAG_TO` is the start of that drag. Scrolling is in clicks, positive up and right.
"""

from __future__ import annotations

import json
import re
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
from sandbox.dialects.fields import Fields
from sandbox.dialects.json_text import Json, segments, split_thinking
from sandbox.dialects.parts import at_pointer, drags_joined, scrolls, strokes, times, with_keys_held
from sandbox.dialects.protocol import (
    MAX_ACTIONS,
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
from sandbox.keys import canonical_key, render_key

__all__ = ["Computer13"]

WAIT_S = 2.0
"""What WAIT waits, seconds: OSWorld's pause after a step."""
_BUTTONS = {"left": "left", "right": "right", "middle": "middle"}
_WORD = re.compile(r"""[\s*_`"'(\[]*(WAIT|DONE|FAIL)[\s*_`"')\].!]*""")
_WORD_ALONE = re.compile(_WORD.pattern, re.IGNORECASE)
_LAST_SENTENCE = re.compile(r"""[.!?:][*_`"')\]]*\s[\s*_`"'(\[]*(WAIT|DONE|FAIL)[\s*_`"')\].!]*$""")
_LOSSES = MappingProxyType(
    {
        "point": "where the picture shown is smaller than the screen, a point becomes the nearest one shown",
        "click": "modifiers become keys held around it; the buttons back and forward cannot be written",
        "button_down": "is a move and then a press; the buttons back and forward cannot be written",
        "button_up": "is a move and then a release; the buttons back and forward cannot be written",
        "drag": "of more than two points or another button than the left becomes presses and moves, and its modifiers "
        "keys held around it; the buttons back and forward cannot be written",
        "scroll": "is a move and then a scroll, with its modifiers held around it",
        "press": "a chord that is held becomes its keys held around waits of two seconds",
        "wait": "becomes as many waits of two seconds, at least one",
        "screenshot": "becomes a wait of two seconds",
        "infeasible": "becomes FAIL without its reason",
        "answer": "becomes DONE without its text",
    }
)


class Computer13:
    """The dialect `computer13`."""

    name = "computer13"
    lossy: Mapping[str, str] = _LOSSES

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read actions. Never raises."""
        return read_turn(text, lambda given: _read(given, view))

    def render(self, action: Action, view: View) -> str:
        """Write one action as an object (or several, one a line)."""
        return "\n".join(json.dumps(each, ensure_ascii=False) for each in _write(action, view))

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake."""
        return result_text(error)

    def system_prompt_fragment(self, view: View) -> str:
        """Lists the actions with their parameters and the limits of coordinates."""
        width, height = view.shown
        return f"""\
Answer with one JSON object for each action. x and y are pixels of the {width}x{height} screenshot.
{{"action_type": "MOVE_TO", "x": X, "y": Y}}
{{"action_type": "CLICK", "x": X, "y": Y, "button": "left" or "right" or "middle", "num_clicks": 1 to 3}}
{{"action_type": "RIGHT_CLICK", "x": X, "y": Y}}, also DOUBLE_CLICK
{{"action_type": "MOUSE_DOWN", "button": "left"}}, also MOUSE_UP
{{"action_type": "DRAG_TO", "x": X, "y": Y}}: from the pointer with the left button
{{"action_type": "SCROLL", "dx": CLICKS, "dy": CLICKS}}: positive is right and up
{{"action_type": "TYPING", "text": TEXT}}
{{"action_type": "PRESS", "key": KEY}}, also KEY_DOWN and KEY_UP
{{"action_type": "HOTKEY", "keys": [KEY, KEY]}}
Instead, or after the actions, a line can be one of these words:
WAIT    wait two seconds
DONE    the task is done
FAIL    the task cannot be done"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """None: this is plain text."""
        return None


def _read(text: str, view: View) -> Reading:
    thought, said = split_thinking(text)
    if match := _WORD_ALONE.fullmatch(said):
        return Reading(actions=[_WORDS[match[1].upper()]()], thought=thought)
    actions: list[Action] = []
    thoughts = [thought]
    num_actions = 0
    try:
        for segment in segments(said):
            if not isinstance(segment, Json):
                words, prose = _words(segment.text)
                actions += words
                thoughts.append(prose)
                continue
            for given in segment.value if isinstance(segment.value, list) else [segment.value]:
                num_actions += 1
                actions += _action(given, view)
    except ValueError as error:
        where = error.where if isinstance(error, Rejected) and error.where else f"action {num_actions or 1}"
        raise Rejected(explain(error), where=where) from error
    thought = "\n".join(part for part in thoughts if part)
    return Reading(actions=drags_joined(actions), thought=thought)


def _words(text: str) -> tuple[list[Action], str]:
    lines = text.split("\n")
    found: list[Action] = []
    prose = []
    for number, line in enumerate(lines, start=1):
        match = _WORD.fullmatch(line)
        if match is None and number == len(lines):
            match = _LAST_SENTENCE.search(line, max(0, len(line) - 60))
        if match is not None:
            found.append(_WORDS[match[1]]())
            line = line[: match.start()]
        prose.append(line)
    return found, "\n".join(prose).strip(" \n`")


def _action(given: Any, view: View) -> list[Action]:
    if isinstance(given, str) and given in _WORDS:
        return [_WORDS[given]()]
    if not isinstance(given, dict):
        raise Rejected("an action must be an object with an action_type")
    kind = given.get("action_type")
    kind = kind.upper() if isinstance(kind, str) else kind
    if not isinstance(kind, str) or kind not in _ACTIONS:
        raise Rejected(f"action_type: must be one of {', '.join(_ACTIONS)}, not {str(kind)[:40]!r}")
    flat = {name: value for name, value in given.items() if name not in ("action_type", "parameters")}
    nested = given.get("parameters") or {}
    if not isinstance(nested, dict):
        raise Rejected("parameters: must be an object")
    fields = Fields({**flat, **nested}, of=kind, view=view, space="shown")
    actions = _ACTIONS[kind](kind, fields)
    fields.no_more()
    return actions


def _move(kind: str, fields: Fields) -> list[Action]:
    point = fields.xy(required=True)
    assert point is not None
    return [Move(point=point) if kind == "MOVE_TO" else Drag(path=(point,))]


def _click(kind: str, fields: Fields) -> list[Action]:
    if kind == "RIGHT_CLICK":
        return [Click(point=fields.xy(), button="right")]
    if kind == "DOUBLE_CLICK":
        return [Click(point=fields.xy(), clicks=2)]
    clicks = fields.whole("num_clicks", 1, least=1, most=3)
    return [Click(point=fields.xy(), button=fields.one_of("button", _BUTTONS, "left"), clicks=clicks)]


def _button(kind: str, fields: Fields) -> list[Action]:
    make = ButtonDown if kind == "MOUSE_DOWN" else ButtonUp
    return [make(button=fields.one_of("button", _BUTTONS, "left"))]


def _scroll(kind: str, fields: Fields) -> list[Action]:
    most = MAX_SCROLL * MAX_ACTIONS
    dx, dy = (fields.whole(name, 0, least=-most, most=most) for name in ("dx", "dy"))
    return scrolls(dx, dy)


def _one_key(kind: str, fields: Fields) -> list[Action]:
    try:
        key = canonical_key(fields.text("key"))
    except Rejected:
        raise
    except ValueError as error:
        raise Rejected(f"key: {error}") from error
    if kind == "PRESS":
        return [Press(keys=(key,))]
    return [KeyDown(key=key) if kind == "KEY_DOWN" else KeyUp(key=key)]


def _hotkey(kind: str, fields: Fields) -> list[Action]:
    keys = fields.chord("keys")
    if not keys:
        raise Rejected("keys: HOTKEY needs at least one key")
    return [Press(keys=keys)]


_WORDS: dict[str, Callable[[], Action]] = {"WAIT": lambda: Wait(seconds=WAIT_S), "DONE": Done, "FAIL": Infeasible}
_ACTIONS: dict[str, Callable[[str, Fields], list[Action]]] = {
    "MOVE_TO": _move,
    "CLICK": _click,
    "MOUSE_DOWN": _button,
    "MOUSE_UP": _button,
    "RIGHT_CLICK": _click,
    "DOUBLE_CLICK": _click,
    "DRAG_TO": _move,
    "SCROLL": _scroll,
    "TYPING": lambda kind, fields: [TypeText(text=fields.text("text"))],
    "PRESS": _one_key,
    "KEY_DOWN": _one_key,
    "KEY_UP": _one_key,
    "HOTKEY": _hotkey,
    **dict.fromkeys(_WORDS, lambda kind, fields: [_WORDS[kind]()]),
}


def _write(action: Action, view: View) -> Iterator[dict[str, Any]]:
    def xy(point: Point | None) -> dict[str, float]:
        return {} if point is None else dict(zip("xy", view.place(point, space="shown"), strict=True))

    def each(actions: Sequence[Action]) -> Iterator[dict[str, Any]]:
        for one in actions:
            yield from _write(one, view)

    if getattr(action, "button", "left") not in _BUTTONS:
        raise Inexpressible(f"computer13 has no button {getattr(action, 'button', '')}")
    match action:
        case Click(modifiers=(_, *_)) | Drag(modifiers=(_, *_)) | Scroll(modifiers=(_, *_)):
            bare = action.model_copy(update={"modifiers": ()})
            yield from each(with_keys_held(action.modifiers, [bare]))
        case Move():
            yield {"action_type": "MOVE_TO", **xy(action.point)}
        case Click():
            button = {} if action.button == "left" else {"button": action.button}
            clicks = {} if action.clicks == 1 else {"num_clicks": action.clicks}
            yield {"action_type": "CLICK", **xy(action.point), **button, **clicks}
        case ButtonDown(point=None) | ButtonUp(point=None):
            yield {
                "action_type": "MOUSE_DOWN" if isinstance(action, ButtonDown) else "MOUSE_UP",
                "button": action.button,
            }
        case ButtonDown() | ButtonUp():
            yield from each(at_pointer(action))
        case Drag(button="left", path=(*start, end)) if len(start) < 2:
            if start:
                yield {"action_type": "MOVE_TO", **xy(start[0])}
            yield {"action_type": "DRAG_TO", **xy(end)}
        case Drag():
            yield from each(strokes(action))
        case Scroll(point=Point() as point):
            yield from each([Move(point=point), action.model_copy(update={"point": None})])
        case Scroll():
            yield {"action_type": "SCROLL", "dx": action.dx, "dy": action.dy}
        case TypeText():
            yield {"action_type": "TYPING", "text": action.text}
        case Press(keys=(key,), hold_s=0):
            yield {"action_type": "PRESS", "key": render_key(key)}
        case Press(hold_s=0):
            yield {"action_type": "HOTKEY", "keys": [render_key(key) for key in action.keys]}
        case Press():
            yield from each(with_keys_held(action.keys, [Wait(seconds=action.hold_s)]))
        case KeyDown() | KeyUp():
            yield {
                "action_type": "KEY_DOWN" if isinstance(action, KeyDown) else "KEY_UP",
                "key": render_key(action.key),
            }
        case Wait():
            for _ in range(times(action.seconds, WAIT_S)):
                yield {"action_type": "WAIT"}
        case Screenshot():
            yield {"action_type": "WAIT"}
        case Done() | Answer():
            yield {"action_type": "DONE"}
        case Infeasible():
            yield {"action_type": "FAIL"}
