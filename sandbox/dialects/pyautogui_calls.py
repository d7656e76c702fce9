"""What each call of pyautogui, pyperclip and time means as an action: the host of the pyautogui dialect's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sandbox.actions import (
    MAX_SCROLL,
    Action,
    Button,
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
    parse_action,
)
from sandbox.dialects.protocol import MAX_ACTIONS, Rejected, View
from sandbox.dialects.python_subset import Value
from sandbox.dialects.view import Space
from sandbox.keys import canonical_key, parse_chord

__all__ = ["Hands"]

WAIT_S = 2.0
"""What the word WAIT waits, seconds: OSWorld's pause after a step."""

_WORDS: dict[str, Callable[[], Action]] = {"WAIT": lambda: Wait(seconds=WAIT_S), "DONE": Done, "FAIL": Infeasible}
_BUTTONS: dict[Value, Button] = {
    "left": "left",
    "primary": "left",
    1: "left",
    "middle": "middle",
    2: "middle",
    "right": "right",
    "secondary": "right",
    3: "right",
    "back": "back",
    "forward": "forward",
}
_CLICKS: dict[str, tuple[Button, int]] = {
    "click": ("left", 1),
    "leftClick": ("left", 1),
    "doubleClick": ("left", 2),
    "tripleClick": ("left", 3),
    "rightClick": ("right", 1),
    "middleClick": ("middle", 1),
}
_PASTE_CHORDS = {("ctrl", "v"), ("ctrl", "shift", "v"), ("shift", "ctrl", "v"), ("ctrl", "V")}
_CLIPBOARD_CHORDS = {("ctrl", "c"), ("ctrl", "x")}

# name: its parameters in pyautogui's order
_SIGNATURES: dict[str, tuple[str, ...]] = {
    "click": ("x", "y", "clicks", "interval", "button", "duration"),
    "leftClick": ("x", "y", "interval", "duration"),
    "rightClick": ("x", "y", "interval", "duration"),
    "middleClick": ("x", "y", "interval", "duration"),
    "doubleClick": ("x", "y", "interval", "button", "duration"),
    "tripleClick": ("x", "y", "interval", "button", "duration"),
    "moveTo": ("x", "y", "duration", "tween"),
    "move": ("xOffset", "yOffset", "duration", "tween"),
    "moveRel": ("xOffset", "yOffset", "duration", "tween"),
    "dragTo": ("x", "y", "duration", "tween", "button"),
    "drag": ("xOffset", "yOffset", "duration", "tween", "button"),
    "dragRel": ("xOffset", "yOffset", "duration", "tween", "button"),
    "mouseDown": ("x", "y", "button", "duration"),
    "mouseUp": ("x", "y", "button", "duration"),
    "scroll": ("clicks", "x", "y"),
    "vscroll": ("clicks", "x", "y"),
    "hscroll": ("clicks", "x", "y"),
    "write": ("message", "interval"),
    "typewrite": ("message", "interval"),
    "press": ("keys", "presses", "interval"),
    "keyDown": ("key",),
    "keyUp": ("key",),
    "sleep": ("seconds",),
    "size": (),
    "position": (),
    "screenshot": (),
}
_OTHER_FUNCTIONS = ("pyautogui.hotkey", "time.sleep", "pyperclip.copy")


