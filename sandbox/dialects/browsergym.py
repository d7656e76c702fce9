"""The BrowserGym dialect: its functions of coordinates, as Python calls that are read as a syntax tree and never run.

::

    mouse_click(100, 200, button='right')
    keyboard_press('Control+s')
    send_msg_to_user('42')

Coordinates are pixels of the picture shown; 120 pixels of scrolling are a click of the wheel, and positive is right and
down. A message to the user ends the episode with that answer, or as `endings` says; so does `report_infeasible`.
Functions of element ids (`bid`) and of tabs and addresses are refused: there are no ids on a desktop, and its browser
is used as a person does. Of Python there is what `python_subset` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from sandbox.dialects.endings import HOW_TO_END, read_ending, write_ending
from sandbox.dialects.fields import Fields
from sandbox.dialects.function_calls import Function, Functions, drag_from_to, point_xy, read_calls
from sandbox.dialects.parts import PIXELS_PER_CLICK, pixels_to_clicks, scrolls, single_clicks, waits, with_keys_held
from sandbox.dialects.protocol import (
    Inexpressible,
    ParsedTurn,
    ParseError,
    Rejected,
    View,
    read_turn,
    result_text,
)
from sandbox.keys import render_key

__all__ = ["BrowserGym"]

MAX_WAIT_MS = 600_000
_BUTTONS = {"left": "left", "middle": "middle", "right": "right"}
_PLAYWRIGHT = {
    "ctrl": "Control",
    "shift": "Shift",
    "alt": "Alt",
    "super": "Meta",
    "enter": "Enter",
    "esc": "Escape",
    "tab": "Tab",
    "backspace": "Backspace",
    "delete": "Delete",
    "home": "Home",
    "end": "End",
    "pageup": "PageUp",
    "pagedown": "PageDown",
    **{name: f"Arrow{name.capitalize()}" for name in ("up", "down", "left", "right")},
    "+": "plus",
}
_LOSSES = MappingProxyType(
    {
        "point": "where the picture shown is smaller than the screen, a point becomes the nearest one shown",
        "click": "a triple click becomes single clicks, and modifiers keys held around it; cannot be written without a "
        "point or with the buttons back and forward",
        "button_down": "cannot be written without a point or with the buttons back and forward",
        "button_up": "cannot be written without a point or with the buttons back and forward",
        "drag": "of more than two points or another button than the left becomes a press, moves and a release, and its "
        "modifiers keys held around it; cannot be written from the pointer or with the buttons back and forward",
        "scroll": "is a move and then a scroll, with its modifiers held around it",
        "press": "a chord that is held becomes its keys held around a wait",
        "wait": "is rounded to a millisecond",
        "screenshot": "becomes a wait of no time",
    }
)


class BrowserGym:
    """The dialect `browsergym`."""

    name = "browsergym"
    lossy: Mapping[str, str] = _LOSSES

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read calls. Never raises."""
        return read_turn(text, lambda given: read_calls(given, _FUNCTIONS, view))

    def render(self, action: Action, view: View) -> str:
        """Write one action as a call (or several, one a line)."""
        return "\n".join(_write(action, view))

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake."""
        return result_text(error)

    def system_prompt_fragment(self, view: View) -> str:
        """Lists the functions with the limits of coordinates."""
        width, height = view.shown
        endings = HOW_TO_END.replace("\n", "\n    ")
        return f"""\
