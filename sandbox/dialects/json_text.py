"""Finds JSON in what a model wrote around it, and the reasoning before it.

A text is prose and JSON values in turn; fences and `<tool_call>` tags around a value belong to neither. Prose is only
what cannot be meant as a call: something that begins like a JSON object and does not parse is an error, because taking
it for prose would silently not do it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.dialects.protocol import Rejected

__all__ = ["Json", "Prose", "load", "segments", "split_thinking"]

_MAX_VALUES = 400
_MAX_MISSES = 50
"""Brackets in prose that are tried as JSON."""
_STARTS_CALL = re.compile(r'\{\s*"|\[\s*\{|\{\s*\'')
_WRAPPER_BEFORE = re.compile(r"(?:<tool_call>|```[A-Za-z]*)\s*$")
_WRAPPER_AFTER = re.compile(r"\s*(?:</tool_call>|```)")
_THINK_END = re.compile(r"</think>(?![\"'\\,)])")
"""Not directly before a quote or the like: there it ends a text that is to be typed."""
_STARTS_BARE = re.compile(r"\s*(?:[\[{]|<tool_call>|```|Action\s*:|Thought\s*:)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prose:
    """Words between values."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Json:
    """A JSON value."""

    value: Any


def split_thinking(text: str) -> tuple[str, str]:
    """The reasoning up to `</think>`, and the rest. A text that starts with a call has none.

    Raises:
        Rejected: the reasoning never ends.
    """
    if _STARTS_BARE.match(text):
        return "", text
    if end := _THINK_END.search(text):
        return text[: end.start()].replace("<think>", "", 1).strip(), text[end.end() :]
    if text.lstrip().startswith("<think>"):
        raise Rejected("the reply ends inside its thoughts; close them with </think> and write the action after that")
    return "", text


def load(text: str) -> Any:
    """Read one JSON document.

    Raises:
        Rejected: it is not JSON.
    """
    try:
        value, end = _decode(text, len(text) - len(text.lstrip()))
    except ValueError as error:
        raise Rejected(f"this is not JSON: {_reason(error)}") from error
    if text[end:].strip():
        raise Rejected("something follows the JSON")
    return value


def segments(text: str) -> Iterator[Prose | Json]:
    """Prose and JSON values in the order of the text.

    Raises:
        Rejected: something begins like a call and is not JSON.
    """
    prose_from = at = num_values = num_misses = 0
    while (at := _next_bracket(text, at)) >= 0:
        try:
            value, end = _decode(text, at)
        except ValueError as error:
            if _STARTS_CALL.match(text, at):
                raise Rejected(f"this is not JSON: {_reason(error)}", where=_line(text, at)) from error
            num_misses += 1
            if num_misses > _MAX_MISSES:
                raise Rejected(f"more than {_MAX_MISSES} brackets in the reply are not JSON") from error
            at += 1
            continue
        if not isinstance(value, dict) and not (isinstance(value, list) and _is_list_of_calls(value)):
            at = end
            continue
        num_values += 1
        if num_values > _MAX_VALUES:
            raise Rejected(f"the reply has more than {_MAX_VALUES} JSON values")
        yield from _prose(_WRAPPER_BEFORE.sub("", text[prose_from:at]))
        yield Json(value=value)
        after = _WRAPPER_AFTER.match(text, end)
        prose_from = at = after.end() if after else end
    yield from _prose(text[prose_from:])


def _prose(text: str) -> Iterator[Prose]:
    if text.strip():
        yield Prose(text=text.strip())


def _next_bracket(text: str, at: int) -> int:
    found = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
    return min(found, default=-1)


def _is_list_of_calls(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(each, dict | str) for each in value)


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is given twice")
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_object, strict=False)


def _reason(error: ValueError) -> str:
    return error.msg.lower() if isinstance(error, json.JSONDecodeError) else str(error)


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"
