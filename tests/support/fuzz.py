"""Inputs to break a dialect's reader: valid turns, valid turns that were damaged, and noise. All from one seed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

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
from sandbox.dialects import Dialect, Inexpressible, ParsedTurn, View, get_dialect
from sandbox.dialects.protocol import MAX_INPUT
from sandbox.keys import KEY_NAMES

__all__ = ["GRAMMAR_SHARE", "Findings", "fuzz", "huge_inputs", "problem_with", "valid_turns"]

GRAMMAR_SHARE = 0.85
"""Share of inputs that are damaged valid turns."""
POOL = 1_000
"""Valid turns for each view that are damaged, at most."""
VIEWS = (
    View.unscaled(1280, 720),
    View(screen=(1920, 1080), shown=(1280, 720)),
    View(screen=(1366, 768), shown=(683, 384)),
    View(screen=(801, 603), shown=(801, 603)),
    View.unscaled(160, 120),
)
_BUTTONS: tuple[Button, ...] = ("left", "left", "left", "middle", "right", "back", "forward")
_PIECES = (
    *("{", "}", "[", "]", "(", ")", '"', "'", "\\", "\\n", "\\\\n", "\\u0041", ",", ":", "=", "\n", " ", "\t", ";"),
    *("null", "NaN", "Infinity", "-1", "1e999", "9" * 30, "9" * 5000, "true", "-0.0", "0x10", "1_0", "''", '""', "[]"),
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "```", "```json\n", "```python\n", "Action: ", "Thought: "),
    *("<point>", "</point>", "<|box_start|>", "<|box_end|>", "start_box='", "content='", "click(", ")", "finished()"),
    *("DONE", "DONE.", "FAIL", "[INFEASIBLE]", "[ANSWER] ", "WAIT", "ctrl+", "+", "plus", "#", "--"),
    *('"action":', '"type":', '"x":', '"coordinate":', '"arguments":', '"input":', '"keys":', '"text":', '"path":'),
    *("__import__('os').system('true')", "eval('1')", "{x}", "%s", "${x}", "\0", "\r", "\x0c", "\ud800", "\u2028", "é"),
    *("for i in range(9):\n ", "pyautogui.", "with pyautogui.hold('a'):\n ", "time.sleep(1)", "lambda: 0", "* 9"),
)
_VALUES = (
    *("null", "true", "NaN", "-5", "1e999", "99999", "1.5", '"x"', "'x'", '""', "[]", "{}", "[[1]]", '{"a": 1}'),
    *("[null, 1]", '["1", 2]', "[-1, 5]", "None", "(1, 2)", "x", "'(1,2)'", '"ctrl+"', '["nokey"]', "1 if x else 2"),
)
_WORDS = (
    "it's",
    'say "x"',
    "C:\\new\\",
    "a;b",
    "(x)",
    "<point>1 2</point>",
    "é美😀",
    "\n",
    "\t",
    "')",
    "'}",
    "</x>",
    "\\",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What fuzzing found."""

    num_inputs: int
    num_from_grammar: int
    num_understood: int
    exceptions: tuple[str, ...]
    """Each exception or broken promise, with the input that caused it."""
    slowest_ms: float
    """CPU time."""


