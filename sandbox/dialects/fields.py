"""Reads the arguments of one call, each with its type; every complaint begins with the name of the field."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from sandbox.actions import Point
from sandbox.dialects.protocol import Rejected
from sandbox.dialects.view import Space, View
from sandbox.keys import canonical_key, parse_chord

__all__ = ["Fields"]

MAX_NUMBER = 1e9
_SAYS_NOTHING: tuple[object, ...] = (None, "", [], {})


class Fields:
    """The arguments of one call.

    Args:
        data: name -> value as JSON gives it.
        of: the call's name, for messages.
        view: what coordinates refer to.
        space: what they count.
    """

    def __init__(self, data: Mapping[str, Any], *, of: str, view: View, space: Space) -> None:
        self._data = dict(data)
        self._of = of
        self._view = view
        self._space = space
        self._read: list[str] = []

    def has(self, name: str) -> bool:
        """Whether a field is there, whatever its value."""
        return name in self._data

    def number(
        self, name: str, default: float | None = None, *, least: float = -MAX_NUMBER, most: float = MAX_NUMBER
    ) -> float:
        """A finite number within limits."""
        return _number(name, self._take(name, default), least, most)

    def whole(self, name: str, default: int | None = None, *, least: int, most: int) -> int:
        """A whole number within limits; 2.0 is one too."""
        number = self.number(name, default, least=least, most=most)
        if number != int(number):
            raise Rejected(f"{name}: must be a whole number, not {number:g}")
        return int(number)

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self._take(name, default)
        if not isinstance(value, str):
            raise Rejected(f"{name}: must be a text, not {_kind(value)}")
        return value

    def one_of(self, name: str, choices: Mapping[str, Any], default: str | None = None) -> Any:
        """What a word stands for."""
        word = self.text(name, default)
        if word not in choices:
            raise Rejected(f"{name}: must be one of {', '.join(choices)}, not {word[:40]!r}")
        return choices[word]

    def items(self, name: str) -> list[Any]:
        """A list."""
        value = self._take(name, None)
        if not isinstance(value, list):
            raise Rejected(f"{name}: must be a list, not {_kind(value)}")
        return value

    def chord(self, name: str) -> tuple[str, ...]:
        """Keys held together: a list of names, or one text such as `ctrl+s`. Nothing where the field is empty."""
        value = self._data.get(name)
        self._read.append(name)
        if value in _SAYS_NOTHING:
            return ()
        try:
            if isinstance(value, str):
                return _keys(value)
            if isinstance(value, list) and all(isinstance(key, str) for key in value):
                return tuple(key for each in value for key in _keys(each))
        except Rejected:
            raise
        except ValueError as error:
            raise Rejected(f"{name}: {error}") from error
        raise Rejected(f"{name}: must be a list of key names, not {_kind(value)}")

    def names(self, name: str) -> list[str]:
        """The key names in a field as they are written, after `chord` has read it."""
        value = self._data.get(name)
        return [part for each in ([value] if isinstance(value, str) else value or []) for part in each.split("+")]

    def point(self, name: str, *, required: bool = False) -> Point | None:
        """A pair of coordinates as the screen's pixel; None where the field is left out, which means the pointer."""
        if name not in self._data and not required:
            return None
        return self.point_of(name, self._take(name, None))

    def xy(self, *, required: bool = False) -> Point | None:
        """The fields `x` and `y` as the screen's pixel; None where both are left out, which means the pointer."""
        if not required and "x" not in self._data and "y" not in self._data:
            return None
        at = self.number("x"), self.number("y")
        return self._pixel("x", "y", at)

    def point_of(self, name: str, value: Any) -> Point:
        """The pixel for a value: two numbers in a list, or an object of `x` and `y`."""
        if isinstance(value, dict):
            if value.keys() != {"x", "y"}:
                raise Rejected(f"{name}: a point has x and y")
            at = [_number(f"{name}.{axis}", value[axis], -MAX_NUMBER, MAX_NUMBER) for axis in "xy"]
        elif isinstance(value, list) and len(value) == 2:
            at = [_number(f"{name}[{index}]", each, -MAX_NUMBER, MAX_NUMBER) for index, each in enumerate(value)]
        else:
            raise Rejected(f"{name}: must be two numbers such as [100, 200], not {_kind(value)}")
        return self._pixel(name, name, (at[0], at[1]))

    def no_more(self) -> None:
        """Refuse what was not read; empty values say nothing and pass."""
        left = [name for name, value in self._data.items() if name not in self._read and value not in _SAYS_NOTHING]
        if left:
            near = difflib.get_close_matches(left[0][:40], self._read, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Rejected(f"{left[0][:40]}: {self._of} has no such argument{hint}")

    def _take(self, name: str, default: object) -> Any:
        self._read.append(name)
        if name not in self._data and default is None:
            raise Rejected(f"{name}: {self._of} needs it")
        return self._data.get(name, default)

    def _pixel(self, x_name: str, y_name: str, at: tuple[float, float]) -> Point:
        try:
            return self._view.point(*at, space=self._space)
        except ValueError as error:
            width = self._view.size(self._space)[0]
            name = y_name if 0 <= at[0] < width else x_name
            raise Rejected(f"{name}: {error}") from error


def _keys(name: str) -> tuple[str, ...]:
    return parse_chord(name) if len(name) > 1 and "+" in name else (canonical_key(name),)


def _number(name: str, value: Any, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"{name}: must be a number, not {_kind(value)}")
    if value != value or value in (math.inf, -math.inf):
        raise Rejected(f"{name}: must be a finite number, not {value}")
    if not least <= value <= most:
        raise Rejected(f"{name}: must be from {least:g} to {most:g}")
    return value


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value[:40]!r}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
        case _:
            return "a number"