Act with these Python calls, one a line. x and y are pixels of the {width}x{height} screenshot.
mouse_move(x, y)
mouse_click(x, y, button='left'), also mouse_dblclick, mouse_down and mouse_up
mouse_drag_and_drop(from_x, from_y, to_x, to_y)
scroll(delta_x, delta_y): pixels, positive is right and down
keyboard_press('Control+s'), also keyboard_down and keyboard_up for one key
keyboard_type('text')
noop(1000): wait so many milliseconds
report_infeasible('reason')
send_msg_to_user('message'): ends with one of
    {endings}"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """None: this is plain text."""
        return None


def _button(fields: Fields) -> Any:
    return fields.one_of("button", _BUTTONS, "left")


def _scroll(fields: Fields) -> list[Action]:
    dx, dy = (pixels_to_clicks(fields.number(name)) for name in ("delta_x", "delta_y"))
    return scrolls(dx, -dy)


def _press(fields: Fields) -> list[Action]:
    keys = fields.chord("key")
    if not keys:
        raise Rejected("key: keyboard_press needs a key")
    return [Press(keys=keys)]


def _one_key(make: Callable[..., Action]) -> Callable[[Fields], list[Action]]:
    def read(fields: Fields) -> list[Action]:
        keys = fields.chord("key")
        if len(keys) != 1:
            raise Rejected(f"key: must be one key, not {len(keys)}; use keyboard_press for a chord")
        return [make(key=keys[0])]

    return read


def _wait(fields: Fields) -> list[Action]:
    return waits(fields.number("wait_ms", 1000, least=0, most=MAX_WAIT_MS) / 1000)


def _message(fields: Fields) -> list[Action]:
    text = fields.text("text")
    return [read_ending(text) or Answer(text=text)]


_AT = ("x", "y", "button")
_IDS = "there are no element ids; use mouse_click, keyboard_type and the like with x and y"
_TABS = "use the browser on the screen as a person does"
_FUNCTIONS = Functions(
    module="browsergym",
    known={
        "mouse_move": Function(("x", "y"), lambda fields: [Move(point=point_xy(fields))]),
        "mouse_click": Function(_AT, lambda fields: [Click(point=point_xy(fields), button=_button(fields))]),
        "mouse_dblclick": Function(
            _AT, lambda fields: [Click(point=point_xy(fields), button=_button(fields), clicks=2)]
        ),
        "mouse_down": Function(_AT, lambda fields: [ButtonDown(point=point_xy(fields), button=_button(fields))]),
        "mouse_up": Function(_AT, lambda fields: [ButtonUp(point=point_xy(fields), button=_button(fields))]),
        "mouse_drag_and_drop": Function(("from_x", "from_y", "to_x", "to_y"), drag_from_to),
        "scroll": Function(("delta_x", "delta_y"), _scroll),
        "keyboard_press": Function(("key",), _press),
        "keyboard_down": Function(("key",), _one_key(KeyDown)),
        "keyboard_up": Function(("key",), _one_key(KeyUp)),
        "keyboard_type": Function(("text",), lambda fields: [TypeText(text=fields.text("text"))]),
        "keyboard_insert_text": Function(("text",), lambda fields: [TypeText(text=fields.text("text"))]),
        "noop": Function(("wait_ms",), _wait),
        "send_msg_to_user": Function(("text",), _message),
        "report_infeasible": Function(("reason",), lambda fields: [Infeasible(reason=fields.text("reason", ""))]),
    },
    refused={
        **dict.fromkeys(
            ("click", "dblclick", "hover", "fill", "press", "focus", "clear", "select_option", "drag_and_drop"), _IDS
        ),
        **dict.fromkeys(("upload_file", "mouse_upload_file"), "use the file dialog on the screen"),
        **dict.fromkeys(("goto", "go_back", "go_forward", "new_tab", "tab_close", "tab_focus"), _TABS),
    },
)


def _write(action: Action, view: View) -> Iterator[str]:
    def each(actions: Sequence[Action]) -> Iterator[str]:
        for one in actions:
            yield from _write(one, view)

    if getattr(action, "button", "left") not in _BUTTONS:
        raise Inexpressible(f"browsergym has no button {getattr(action, 'button', '')}")
    match action:
        case Click(point=None) | ButtonDown(point=None) | ButtonUp(point=None) | Drag(path=(_,)):
            raise Inexpressible(f"browsergym has no {action.kind} at the pointer; give it a point")
        case Click(modifiers=(_, *_)) | Drag(modifiers=(_, *_)) | Scroll(modifiers=(_, *_)):
            yield from each(with_keys_held(action.modifiers, [action.model_copy(update={"modifiers": ()})]))
        case Move():
            yield _call("mouse_move", *_xy(action.point, view))
        case Click(clicks=3):
            yield from each(single_clicks(action))
        case Click(point=Point() as point):
            function = "mouse_click" if action.clicks == 1 else "mouse_dblclick"
            yield _call(function, *_xy(point, view), *_named(action.button))
        case ButtonDown(point=Point() as point) | ButtonUp(point=Point() as point):
            function = "mouse_down" if isinstance(action, ButtonDown) else "mouse_up"
            yield _call(function, *_xy(point, view), *_named(action.button))
        case Drag(path=(start, end), button="left"):
            yield _call("mouse_drag_and_drop", *_xy(start, view), *_xy(end, view))
        case Drag(path=(start, *middle, end)):
            down, up = ButtonDown(point=start, button=action.button), ButtonUp(point=end, button=action.button)
            yield from each([down, *(Move(point=point) for point in middle), up])
        case Scroll(point=Point() as point):
            yield from each([Move(point=point), action.model_copy(update={"point": None})])
        case Scroll():
            yield _call("scroll", str(action.dx * PIXELS_PER_CLICK), str(-action.dy * PIXELS_PER_CLICK))
        case TypeText():
            yield _call("keyboard_type", repr(action.text))
        case Press(hold_s=0):
            yield _call("keyboard_press", repr("+".join(map(_key, action.keys))))
        case Press():
            yield from each(with_keys_held(action.keys, [Wait(seconds=action.hold_s)]))
        case KeyDown() | KeyUp():
            yield _call("keyboard_down" if isinstance(action, KeyDown) else "keyboard_up", repr(_key(action.key)))
        case Wait():
            yield _call("noop", str(round(action.seconds * 1000)))
        case Screenshot():
            yield _call("noop", "0")
        case Infeasible():
            yield _call("report_infeasible", repr(action.reason))
        case Done() | Answer():
            yield _call("send_msg_to_user", repr(write_ending(action)))


def _call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"


def _xy(point: Point, view: View) -> list[str]:
    return [str(at) for at in view.place(point, space="shown")]


def _named(button: str) -> list[str]:
    return [] if button == "left" else [repr(button)]


def _key(key: str) -> str:
    return _PLAYWRIGHT.get(key) or render_key(key)
