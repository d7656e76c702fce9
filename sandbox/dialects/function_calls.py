"""A language of function calls in Python, read as a syntax tree: its functions are a table of names and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.actions import Action, Done, Drag, Infeasible, Point, Wait
from sandbox.dialects.code_blocks import find_code
from sandbox.dialects.fields import Fields
from sandbox.dialects.protocol import MAX_ACTIONS, Reading, Rejected, View
from sandbox.dialects.python_subset import Ref, Value, run

__all__ = ["Function", "Functions", "drag_from_to", "point_xy", "read_calls"]


@dataclass(frozen=True, slots=True)
class Function:
    """One function."""

    parameters: tuple[str, ...]
    """Names in order."""
    read: Callable[[Fields], list[Action]]
    """What a call means; raises ValueError to refuse it."""
    dropped: tuple[str, ...] = ()
    """Those parameters that change nothing here, such as durations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Functions:
    """The functions of a language."""

    module: str
    """What they may be imported from."""
    known: Mapping[str, Function]
    refused: Mapping[str, str]
    """Functions that the language has and we do not, with what to do instead."""


def read_calls(text: str, functions: Functions, view: View) -> Reading:
    """Read a reply.

    Raises:
        Rejected: the reply is none.
    """
    code = find_code(text)
    host = _Host(functions, view)
    run(code.tree, host)
    return Reading(actions=host.actions, thought=code.thought)


def point_xy(fields: Fields) -> Point:
    """The pixel for `x` and `y`, both needed."""
    point = fields.xy(required=True)
    assert point is not None
    return point


def drag_from_to(fields: Fields) -> list[Action]:
    """A drag of `from_x`, `from_y`, `to_x` and `to_y`, all needed."""
    ends = ([fields.number(f"{end}_x"), fields.number(f"{end}_y")] for end in ("from", "to"))
    start, end = (fields.point_of(name, at) for name, at in zip(("from", "to"), ends, strict=True))
    return [Drag(path=(start, end))]


_WORDS: dict[str, Callable[[], Action]] = {"WAIT": lambda: Wait(seconds=1.0), "DONE": Done, "FAIL": Infeasible}


class _Host:
    constants: Mapping[str, Value] = {}
    settings: frozenset[str] = frozenset()
    ignored_arguments: frozenset[str] = frozenset()
    contexts: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()

    def __init__(self, functions: Functions, view: View) -> None:
        self.modules: Sequence[str] = (functions.module,)
        self.bare: Sequence[str] = (functions.module,)
        self.actions: list[Action] = []
        self._functions = functions
        self._view = view

    def has(self, function: str) -> bool:
        name = function.removeprefix(f"{self._functions.module}.")
        return name in self._functions.known or name in self._functions.refused

    def call(self, function: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        name = function.removeprefix(f"{self._functions.module}.")
        if name in self._functions.refused:
            raise Rejected(f"{name} is not offered; {self._functions.refused[name]}")
        if name not in self._functions.known:
            raise Rejected(f"there is no function {name[:40]!r}; there are {', '.join(self._functions.known)}")
        meant = self._functions.known[name]
        if len(args) > len(meant.parameters):
            raise Rejected(f"{name} got {len(args)} arguments; it takes {', '.join(meant.parameters) or 'none'}")
        given = dict(zip(meant.parameters, args, strict=False))
        for parameter, value in kwargs.items():
            if parameter in given:
                raise Rejected(f"{parameter}: {name} got it twice")
            given[parameter] = value
        kept = {each: _plain(each, value) for each, value in given.items() if each not in meant.dropped}
        fields = Fields(kept, of=name, view=self._view, space="shown")
        for action in meant.read(fields):
            self._do(action)
        fields.no_more()
        return None

    def enter(self, function: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
        raise AssertionError("there are no contexts")

    def leave(self) -> None:
        raise AssertionError("there are no contexts")

    def word(self, word: str) -> bool:
        action = _WORDS.get(word.upper())
        if action is not None:
            self._do(action())
        return action is not None

    def _do(self, action: Action) -> None:
        self.actions.append(action)
        if len(self.actions) > MAX_ACTIONS:
            raise Rejected(f"the code does more than {MAX_ACTIONS} actions in one turn")


def _plain(name: str, value: Value) -> Any:
    """The value as JSON would give it."""
    if isinstance(value, Ref | range):
        raise Rejected(f"{name}: must be a number, a text or a list")
    return [_plain(name, each) for each in value] if isinstance(value, tuple) else value
