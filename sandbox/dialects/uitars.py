"""The UI-TARS dialects: `uitars` (1.5) and `uitars-v1`.

::

    Thought: The menu is open, so I choose Save.
    Action: click(start_box='(100,200)')

A point is written `(x,y)`, `[x,y]`, `<point>x y</point>` or with `<|box_start|>` around it; of a box it is the centre.
1.5 counts pixels of the picture as its encoder resizes it (multiples of 28), the first version from 0 to 1000. A
scroll has a direction only and turns the wheel by five clicks; `wait()` waits five seconds. `press` presses and
releases. At the very end of a text to type, `\\\\n` is Enter too: the models' own prompt shows it so.
`finished(content='...')` is the final message (`endings`), and `call_user()` gives up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from sandbox.actions import (
    Action,
    Answer,
    Button,
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
from sandbox.dialects.endings import read_ending, write_ending
from sandbox.dialects.json_text import split_thinking
from sandbox.dialects.parts import DIRECTIONS, one_way_scrolls, single_clicks, times, with_keys_held
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
from sandbox.dialects.uitars_grammar import Argument, Call, decode, encode, read_calls
from sandbox.dialects.view import EDGES_1000, RESIZED_28_UITARS
from sandbox.keys import canonical_key, parse_chord, render_key

__all__ = ["UITars"]

WAIT_S = 5.0
"""What `wait()` waits, seconds."""
SCROLL_CLICKS = 5
"""What one scroll turns the wheel by."""
HANDED_OVER = "the model hands over to the user"
_CLICKS: dict[str, tuple[Button, int]] = {
    "click": ("left", 1),
    "left_single": ("left", 1),
    "left_double": ("left", 2),
    "double_click": ("left", 2),
    "right_single": ("right", 1),
    "right_click": ("right", 1),
}
_WRITTEN: dict[tuple[Button, int], str] = {
    ("left", 1): "click",
    ("left", 2): "left_double",
    ("right", 1): "right_single",
}
_FOR_PHONES = ("long_press", "open_app", "press_home", "press_back")
_POINT_NAMES = ("start_box", "point", "start_point", "box", "start")
_END_NAMES = ("end_box", "end_point", "end")
_TAGS = re.compile(r"</?(?:point|bbox|box)>|<\|(?:box|object_ref)_(?:start|end)\|>")
_NUMBER = r"[-+]?\d{1,9}(?:\.\d{0,9})?"
_BETWEEN = r"(?:[\s,]+|\s*[)\]]\s*,?\s*[(\[]\s*)"
_NUMBERS = re.compile(rf"\s*[(\[]?\s*({_NUMBER}(?:{_BETWEEN}{_NUMBER}){{1,3}})\s*[)\]]?\s*")
_ENTER_AT_END = re.compile(r"(?<!\\)((?:\\\\)*)\\\\n\Z")
_LOSSES = MappingProxyType(
    {
        "point": "where the space of coordinates is coarser than the screen, a point becomes the nearest one in it",
        "click": "a triple click, and a double one of the right button, become single clicks, and modifiers keys held "
        "around it; the middle button, back and forward cannot be written",
        "button_down": "cannot be written",
        "button_up": "cannot be written",
        "drag": "modifiers become keys held around it; cannot be written but with the left button and two points",
        "scroll": "becomes scrolls of five clicks in one direction each, at least one, with its modifiers held around "
        "them; of nothing it becomes a move, and cannot be written without a point",
        "press": "a chord that is held becomes its keys held around waits of five seconds",
        "wait": "becomes as many waits of five seconds, at least one",
        "screenshot": "becomes a wait of five seconds",
    }
)


class UITars:
    """A version of UI-TARS's dialect."""

    lossy: Mapping[str, str] = _LOSSES

    def __init__(self, version: Literal["1", "1.5"]) -> None:
        self.name = "uitars" if version == "1.5" else "uitars-v1"
        self._space = RESIZED_28_UITARS if version == "1.5" else EDGES_1000
        self._box = "({},{})" if version == "1.5" else "<|box_start|>({},{})<|box_end|>"

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read thoughts and calls. Never raises."""
        return read_turn(text, lambda given: self._read(given, view))

    def render(self, action: Action, view: View) -> str:
        """Write one action as a call (or several, separated by blank lines)."""
        return "Action: " + "\n\n".join(self._write(action, view))

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake."""
        return result_text(error)

    def system_prompt_fragment(self, view: View) -> str:
        """The output format and the action space, as these models know them."""
        width, height = view.size(self._space)
        box = self._box.format("x", "y")
        return f"""\
## Output Format
Thought: ...
Action: ...

## Action Space
click(start_box='{box}')
left_double(start_box='{box}')
right_single(start_box='{box}')
hover(start_box='{box}')
drag(start_box='{box}', end_box='{box}')
hotkey(key='ctrl c') # Separate keys by a space.
press(key='enter'), keydown(key='shift'), keyup(key='shift')
type(content='xxx') # Write \\', \\" and \\n as in a string of Python; end with \\n to submit.
scroll(start_box='{box}', direction='down or up or right or left')
wait() # Wait 5 seconds.
finished(content='xxx') # The task is done; the content is your answer, or [INFEASIBLE] and why it cannot be done.

x goes up to {width} and y up to {height}."""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """None: this is plain text."""
        return None

    def _read(self, text: str, view: View) -> Reading:
        thought, said = split_thinking(text)
        turn = read_calls(said)
        actions: list[Action] = []
        for number, call in enumerate(turn.calls, start=1):
            try:
                actions += self._action(_Arguments(call), view)
            except ValueError as error:
                raise Rejected(explain(error), where=f"call {number}") from error
        return Reading(actions=actions, thought="\n".join(part for part in (thought, turn.thought) if part))

    def _action(self, call: _Arguments, view: View) -> list[Action]:
        name = call.name
        made: list[Action]
        if name in _CLICKS:
            button, clicks = _CLICKS[name]
            made = [Click(point=self._point(call, _POINT_NAMES, view), button=button, clicks=clicks)]
        elif name in ("hover", "move", "mouse_move"):
            made = [Move(point=self._required(call, _POINT_NAMES, view))]
        elif name in ("drag", "left_click_drag", "select"):
            start, end = self._required(call, _POINT_NAMES, view), self._required(call, _END_NAMES, view)
            made = [Drag(path=(start, end))]
        elif name == "scroll":
            made = [self._scroll(call, view)]
        elif name in _PLAIN:
            made = _PLAIN[name](call)
        elif name in _FOR_PHONES:
            raise Rejected(f"{name} is for phones; this is a desktop")
        else:
            raise Rejected(
                f"there is no action {name!r}; there are {', '.join((*_CLICKS, 'hover, drag, scroll', *_PLAIN))}"
            )
        call.no_more()
        return made

    def _scroll(self, call: _Arguments, view: View) -> Action:
        word = call.text("direction").strip().lower()
        if word not in DIRECTIONS:
            raise Rejected(f"direction: must be one of {', '.join(DIRECTIONS)}, not {word[:40]!r}")
        dx, dy = (SCROLL_CLICKS * each for each in DIRECTIONS[word])
        return Scroll(point=self._point(call, _POINT_NAMES, view), dx=dx, dy=dy)

    def _required(self, call: _Arguments, names: tuple[str, ...], view: View) -> Point:
        point = self._point(call, names, view)
        if point is None:
            raise Rejected(f"{names[0]}: {call.name} needs it")
        return point

    def _point(self, call: _Arguments, names: tuple[str, ...], view: View) -> Point | None:
        name = next((name for name in names if call.has(name)), None)
        if name is None:
            return None
        text = _TAGS.sub(" ", call.raw(name).text)
        match = _NUMBERS.fullmatch(text)
        numbers = [float(each) for each in re.split(_BETWEEN, match[1])] if match else []
        if len(numbers) not in (2, 4):
            raise Rejected(f"{name}: must be a point such as '(100,200)', not {call.raw(name).text[:40]!r}")
        x, y = numbers if len(numbers) == 2 else ((numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2)
        try:
            return view.point(x, y, space=self._space)
        except ValueError as error:
            raise Rejected(f"{name}: {error}") from error

    def _write(self, action: Action, view: View) -> Iterator[str]:
        def box(point: Point) -> str:
            return self._box.format(*view.place(point, space=self._space))

        match action:
            case Click(modifiers=(_, *_)) | Drag(modifiers=(_, *_)) | Scroll(modifiers=(_, *_)):
                bare = action.model_copy(update={"modifiers": ()})
                yield from self._each(with_keys_held(action.modifiers, [bare]), view)
            case Move():
                yield f"hover(start_box='{box(action.point)}')"
            case Click() if (action.button, action.clicks) in _WRITTEN:
                at = "" if action.point is None else f"start_box='{box(action.point)}'"
                yield f"{_WRITTEN[action.button, action.clicks]}({at})"
            case Click(button="left" | "right"):
                yield from self._each(single_clicks(action), view)
            case Drag(button="left", path=(start, end)):
                yield f"drag(start_box='{box(start)}', end_box='{box(end)}')"
            case Scroll(dx=0, dy=0, point=Point() as point):
                yield from self._write(Move(point=point), view)
            case Scroll() if action.dx or action.dy:
                for part in one_way_scrolls(action):
                    assert isinstance(part, Scroll)
                    amount = part.dx or part.dy
                    direction = ("right" if amount > 0 else "left") if part.dx else ("up" if amount > 0 else "down")
                    at = "" if part.point is None else f"start_box='{box(part.point)}', "
                    for _ in range(times(abs(amount), SCROLL_CLICKS)):
                        yield f"scroll({at}direction='{direction}')"
            case TypeText():
                yield f"type(content='{_typed(action.text)}')"
            case Press(keys=(key,), hold_s=0):
                yield f"press(key='{_key_name(key)}')"
            case Press(hold_s=0):
                yield f"hotkey(key='{' '.join(map(_key_name, action.keys))}')"
            case Press():
                yield from self._each(with_keys_held(action.keys, [Wait(seconds=action.hold_s)]), view)
            case KeyDown() | KeyUp():
                yield f"{'keydown' if isinstance(action, KeyDown) else 'keyup'}(key='{_key_name(action.key)}')"
            case Wait():
                yield from ["wait()"] * times(action.seconds, WAIT_S)
            case Screenshot():
                yield "wait()"
            case Done():
                yield "finished()"
            case Infeasible() | Answer():
                yield f"finished(content='{encode(write_ending(action))}')"
            case _:
                raise Inexpressible(f"UI-TARS has no words for {action.kind} with these arguments")

    def _each(self, actions: Sequence[Action], view: View) -> Iterator[str]:
        for action in actions:
            yield from self._write(action, view)


class _Arguments:
    """The arguments of one call, and which of them were read."""

    def __init__(self, call: Call) -> None:
        self.name = call.name
        self._given = call.arguments
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self._given

    def raw(self, name: str) -> Argument:
        self._read.add(name)
        if name not in self._given:
            raise Rejected(f"{name}: {self.name} needs it")
        return self._given[name]

    def text(self, name: str) -> str:
        argument = self.raw(name)
        return decode(argument.text) if argument.quoted else argument.text

    def no_more(self) -> None:
        left = [name for name in self._given if name not in self._read]
        if left:
            raise Rejected(f"{left[0]}: {self.name} has no such argument")


def _type(call: _Arguments) -> list[Action]:
    argument = call.raw("content")
    text = argument.text
    if argument.quoted:
        enter = _ENTER_AT_END.search(text)
        text = decode(text[: enter.start()] + enter[1]) + "\n" if enter else decode(text)
    return [TypeText(text=text)]


def _typed(text: str) -> str:
    """A text for `type`; a backslash and an n at its end are not meant as Enter, so the n is written by its code."""
    return f"{encode(text[:-1])}\\x6e" if text.endswith("\\n") else encode(text)


def _hotkey(call: _Arguments) -> list[Action]:
    return [Press(keys=_keys(call))]


def _keydown(call: _Arguments) -> list[Action]:
    return [KeyDown(key=key) for key in _keys(call)]


def _keyup(call: _Arguments) -> list[Action]:
    return [KeyUp(key=key) for key in reversed(_keys(call))]


def _keys(call: _Arguments) -> tuple[str, ...]:
    """The chord in `key`: its names separated by spaces, or by `+`."""
    name = next((name for name in ("key", "hotkey", "keys") if call.has(name)), "key")
    text = call.text(name)
    tries: list[Callable[[], tuple[str, ...]]] = [
        lambda: tuple(canonical_key(word) for word in text.split()),
        lambda: (canonical_key(text),),
        lambda: tuple(key for word in text.split() for key in parse_chord(word)),
    ]
    if "+" in text:
        tries.insert(0, lambda: parse_chord(text))
    first: ValueError | None = None
    for attempt in tries:
        try:
            if keys := attempt():
                return keys
        except ValueError as error:
            first = first or error
    raise Rejected(f"{name}: {first or 'the name of a key is empty'}")


def _key_name(key: str) -> str:
    return "plus" if key == "+" else encode(render_key(key))


def _finished(call: _Arguments) -> list[Action]:
    ending = read_ending(call.text("content")) if call.has("content") else None
    return [ending or Done()]


def _call_user(call: _Arguments) -> list[Action]:
    return [Infeasible(reason=call.text("content") if call.has("content") else HANDED_OVER)]


_PLAIN: dict[str, Callable[[_Arguments], list[Action]]] = {
    "type": _type,
    "hotkey": _hotkey,
    "press": _hotkey,
    "keydown": _keydown,
    "keyup": _keyup,
    "release": _keyup,
    "wait": lambda call: [Wait(seconds=WAIT_S)],
    "finished": _finished,
    "call_user": _call_user,
}
