"""The pyautogui dialect: Python code as OSWorld's agents write it, read as a syntax tree and never run.

Coordinates are pixels of the picture shown (`pyautogui-28`: as an encoder resizes it to multiples of 28;
`pyautogui-unit`: fractions from 0 to 1); what moves relative to the pointer needs a position that the same code has
set. Durations, tweens and intervals are read and dropped: the pointer always moves at once. The special words are
`WAIT`, `DONE` and `FAIL`; `code_blocks` says where they count.

Two idioms mean more than their calls: `pyperclip.copy(text)` then Ctrl+V (or Ctrl+Shift+V) types the text, so it needs
no clipboard in the desktop; and `moveTo` directly before `dragTo` is one drag with a start. Beyond pyautogui, `button`
may be `'back'` or `'forward'`, and a chord may be one string (`hotkey('ctrl+c')`, which pyautogui silently ignores).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sandbox.actions import (
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
from sandbox.dialects.code_blocks import find_code
from sandbox.dialects.json_text import load
from sandbox.dialects.protocol import ParsedTurn, ParseError, Reading, Rejected, View, read_turn, result_text
from sandbox.dialects.pyautogui_calls import Hands
from sandbox.dialects.python_subset import run
from sandbox.dialects.view import EDGES_1, Space

__all__ = ["PyAutoGUI"]

_LOSSES = MappingProxyType(
    {
        "point": "where the picture shown is smaller than the screen, a point becomes the nearest one shown",
        "drag": "a path of more than two points becomes mouseDown, moveTo ... and mouseUp: the same strokes",
        "scroll": "a scroll in both directions becomes two scrolls, and its modifiers keys held around them",
        "infeasible": "becomes FAIL without its reason",
        "answer": "becomes DONE without its text",
    }
)


class PyAutoGUI:
    """A dialect of pyautogui code.

    Args:
        space: what its coordinates count.
    """

    lossy: Mapping[str, str] = _LOSSES

    def __init__(self, name: str = "pyautogui", space: Space = "shown") -> None:
        self.name = name
        self._space = space

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read code. Never raises."""
        return read_turn(text, lambda given: _read(given, view, self._space))

    def render(self, action: Action, view: View) -> str:
        """Write one action as lines of code, or as its special word."""
        return _render(action, view, self._space)

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake."""
        return result_text(error)

    def system_prompt_fragment(self, view: View) -> str:
        """Teaches what of pyautogui there is, with the size of the picture."""
        width, height = view.size(self._space)
        counts = (
            f"pixels of the {width}x{height} screenshot"
            if self._space != EDGES_1
            else "fractions of the screenshot, 0 to 1,"
        )
        return f"""\
Act by writing Python code that calls pyautogui; it may stand in a ```python block.
Coordinates are {counts} from its top left corner.
There are pyautogui's click, doubleClick, tripleClick, rightClick, middleClick, moveTo, dragTo, mouseDown, mouseUp,
scroll, hscroll, write, press, hotkey, keyDown, keyUp and hold, and time.sleep. write types any Unicode text.
Of Python there are variables, arithmetic, and for loops over range() and lists; nothing else is read.
Instead of code, or after it, a line can be one of these words:
WAIT    wait two seconds
DONE    the task is done
FAIL    the task cannot be done"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """None: this is plain text."""
        return None


def _read(text: str, view: View, space: Space) -> Reading:
    code = find_code(_command(text))
    hands = Hands(view, space)
    run(code.tree, hands)
    if hands.unpasted:
        raise Rejected("pyperclip.copy is only read together with pyautogui.hotkey('ctrl', 'v') after it; use write")
    return Reading(actions=hands.actions, thought=code.thought)


def _command(text: str) -> str:
    """The code of `{"command": code}`, OSWorld's other way to hand it over; any other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        given = load(text)
    except Rejected:
        return text
    return given["command"] if isinstance(given, dict) and isinstance(given.get("command"), str) else text


def _render(action: Action, view: View, space: Space) -> str:
    match action:
        case Move():
            return _call("moveTo", _xy(action.point, view, space))
        case Click():
            return _held(action.modifiers, _click(action, view, space))
        case ButtonDown():
            return _call("mouseDown", _xy(action.point, view, space), _button(action.button))
        case ButtonUp():
            return _call("mouseUp", _xy(action.point, view, space), _button(action.button))
        case Drag():
            return _held(action.modifiers, _drag(action, view, space))
        case Scroll():
            return _held(action.modifiers, _scroll(action, view, space))
        case TypeText():
            return _call("write", repr(action.text))
        case Press(keys=(key,), hold_s=0):
            return _call("press", repr(key))
        case Press(hold_s=0):
            return _call("hotkey", *map(repr, action.keys))
        case Press():
            return _held(action.keys, f"time.sleep({action.hold_s!r})")
        case KeyDown():
            return _call("keyDown", repr(action.key))
        case KeyUp():
            return _call("keyUp", repr(action.key))
        case Wait():
            return f"time.sleep({action.seconds!r})"
        case Screenshot():
            return _call("screenshot")
        case Done() | Answer():
            return "DONE"
        case Infeasible():
            return "FAIL"


def _click(action: Click, view: View, space: Space) -> str:
    named = {("left", 2): "doubleClick", ("left", 3): "tripleClick", ("right", 1): "rightClick"}
    named |= {("left", 1): "click", ("middle", 1): "middleClick"}
    at = _xy(action.point, view, space)
    if function := named.get((action.button, action.clicks)):
        return _call(function, at)
    return _call("click", at, "" if action.clicks == 1 else f"clicks={action.clicks}", _button(action.button))


def _drag(action: Drag, view: View, space: Space) -> str:
    points = [_xy(point, view, space) for point in action.path]
    button = _button(action.button)
    if len(points) == 1:
        return _call("dragTo", points[0], button)
    start = _call("moveTo", points[0])
    if len(points) == 2:
        return "\n".join([start, _call("dragTo", points[1], button)])
    moves = [_call("moveTo", point) for point in points[1:]]
    return "\n".join([start, _call("mouseDown", button), *moves, _call("mouseUp", button)])


def _scroll(action: Scroll, view: View, space: Space) -> str:
    at = _xy(action.point, view, space)
    turns = [_call("scroll", str(action.dy), at)] if action.dy or not action.dx else []
    turns += [_call("hscroll", str(action.dx), at)] if action.dx else []
    return "\n".join(turns)


def _held(keys: tuple[str, ...], lines: str) -> str:
    if not keys:
        return lines
    return f"with pyautogui.hold({list(keys)!r}):\n    " + lines.replace("\n", "\n    ")


def _call(function: str, *arguments: str) -> str:
    return f"pyautogui.{function}({', '.join(argument for argument in arguments if argument)})"


def _xy(point: Point | None, view: View, space: Space) -> str:
    return "" if point is None else "{}, {}".format(*view.place(point, space=space))


def _button(button: str) -> str:
    return "" if button == "left" else f"button={button!r}"
