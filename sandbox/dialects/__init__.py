"""Dialects: how each model family writes actions. A new one is a file beside these and an entry in `DIALECTS`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from sandbox.dialects.compact import Compact
from sandbox.dialects.protocol import Dialect, ParsedTurn, ParseError, View
from sandbox.dialects.pyautogui import PyAutoGUI

__all__ = ["DIALECTS", "Dialect", "ParseError", "ParsedTurn", "View", "get_dialect"]

_ALL: tuple[Dialect, ...] = (Compact(), PyAutoGUI())

DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in _ALL})
"""Every dialect by its name."""


def get_dialect(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if name in DIALECTS:
        return DIALECTS[name]
    near = difflib.get_close_matches(name, DIALECTS, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"there is no dialect {name!r}{hint}; the dialects are {', '.join(DIALECTS)}")
