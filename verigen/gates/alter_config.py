"""Changes of a structured file for a config check."""

from __future__ import annotations

import copy
import json
from typing import Any

from verigen.checks.config import look_up, parse_config
from verigen.checks.model import ConfigCheck

__all__ = ["damaged", "preserved", "satisfied"]


def damaged(check: ConfigCheck, text: str) -> list[tuple[str, str]]:
    """Files whose value at the path is not the expected one."""
    changes = [("emptied", ""), ("cut in half", text[: len(text) // 2] + "\n\x00[")]
    for what, value in _other_values(check.expected):
        written = _file_with(check, value)
        if written is not None:
            changes.append((what, written))
    if check.format == "json" and check.path:
        changes.append(("the key gone", _json_edit(check, text, delete=True)))
        changes += [(f"only {what}", _json_edit(check, text, value)) for what, value in _other_values(check.expected)]
    return changes


def satisfied(check: ConfigCheck) -> list[tuple[str, str]]:
    """A file with the expected value and nothing else."""
    written = _file_with(check, check.expected)
    return [] if written is None else [("the very value", written)]


def preserved(check: ConfigCheck, text: str) -> list[tuple[str, str]]:
    """Files that differ elsewhere."""
    if check.format == "json":
        root = parse_config("json", text.encode())
        changes = [("indented otherwise", json.dumps(root, indent=7))]
        if isinstance(root, dict) and check.path:
            changes.append(("an unrelated key", json.dumps({"an unrelated key": 1, **root})))
        return changes
    value = "1" if check.format == "toml" else "x"
    return [("an unrelated section", f"{text.rstrip()}\n\n[an_unrelated_section]\nkey = {value}\n")]


def _other_values(expected: Any) -> list[tuple[str, Any]]:
    match expected:
        case bool():
            return [("the other value", not expected), ("as a number", int(expected))]
        case int() | float():
            return [("one more", expected + 1), ("as text", str(expected))]
        case str():
            return [("a longer text", f"{expected}x"), ("an empty text", "")] if expected else [("a text", "x")]
        case list() | tuple():
            return [("one entry more", [*expected, "x"]), ("no entries", [])] if expected else [("an entry", ["x"])]
        case _:
            return [("another kind of value", 0)]


def _file_with(check: ConfigCheck, value: Any) -> str | None:
    """A small file with this value at the path; None where the format cannot say it simply."""
    if check.format == "json":
        return json.dumps(_nested(check.path, value))
    keys = [part for part in check.path if isinstance(part, str)]
    if len(keys) != len(check.path) or not keys:
        return None
    if check.format in ("ini", "keyfile"):
        return f"[{keys[0]}]\n{keys[1]} = {value}\n" if len(keys) == 2 else None
    if value is None or isinstance(value, dict):
        return None
    # Scalars and lists of scalars are written alike in JSON and TOML.
    table = ".".join(json.dumps(key) for key in keys[:-1])
    return (f"[{table}]\n" if table else "") + f"{json.dumps(keys[-1])} = {json.dumps(value)}\n"


def _nested(path: tuple[str | int, ...], value: Any) -> Any:
    for part in reversed(path):
        value = {part: value} if isinstance(part, str) else [None] * part + [value]
    return value


def _json_edit(check: ConfigCheck, text: str, value: Any = None, *, delete: bool = False) -> str:
    root = copy.deepcopy(parse_config("json", text.encode()))
    parent, last = look_up(root, check.path[:-1]), check.path[-1]
    if delete:
        del parent[last]
    else:
        parent[last] = value
    return json.dumps(root)
