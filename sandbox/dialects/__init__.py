"""Dialects: how each model family writes actions. A new one is a file beside these and an entry in `DIALECTS`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from sandbox.dialects.anthropic import Anthropic
from sandbox.dialects.browsergym import BrowserGym
from sandbox.dialects.bytebot import Bytebot
from sandbox.dialects.compact import Compact
from sandbox.dialects.computer13 import Computer13
from sandbox.dialects.cua_bench import CuaBench
from sandbox.dialects.openai import OpenAI
from sandbox.dialects.protocol import Dialect, Inexpressible, ParsedTurn, ParseError, View
from sandbox.dialects.pyautogui import PyAutoGUI
from sandbox.dialects.qwen import Qwen
from sandbox.dialects.uitars import UITars
from sandbox.dialects.view import CELLS_1000, EDGES_1, RESIZED_28, RESIZED_32

__all__ = ["DIALECTS", "Dialect", "Inexpressible", "ParseError", "ParsedTurn", "View", "get_dialect"]

_ALL: tuple[Dialect, ...] = (
    Compact(),
    PyAutoGUI(),
    PyAutoGUI("pyautogui-28", RESIZED_28),
    PyAutoGUI("pyautogui-unit", EDGES_1),
    Computer13(),
    OpenAI(batched=True),
    OpenAI(batched=False),
    Anthropic("20251124"),
    Anthropic("20250124"),
    Anthropic("20241022"),
    UITars("1.5"),
    UITars("1"),
    Qwen("qwen25", RESIZED_28),
    Qwen("qwen3", CELLS_1000),
    Qwen("qwen3-absolute", RESIZED_32),
    Bytebot(),
    BrowserGym(),
    CuaBench(),
)

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
