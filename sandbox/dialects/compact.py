"""The compact dialect: one action a line, for small policies and for people at a prompt.

::

    # The menu is open, so I choose Save.
    click 100 200
    press ctrl+s

A line that starts with `#` is thought. The rest of a `type`, `infeasible` or `answer` line is the text itself; text
with newlines, outer spaces or a leading quote is written as a JSON string. Coordinates are pixels of the picture shown.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

from sandbox.actions import (
    Action,
    Answer,
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
)
from sandbox.dialects.protocol import ParsedTurn, ParseError, Reading, Rejected, View, explain, read_turn, result_text
from sandbox.keys import canonical_key, parse_chord, render_key

__all__ = ["Compact"]

_BUTTONS: tuple[Button, ...] = get_args(Button)
_CLICK_VERBS: dict[str, tuple[Button, int]] = {
    "click": ("left", 1),
    "double": ("left", 2),
    "triple": ("left", 3),
    "right": ("right", 1),
    "middle": ("middle", 1),
    "back": ("back", 1),
    "forward": ("forward", 1),
}
_EXAMPLES = {
    **{verb: f"`{verb} 100 200`" for verb in _CLICK_VERBS},
    "click": "`click 100 200`, `click 100 200 ctrl` or `click`",
    "move": "`move 100 200`",
    "down": "`down 100 200`, `down 100 200 right` or `down`",
    "up": "`up 100 200`, `up 100 200 right` or `up`",
    "drag": "`drag 100 200 300 400`",
    "scroll": "`scroll 100 200 0 -5` (at 100 200, five clicks down) or `scroll 0 3` (three up)",
    "type": '`type hello` or `type "two\\nlines"`',
    "press": "`press enter` or `press ctrl+s`",
    "hold": "`hold ctrl+a 1.5`",
    "keydown": "`keydown shift`",
    "keyup": "`keyup shift`",
    "wait": "`wait 1.5`",
    "shot": "`shot`",
    "done": "`done`",
    "infeasible": "`infeasible there is no such file`",
    "answer": "`answer 42`",
}
_INTEGER = re.compile(r"-?[0-9]{1,9}")
_LIKE_A_NUMBER = re.compile(r"[-+(]?[0-9]+(?:[.,)]|$)")
_LOSSES = MappingProxyType(
    {"point": "where the picture shown is smaller than the screen, a point becomes the nearest one shown"}
)


class Compact:
    """The dialect `compact`."""

    name = "compact"
    lossy: Mapping[str, str] = _LOSSES

    def parse(self, text: str, view: View) -> ParsedTurn:
        """Read lines of actions. Never raises."""
        return read_turn(text, lambda given: _read(given, view))

    def render(self, action: Action, view: View) -> str:
        """Write one action as one line."""
        return _render(action, view)

    def render_result(self, error: ParseError | str, tool_call_ids: Sequence[str] = ()) -> str:
        """What the model is told of a mistake."""
        return result_text(error)

    def system_prompt_fragment(self, view: View) -> str:
        """Teaches the lines, with the size of the picture."""
        width, height = view.shown
        return f"""\
Write one action a line. X and Y are pixels of the {width}x{height} screenshot from its top left corner.
click X Y            left click; also: double, triple, right, middle. Add keys to hold: click X Y ctrl+shift
move X Y             move the pointer
drag X Y X2 Y2       drag from one point to the next
down X Y / up X Y    press a button and keep it down / release it
scroll X Y DX DY     turn the wheel: DY clicks up (negative: down), DX clicks right
type TEXT            type the rest of the line; with line breaks as a JSON string: type "one\\ntwo"
press ctrl+s         press keys together; also: hold KEYS SECONDS, keydown KEY, keyup KEY
wait SECONDS         wait
shot                 only look at the screen
done                 the task is done
infeasible REASON    the task cannot be done
answer TEXT          end with an answer
Lines before the actions that start with # are your thoughts."""

    def tool_schema(self, view: View) -> dict[str, Any] | None:
        """None: this is plain text."""
        return None


