"""The cua-bench dialect: its actions as Python calls, read as a syntax tree and never run.

::

    Click(x=100, y=200)
    Scroll(direction='down', amount=240)
    Hotkey(keys=['ctrl', 's'])
    Done()

Every name may end in `Action`, as the classes do. Coordinates are pixels of the picture shown; 120 pixels of scrolling
are a click of the wheel; durations are read and dropped. The words DONE, FAIL and WAIT count where `code_blocks` says.
Of Python there is what `python_subset` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sandbox.actions import (
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
from sandbox.dialects.function_calls import Function, Functions, drag_from_to, point_xy, read_calls
from sandbox.dialects.parts import (
    DIRECTIONS,
    PIXELS_PER_CLICK,
    direction_of,
    one_way_scrolls,
    pixels_to_clicks,
    scrolls,
    single_clicks,
    waits,
)
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

__all__ = ["CuaBench"]

MAX_WAIT_S = 600.0
MAX_AMOUNT = 1_000_000
_CLICKS: dict[str, tuple[Button, int]] = {
    "Click": ("left", 1),
    "RightClick": ("right", 1),
    "DoubleClick": ("left", 2),
    "MiddleClick": ("middle", 1),
}
_LOSSES = MappingProxyType(
    {
        "point": "where the picture shown is smaller than the screen, a point becomes the nearest one shown",
        "click": "a triple click, and a double one of another button than the left, become single clicks; cannot be "
        "written without a point, with modifiers, or with the buttons back and forward",
        "button_down": "cannot be written",
        "button_up": "cannot be written",
        "drag": "cannot be written but with the left button, two points and no modifiers",
        "scroll": "is a move and then a scroll, and one in both directions two; cannot be written with modifiers",
        "press": "cannot be written when it is held for a time",
        "key_down": "cannot be written",
        "key_up": "cannot be written",
        "screenshot": "becomes a wait of no time",
        "infeasible": "becomes FAIL without its reason",
        "answer": "becomes Done without its text",
    }
)


class CuaBench:
    """The dialect `cua-bench`."""

    name = "cua-bench"
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
        """Lists the actions with the limits of coordinates."""
        width, height = view.shown
        return f"""\
Act with these Python calls, one a line. x and y are pixels of the {width}x{height} screenshot.
Click(x=X, y=Y), also RightClick, DoubleClick and MiddleClick
MoveTo(x=X, y=Y)
Drag(from_x=X, from_y=Y, to_x=X, to_y=Y)
Scroll(direction='down', amount=PIXELS): up, down, left or right
Type(text='text')
Key(key='enter')
Hotkey(keys=['ctrl', 's'])
Wait(seconds=1)
Done(): the task is done
FAIL alone on a line: the task cannot be done"""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """None: this is plain text."""
        return None


def _click(button: Button, clicks: int) -> Callable[[Fields], list[Action]]:
    return lambda fields: [Click(point=point_xy(fields), button=button, clicks=clicks)]


def _scroll(fields: Fields) -> list[Action]:
    dx, dy = fields.one_of("direction", DIRECTIONS, "down")
    clicks = pixels_to_clicks(fields.number("amount", 100, least=0, most=MAX_AMOUNT))
    return scrolls(dx * clicks, dy * clicks)


def _keys(name: str) -> Callable[[Fields], list[Action]]:
    def read(fields: Fields) -> list[Action]:
        keys = fields.chord(name)
        if not keys:
            raise Rejected(f"{name}: it needs a key")
        return [Press(keys=keys)]

    return read


_PLAIN = {
    **{name: Function(("x", "y"), _click(*meaning)) for name, meaning in _CLICKS.items()},
    "MoveTo": Function(("x", "y", "duration"), lambda fields: [Move(point=point_xy(fields))], dropped=("duration",)),
    "Drag": Function(("from_x", "from_y", "to_x", "to_y", "duration"), drag_from_to, dropped=("duration",)),
    "Scroll": Function(("direction", "amount"), _scroll),
    "Type": Function(("text",), lambda fields: [TypeText(text=fields.text("text"))]),
    "Key": Function(("key",), _keys("key")),
    "Hotkey": Function(("keys",), _keys("keys")),
    "Wait": Function(("seconds",), lambda fields: waits(fields.number("seconds", 1.0, least=0, most=MAX_WAIT_S))),
    "Done": Function((), lambda fields: [Done()]),
}
_FUNCTIONS = Functions(
    module="cua_bench",
    known=_PLAIN | {f"{name}Action": function for name, function in _PLAIN.items()},
    refused={},
)


def _write(action: Action, view: View) -> Iterator[str]:
    match action:
        case Move():
            yield f"MoveTo({_xy(action.point, view)})"
        case Click(point=Point() as point, modifiers=(), button="left" | "right" | "middle"):
            name = next((name for name, each in _CLICKS.items() if each == (action.button, action.clicks)), "")
            if name:
                yield f"{name}({_xy(point, view)})"
            else:
                for single in single_clicks(action):
                    yield from _write(single, view)
        case Drag(path=(start, end), button="left", modifiers=()):
            yield f"Drag({_xy(start, view, 'from_')}, {_xy(end, view, 'to_')})"
        case Scroll(point=Point() as point, modifiers=()):
            yield f"MoveTo({_xy(point, view)})"
            yield from _write(action.model_copy(update={"point": None}), view)
        case Scroll(modifiers=()):
            for turn in one_way_scrolls(action):
                assert isinstance(turn, Scroll)
                yield _turn(turn)
        case TypeText():
            yield f"Type(text={action.text!r})"
        case Press(keys=(key,), hold_s=0):
            yield f"Key(key={render_key(key)!r})"
        case Press(hold_s=0):
            yield f"Hotkey(keys={[render_key(key) for key in action.keys]!r})"
        case Wait():
            yield f"Wait(seconds={action.seconds!r})"
        case Screenshot():
            yield "Wait(seconds=0)"
        case Done() | Answer():
            yield "Done()"
        case Infeasible():
            yield "FAIL"
        case _:
            raise Inexpressible(f"cua-bench has no words for {action.kind} with these arguments")


def _turn(scroll: Scroll) -> str:
    clicks = abs(scroll.dx) + abs(scroll.dy)
    return f"Scroll(direction={direction_of(scroll)!r}, amount={clicks * PIXELS_PER_CLICK})"


def _xy(point: Point, view: View, prefix: str = "") -> str:
    x, y = view.place(point, space="shown")
    return f"{prefix}x={x}, {prefix}y={y}"
