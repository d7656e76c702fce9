"""One value inside a structured file: JSON, TOML, INI or a GLib key file.

Types count: `true` is not 1, `"1"` is not 1, and `null` equals only a `null` that is really written there. Values of
INI and key files are text. The file is the agent's, so reading it must end: the INI reader is linear, and files larger
than the limit of their format are not parsed at all.
"""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Callable
from typing import Any

from verigen.checks.model import ConfigCheck
from verigen.checks.text import item_bytes
from verigen.checks.verdict import Verdict, failed, passed, shorten, unknown

__all__ = ["check_config", "look_up", "parse_config", "same"]

MAX_BYTES = {"json": 1 << 20, "toml": 1 << 16, "ini": 1 << 20, "keyfile": 1 << 20}
"""Largest file that is parsed."""
MAX_TOML_LINE = 1 << 13
"""Characters. The TOML reader's time grows with the square of a dotted key's length."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def _toml(text: str) -> Any:
    longest = max(map(len, text.split("\n")))
    if longest > MAX_TOML_LINE:
        raise ValueError(f"a line of {longest} characters is longer than the {MAX_TOML_LINE} that are read")
    return tomllib.loads(text)


def _sections(text: str, *, comments: str, delimiters: str) -> dict[str, dict[str, str]]:
    """Sections of `key = value` lines. Keys keep their case, values their quotes; of equal keys the last counts."""
    sections: dict[str, dict[str, str]] = {}
    section: dict[str, str] | None = None
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line[0] in comments:
            continue
        if line[0] == "[" and line[-1] == "]":
            section = sections.setdefault(line[1:-1], {})
            continue
        cut = min((at for at in map(line.find, delimiters) if at > 0), default=-1)
        if cut < 0:
            raise ValueError(f"line {number} is neither a section, a comment nor a key with a value")
        if section is None:
            raise ValueError(f"line {number} stands before the first section")
        section[line[:cut].rstrip()] = line[cut + 1 :].lstrip()
    return sections


def _ini(text: str) -> Any:
    return _sections(text, comments="#;", delimiters="=:")


def _keyfile(text: str) -> Any:
    return _sections(text, comments="#", delimiters="=")


_PARSERS: dict[str, Callable[[str], Any]] = {"json": _json, "toml": _toml, "ini": _ini, "keyfile": _keyfile}


def parse_config(format: str, raw: bytes) -> Any:
    """Parse a structured file.

    Raises:
        ValueError: it is not such a file, is too large or is nested too deeply; the message says which.
    """
    if len(raw) > MAX_BYTES[format]:
        raise ValueError(f"{len(raw)} bytes are more than the {MAX_BYTES[format]} that are read as {format}")
    try:
        return _PARSERS[format](raw.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def look_up(root: Any, path: tuple[str | int, ...]) -> Any:
    """The value at a path.

    Raises:
        KeyError: there is none; the message names the first part that leads nowhere.
    """
    value = root
    for depth, part in enumerate(path):
        found = isinstance(value, dict) and isinstance(part, str) and part in value
        found = found or (isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value))
        if not found:
            raise KeyError("/".join(map(str, path[: depth + 1])))
        value = value[part]
    return value


def same(found: Any, expected: Any) -> bool:
    """Equality of JSON values: numbers by value, everything else by type and value."""
    if isinstance(found, datetime.date | datetime.time):
        found = found.isoformat()
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return found == expected
    if isinstance(found, list) and isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    return type(found) is type(expected) and bool(found == expected)


def check_config(check: ConfigCheck, data: Any) -> Verdict:
    """Compare the value at the path with what it should be."""
    raw = item_bytes(data, check.item)
    if isinstance(raw, Verdict):
        return raw
    try:
        root = parse_config(check.format, raw)
    except ValueError as error:
        return unknown(f"not readable as {check.format}: {error}")
    try:
        found = look_up(root, check.path)
    except KeyError as error:
        return unknown(f"there is no {error.args[0]} in the file")
    if same(found, check.expected):
        return passed("the value is as expected")
    where = "/".join(map(str, check.path))
    return failed(f"{where} is {shorten(found)}, expected {shorten(check.expected)}")