def _read(text: str, view: View) -> Reading:
    actions: list[Action] = []
    thoughts: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if line.startswith("#"):
            thoughts.append(line[1:].strip())
        elif line:
            try:
                actions.append(_action(line, view))
            except ValueError as error:
                raise Rejected(explain(error), where=f"line {number}") from error
    return Reading(actions=actions, thought="\n".join(thoughts))


def _action(line: str, view: View) -> Action:
    word, *rest = line.split(None, 1)
    verb = word.lower()
    if verb in _CLICK_VERBS:
        return _click(verb, "".join(rest), view)
    if verb not in _READERS:
        near = difflib.get_close_matches(verb[:40], _EXAMPLES, n=1)
        hint = f"did you mean {_EXAMPLES[near[0]]}?" if near else f"a line starts with one of {', '.join(_EXAMPLES)}"
        raise Rejected(f"there is no action {word[:40]!r}; {hint}")
    return _READERS[verb](verb, "".join(rest), view)


def _click(verb: str, rest: str, view: View) -> Action:
    numbers, words = _numbers(verb, rest, (0, 2))
    button, clicks = _CLICK_VERBS[verb]
    if words and re.fullmatch("x[1-3]", words[0]):
        clicks = int(words.pop(0)[1])
    return Click(point=_point(numbers, view), button=button, clicks=clicks, modifiers=_modifiers(words))


def _move(verb: str, rest: str, view: View) -> Action:
    numbers, words = _numbers(verb, rest, (2,))
    _nothing_more(verb, words)
    return Move(point=view.point(*numbers, space="shown"))


def _button(verb: str, rest: str, view: View) -> Action:
    numbers, words = _numbers(verb, rest, (0, 2))
    button, words = _take_button(words)
    _nothing_more(verb, words)
    kind = ButtonDown if verb == "down" else ButtonUp
    return kind(point=_point(numbers, view), button=button)


def _drag(verb: str, rest: str, view: View) -> Action:
    numbers, words = _numbers(verb, rest, range(2, 1001, 2))
    path = tuple(view.point(x, y, space="shown") for x, y in zip(numbers[::2], numbers[1::2], strict=True))
    button, words = _take_button(words)
    return Drag(path=path, button=button, modifiers=_modifiers(words))


def _scroll(verb: str, rest: str, view: View) -> Action:
    numbers, words = _numbers(verb, rest, (2, 4))
    *at, dx, dy = numbers
    return Scroll(point=_point(at, view), dx=dx, dy=dy, modifiers=_modifiers(words))


def _press(verb: str, rest: str, view: View) -> Action:
    if not rest:
        raise _usage(verb, "the keys to press")
    return Press(keys=parse_chord(rest))


def _hold(verb: str, rest: str, view: View) -> Action:
    *chord, seconds = rest.rsplit(None, 1) or [""]
    if not chord:
        raise _usage(verb, "keys and seconds")
    return Press(keys=parse_chord(chord[0]), hold_s=_seconds(verb, seconds))


def _one_key(verb: str, rest: str, view: View) -> Action:
    if not rest:
        raise _usage(verb, "one key")
    kind = KeyDown if verb == "keydown" else KeyUp
    return kind(key=canonical_key(rest))


def _wait(verb: str, rest: str, view: View) -> Action:
    return Wait(seconds=_seconds(verb, rest)) if rest else Wait()


def _texts(verb: str, rest: str, view: View) -> Action:
    text = rest
    if rest.startswith('"'):
        try:
            text = json.loads(rest, strict=False)
        except ValueError as error:
            raise _usage(verb, 'one whole JSON string when its text starts with "') from error
    if verb == "infeasible":
        return Infeasible(reason=text)
    if not rest or (verb == "type" and not text):
        raise _usage(verb, "a text")
    return TypeText(text=text) if verb == "type" else Answer(text=text)


def _alone(verb: str, rest: str, view: View) -> Action:
    _nothing_more(verb, rest.split())
    return Done() if verb == "done" else Screenshot()