class Hands:
    """Turns calls into actions, and knows where the code has put the pointer and what it has copied."""

    modules: Sequence[str] = ("pyautogui", "pyperclip", "time")
    bare: Sequence[str] = ()
    constants: Mapping[str, Value] = {
        f"pyautogui.{name}": name.lower() for name in ("LEFT", "MIDDLE", "RIGHT", "PRIMARY", "SECONDARY")
    }
    settings = frozenset(f"pyautogui.{name}" for name in ("PAUSE", "FAILSAFE", "MINIMUM_DURATION", "MINIMUM_SLEEP"))
    ignored_arguments = frozenset({"tween", "logScreenshot", "_pause"})
    contexts = frozenset({"pyautogui.hold"})
    harmless = frozenset({"pyautogui.size", "pyautogui.position"})

    def __init__(self, view: View, space: Space) -> None:
        self.actions: list[Action] = []
        self.unpasted = False
        """Something was copied and never pasted."""
        self._view = view
        self._space = space
        self._cursor: tuple[float, float] | None = None
        self._clipboard: str | None = None
        self._held: list[tuple[tuple[str, ...], int]] = []

    def has(self, function: str) -> bool:
        module, _, name = function.partition(".")
        return function in _OTHER_FUNCTIONS or (module == "pyautogui" and name in _SIGNATURES)

    def word(self, word: str) -> bool:
        action = _WORDS.get(word.upper())
        if action is not None:
            self._do(action())
        return action is not None

    def enter(self, function: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
        given = _bound(function, ("keys",), args, kwargs)
        keys = tuple(key for name in _texts(given.get("keys"), function) for key in _chord(name))
        self._held.append((keys, len(self.actions)))

    def leave(self) -> None:
        keys, start = self._held.pop()
        body = self.actions[start:]
        del self.actions[start:]
        for action in _held_around(keys, body):
            self._do(action)

    def call(self, function: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        if not self.has(function):
            raise Rejected(f"{function} is not supported; there are pyautogui's {', '.join(_SIGNATURES)} and hotkey")
        module, _, name = function.partition(".")
        if name == "hotkey":
            self._hotkey(args, kwargs)
            return None
        if module == "pyperclip":
            self._copy(_bound(function, ("text",), args, kwargs))
            return None
        given = _bound(function, _SIGNATURES[name], args, kwargs)
        if name == "size":
            return self._view.size(self._space)
        if name == "position":
            return self._position(function)
        if name in _CLICKS:
            self._click(name, given)
        elif name in ("scroll", "vscroll", "hscroll"):
            self._scroll(name, given)
        else:
            _METHODS[name](self, given)
        return None

    def _click(self, name: str, given: dict[str, Value]) -> None:
        button, clicks = _CLICKS[name]
        left = _whole(given.get("clicks", clicks), "clicks", at_least=1)
        point = self._point(given)
        while left > 0:  # one action has at most three
            self._do(Click(point=point, button=_button(given, button), clicks=min(left, 3)))
            left -= 3

    def _move_to(self, given: dict[str, Value]) -> None:
        self._do(Move(point=self._known_point(given, "moveTo")))

    def _move_by(self, given: dict[str, Value]) -> None:
        self._do(Move(point=self._known_point(self._offset(given, "move"), "move")))

    def _drag_to(self, given: dict[str, Value]) -> None:
        end = self._known_point(given, "dragTo")
        start = self._held[-1][1] if self._held else 0
        last = self.actions[-1] if len(self.actions) > start else None
        path: tuple[Point, ...] = (end,)
        if isinstance(last, Move):
            self.actions.pop()
            path = (last.point, end)
        self._do(Drag(path=path, button=_button(given)))

    def _drag_by(self, given: dict[str, Value]) -> None:
        self._drag_to(self._offset(given, "drag"))

    def _mouse_down(self, given: dict[str, Value]) -> None:
        self._do(ButtonDown(point=self._point(given), button=_button(given)))

    def _mouse_up(self, given: dict[str, Value]) -> None:
        self._do(ButtonUp(point=self._point(given), button=_button(given)))

    def _scroll(self, name: str, given: dict[str, Value]) -> None:
        left = _whole(given.get("clicks"), "clicks")
        point = self._point(given)
        while True:
            part = max(-MAX_SCROLL, min(left, MAX_SCROLL))
            self._do(Scroll(point=point, dx=part) if name == "hscroll" else Scroll(point=point, dy=part))
            left -= part
            if left == 0:
                return

    def _write(self, given: dict[str, Value]) -> None:
        message = given.get("message")
        if isinstance(message, str):
            self._type(message)
        else:
            for name in _texts(message, "write"):
                self._press_keys((canonical_key(name),))

    def _press(self, given: dict[str, Value]) -> None:
        for _ in range(_whole(given.get("presses", 1), "presses")):
            for name in _texts(given.get("keys"), "press"):
                self._press_keys(_chord(name))

    def _hotkey(self, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
        unknown = sorted(kwargs.keys() - {"interval"})
        if unknown:
            raise Rejected(f"pyautogui.hotkey has no argument {unknown[0]!r}; write hotkey('ctrl', 's')")
        names = [name for value in args for name in _texts(value, "hotkey")]
        if not names:
            raise Rejected("hotkey needs keys, e.g. pyautogui.hotkey('ctrl', 's')")
        self._press_keys(tuple(key for name in names for key in _chord(name)))

    def _key_down(self, given: dict[str, Value]) -> None:
        self._do(KeyDown(key=_text(given.get("key"), "keyDown")))

    def _key_up(self, given: dict[str, Value]) -> None:
        self._do(KeyUp(key=_text(given.get("key"), "keyUp")))

    def _sleep(self, given: dict[str, Value]) -> None:
        self._do(Wait(seconds=_number(given.get("seconds"), "seconds")))

    def _look(self, given: dict[str, Value]) -> None:
        self._do(Screenshot())

    def _copy(self, given: dict[str, Value]) -> None:
        self._clipboard = _text(given.get("text"), "pyperclip.copy")
        self.unpasted = True

    def _press_keys(self, keys: tuple[str, ...]) -> None:
        if keys in _PASTE_CHORDS and self._clipboard is not None:
            self._type(self._clipboard)
            self.unpasted = False
            return
        if keys in _CLIPBOARD_CHORDS:
            self._clipboard = None
        self._do(Press(keys=keys))

    def _type(self, text: str) -> None:
        if text:
            self._do(TypeText(text=text))

    def _do(self, action: Action) -> None:
        self.actions.append(action)
        if len(self.actions) > MAX_ACTIONS:
            raise Rejected(f"the code does more than {MAX_ACTIONS} actions in one turn")

    def _position(self, function: str) -> tuple[float, float]:
        if self._cursor is None:
            raise Rejected(f"{function} needs the pointer's position, which this code has not set; use absolute points")
        return self._cursor

    def _offset(self, given: dict[str, Value], function: str) -> dict[str, Value]:
        by_x, by_y = given.get("xOffset", 0), given.get("yOffset", 0)
        if isinstance(by_x, tuple):
            by_x, by_y = _pair(by_x)
        x, y = self._position(function)
        moved = {"x": x + _number(by_x or 0, "xOffset"), "y": y + _number(by_y or 0, "yOffset")}
        return {**given, **moved}

    def _known_point(self, given: dict[str, Value], function: str) -> Point:
        point = self._point(given)
        if point is None:
            raise Rejected(f"{function} needs x and y")
        return point

    def _point(self, given: dict[str, Value]) -> Point | None:
        x, y = given.get("x"), given.get("y")
        if isinstance(x, tuple):
            x, y = _pair(x)
        if isinstance(x, str):
            raise Rejected("images cannot be searched for; give x and y in pixels")
        if x is None and y is None:
            return None
        if x is None or y is None:
            known = self._position("a single coordinate")
            x, y = known[0] if x is None else x, known[1] if y is None else y
        at = _number(x, "x"), _number(y, "y")
        point = self._view.point(*at, space=self._space)
        self._cursor = at
        return point


_METHODS: dict[str, Callable[[Hands, dict[str, Value]], None]] = {
    "moveTo": Hands._move_to,
    "move": Hands._move_by,
    "moveRel": Hands._move_by,
    "dragTo": Hands._drag_to,
    "drag": Hands._drag_by,
    "dragRel": Hands._drag_by,
    "mouseDown": Hands._mouse_down,
    "mouseUp": Hands._mouse_up,
    "write": Hands._write,
    "typewrite": Hands._write,
    "press": Hands._press,
    "keyDown": Hands._key_down,
    "keyUp": Hands._key_up,
    "sleep": Hands._sleep,
    "screenshot": Hands._look,
}


def _held_around(keys: tuple[str, ...], body: list[Action]) -> list[Action]:
    """Actions with keys held around them; as one action where one can say it."""
    if not body:
        return [Press(keys=keys)]
    if len(body) == 1:
        match body[0]:
            case Click() | Drag() | Scroll() as action:
                return [parse_action({**action.model_dump(), "modifiers": (*keys, *action.modifiers)})]
            case Wait(seconds=seconds) if seconds > 0:
                return [Press(keys=keys, hold_s=seconds)]
            case Press() as action:
                return [Press(keys=(*keys, *action.keys), hold_s=action.hold_s)]
    downs: list[Action] = [KeyDown(key=key) for key in keys]
    return [*downs, *body, *(KeyUp(key=key) for key in reversed(keys))]


def _bound(
    function: str, parameters: tuple[str, ...], args: tuple[Value, ...], kwargs: dict[str, Value]
) -> dict[str, Value]:
    """Arguments by name, without those that are None."""
    wanted = f"its arguments are {', '.join(parameters)}" if parameters else "it takes none here"
    if len(args) > len(parameters):
        raise Rejected(f"{function} got {len(args)} arguments; {wanted}")
    given = dict(zip(parameters, args, strict=False))
    for name, value in kwargs.items():
        if name not in parameters or name in given:
            raise Rejected(f"{function} got {'twice' if name in given else 'an unknown argument'} {name!r}; {wanted}")
        given[name] = value
    return {name: value for name, value in given.items() if value is not None}


def _number(value: Value, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"{name} must be a number")
    return value


def _whole(value: Value, name: str, *, at_least: int | None = None) -> int:
    number = int(_number(value, name))
    if at_least is not None and number < at_least:
        raise Rejected(f"{name} must be at least {at_least}")
    return number


def _pair(value: tuple[Value, ...]) -> tuple[Value, Value]:
    if len(value) != 2:
        raise Rejected(f"a point has two numbers, not {len(value)}")
    return value[0], value[1]


def _text(value: Value, function: str) -> str:
    if not isinstance(value, str):
        raise Rejected(f"{function} needs a text in quotes")
    return value


def _texts(value: Value, function: str) -> tuple[str, ...]:
    if value == () or not isinstance(value, str | tuple):
        raise Rejected(f"{function} needs a text in quotes or a list of them")
    return (value,) if isinstance(value, str) else tuple(_text(each, function) for each in value)


def _button(given: dict[str, Value], default: Button = "left") -> Button:
    button = given.get("button", default)
    if button not in _BUTTONS:
        raise Rejected("button must be 'left', 'middle', 'right', 'back' or 'forward'")
    return _BUTTONS[button]


def _chord(name: str) -> tuple[str, ...]:
    return parse_chord(name) if len(name) > 1 and "+" in name else (canonical_key(name),)