def fuzz(name: str, num_inputs: int, *, seed: int) -> Findings:
    """Read inputs with a dialect and note every exception and every broken promise."""
    rng = random.Random(f"{name} {seed}")
    dialect = get_dialect(name)
    pools = [list(valid_turns(dialect, view, rng, min(POOL, num_inputs // 10))) for view in VIEWS]
    exceptions: list[str] = []
    num_from_grammar = num_understood = 0
    slowest = 0.0
    for _ in range(num_inputs):
        index = rng.randrange(len(VIEWS))
        view = VIEWS[index]
        from_grammar = rng.random() < GRAMMAR_SHARE
        text = _damaged(pools[index], rng) if from_grammar else _noise(rng)
        num_from_grammar += from_grammar
        begun = time.thread_time()
        try:
            turn = dialect.parse(text, view)
            found = problem_with(turn, text, view)
        except Exception as error:  # noqa: BLE001 - that there is none is what is measured
            found = f"{type(error).__name__}: {error}"
        else:
            num_understood += turn.error is None
        slowest = max(slowest, time.thread_time() - begun)
        if found:
            exceptions.append(f"{found[:200]} for {text[:500]!r}")
    return Findings(
        num_inputs=num_inputs,
        num_from_grammar=num_from_grammar,
        num_understood=num_understood,
        exceptions=tuple(exceptions),
        slowest_ms=slowest * 1000,
    )


def problem_with(turn: ParsedTurn, text: str, view: View) -> str:
    """Which promise an answer breaks; empty if none."""
    if turn.raw != text:
        return "the raw text differs"
    if (turn.error is None) != bool(turn.actions):
        return "it is neither actions nor an error, or both"
    if turn.error is not None and not 0 < len(str(turn.error)) < 500:
        return "the error says nothing or too much"
    for action in turn.actions:
        for point in (getattr(action, "point", None), *getattr(action, "path", ())):
            if point is not None and not (point.x < view.screen[0] and point.y < view.screen[1]):
                return f"{point} is outside the screen"
    return ""


def valid_turns(dialect: Dialect, view: View, rng: random.Random, count: int) -> Iterator[str]:
    """Turns of one to three random actions that the dialect can write."""
    made = 0
    while made < count:
        written = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            try:
                written.append(dialect.render(_action(view, rng), view))
            except Inexpressible:
                continue
        if written:
            made += 1
            yield "\n".join(written)


def huge_inputs(name: str, *, seed: int) -> Iterator[str]:
    """Inputs of the largest size that is read, made to be slow: one thing repeated, nested, or left open."""
    rng = random.Random(f"huge {name} {seed}")
    dialect, view = get_dialect(name), VIEWS[0]
    turns = list(valid_turns(dialect, view, rng, 40))
    units = [
        *_PIECES,
        *_WORDS,
        *turns,
        "{'a':",
        '{"a":',
        "[[",
        '{"type":"click","x":1},',
        "click(a='b') ",
        "a='",
        "x\n",
    ]
    for unit in units:
        for head in (
            "",
            turns[0][: len(turns[0]) // 2],
            "Action: type(content='",
            '{"type": "type", "text": "',
            "<think>",
        ):
            yield (head + unit * (MAX_INPUT // len(unit) + 1))[:MAX_INPUT]
    for turn in turns[:10]:
        yield turn.replace("a", "a" * 50_000, 1)[:MAX_INPUT]
    for _ in range(20):
        yield "".join(rng.choices((*_PIECES, *_WORDS), k=MAX_INPUT // 3))[:MAX_INPUT]


def _action(view: View, rng: random.Random) -> Action:
    def point() -> Point:
        return Point(x=rng.randrange(view.screen[0]), y=rng.randrange(view.screen[1]))

    at = point() if rng.random() < 0.8 else None
    held = tuple(rng.sample(("ctrl", "shift", "alt", "super"), rng.choice((0, 0, 0, 1, 2))))
    keys = tuple(rng.choice((*KEY_NAMES, *"abcXYZ019+-é;'\"\\(")) for _ in range(rng.choice((1, 1, 2, 3))))
    text = "".join(rng.choice((*_WORDS, "hello ", "x")) for _ in range(rng.randint(1, 6)))
    turn = rng.randint(-10, 10)
    actions: tuple[Action, ...] = (
        Move(point=point()),
        Click(point=at, button=rng.choice(_BUTTONS), clicks=rng.randint(1, 3), modifiers=held),
        Click(point=point()),
        ButtonDown(point=at),
        ButtonUp(point=at),
        Drag(path=tuple(point() for _ in range(rng.randint(1, 4))), modifiers=held),
        Drag(path=(point(), point())),
        Scroll(point=at, dy=turn, modifiers=held),
        Scroll(point=at, dx=turn),
        TypeText(text=text),
        Press(keys=keys),
        Press(keys=keys, hold_s=rng.random()),
        KeyDown(key=keys[0]),
        KeyUp(key=keys[0]),
        Wait(seconds=rng.choice((0.5, 2.0, 10.0))),
        Screenshot(),
        Done(),
        Infeasible(reason=rng.choice(("", text))),
        Answer(text=text),
    )
    return rng.choice(actions)


def _damaged(pool: list[str], rng: random.Random) -> str:
    text = rng.choice(pool)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.choice((0, 0, 1, 1, 2, 5, 20)))
        put = rng.randrange(9)
        if put == 0:
            piece = ""
        elif put == 1:
            piece = text[start:end] * 2
        elif put == 2:
            piece = chr(rng.choice((rng.randrange(128), rng.randrange(0xD800), rng.randrange(0x110000))))
        elif put == 3:
            other = rng.choice(pool)
            cut = rng.randint(0, len(other))
            piece = other[cut : cut + 30]
        elif put == 4:
            text, piece = text[:end], ""
        elif put in (5, 6):
            start, end = _value(text, rng)
            piece = rng.choice(_VALUES)
        else:
            piece = rng.choice(_PIECES)
        text = text[:start] + piece + text[end:]
    return text


def _value(text: str, rng: random.Random) -> tuple[int, int]:
    """Where a value stands in the text: after a colon, an equals sign or an opening bracket."""
    places = [place for place, char in enumerate(text) if char in ":=([,"]
    start = rng.choice(places) + 1 if places else len(text)
    ends = [place for place in (text.find(char, start) for char in ",)]}\n") if place >= 0]
    return start, min(ends, default=len(text))


def _noise(rng: random.Random) -> str:
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randbytes(rng.randint(0, 200)).decode("latin-1")
    if kind == 1:
        return rng.randbytes(rng.randint(0, 200)).decode("utf-8", "surrogateescape")
    return "".join(rng.choices((*_PIECES, *_WORDS), k=rng.randint(0, 30)))