_READERS: dict[str, Callable[[str, str, View], Action]] = {
    "move": _move,
    "down": _button,
    "up": _button,
    "drag": _drag,
    "scroll": _scroll,
    "type": _texts,
    "press": _press,
    "hold": _hold,
    "keydown": _one_key,
    "keyup": _one_key,
    "wait": _wait,
    "shot": _alone,
    "done": _alone,
    "infeasible": _texts,
    "answer": _texts,
}


def _usage(verb: str, needs: str) -> Rejected:
    return Rejected(f"{verb} needs {needs}, e.g. {_EXAMPLES[verb]}")


def _numbers(verb: str, rest: str, counts: range | tuple[int, ...]) -> tuple[list[int], list[str]]:
    words = rest.split()
    num_leading = next((at for at, word in enumerate(words) if not _INTEGER.fullmatch(word)), len(words))
    left = words[num_leading:]
    if num_leading not in counts or (left and _LIKE_A_NUMBER.match(left[0])):
        wanted = {"scroll": "two or four whole numbers", "drag": "pairs of whole numbers (at most 500)"}
        raise _usage(verb, wanted.get(verb, "two whole numbers"))
    return [int(word) for word in words[:num_leading]], left


def _point(numbers: list[int], view: View) -> Point | None:
    return view.point(*numbers, space="shown") if numbers else None


def _take_button(words: list[str]) -> tuple[Button, list[str]]:
    for button in _BUTTONS:
        if words and words[0].lower() == button:
            return button, words[1:]
    return "left", words


def _modifiers(words: list[str]) -> tuple[str, ...]:
    return parse_chord(" ".join(words)) if words else ()


def _nothing_more(verb: str, words: list[str]) -> None:
    if words:
        raise Rejected(f"{verb} does not take {' '.join(words)[:40]!r}; write {_EXAMPLES[verb]}")


def _seconds(verb: str, word: str) -> float:
    try:
        return float(word)
    except ValueError as error:
        raise _usage(verb, "a number of seconds") from error


def _render(action: Action, view: View) -> str:
    match action:
        case Move():
            return _words("move", _xy(action.point, view))
        case Click():
            verb, times = _click_verb(action.button, action.clicks)
            return _words(verb, _xy(action.point, view), times, _chord(action.modifiers))
        case ButtonDown() | ButtonUp():
            verb = "down" if isinstance(action, ButtonDown) else "up"
            return _words(verb, _xy(action.point, view), "" if action.button == "left" else action.button)
        case Drag():
            chord = _chord(action.modifiers)
            named = action.button != "left" or chord in _BUTTONS
            path = [_xy(point, view) for point in action.path]
            return _words("drag", *path, action.button if named else "", chord)
        case Scroll():
            return _words("scroll", _xy(action.point, view), f"{action.dx} {action.dy}", _chord(action.modifiers))
        case TypeText():
            return f"type {_text(action.text)}"
        case Press(hold_s=0):
            return f"press {'+'.join(map(render_key, action.keys))}"
        case Press():
            return f"hold {'+'.join(map(render_key, action.keys))} {action.hold_s!r}"
        case KeyDown() | KeyUp():
            return f"{'keydown' if isinstance(action, KeyDown) else 'keyup'} {render_key(action.key)}"
        case Wait():
            return f"wait {action.seconds!r}"
        case Screenshot():
            return "shot"
        case Done():
            return "done"
        case Infeasible():
            return f"infeasible {_text(action.reason)}" if action.reason else "infeasible"
        case Answer():
            return f"answer {_text(action.text)}"


def _words(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _xy(point: Point | None, view: View) -> str:
    return "" if point is None else "{} {}".format(*view.place(point, space="shown"))


def _click_verb(button: Button, clicks: int) -> tuple[str, str]:
    for verb, meaning in _CLICK_VERBS.items():
        if meaning == (button, clicks):
            return verb, ""
    return button, f"x{clicks}"


def _chord(modifiers: tuple[str, ...]) -> str:
    if len(modifiers) == 1 and modifiers[0] in "0123456789":
        return f"U{ord(modifiers[0]):04X}"
    return "+".join(map(render_key, modifiers))


def _text(text: str) -> str:
    plain = text == text.strip() and text and not text.startswith('"') and "\n" not in text
    return text if plain else json.dumps(text, ensure_ascii=False)
