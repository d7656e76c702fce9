"""Text of a file, or of a command's standard output.

White space is declared, never guessed: lines end at `\\n` only; with `ignore_trailing_whitespace` blanks, tabs and
carriage returns at line ends and empty lines at the end of the text do not count, on both sides; without it every
character counts. A byte order mark never counts. Case is folded only if asked.
"""

from __future__ import annotations

import re
from typing import Any

from agent.errors import GraderFailed
from sandbox.evidence import EvidenceItem
from verigen.checks.model import TextCheck
from verigen.checks.verdict import Verdict, failed, passed, shorten, unknown

__all__ = ["MAX_REGEX_TEXT", "check_text", "item_bytes", "normal_text"]

MAX_REGEX_TEXT = 1 << 14
"""Characters. A regular expression is not run on a longer text: its time is not bounded by the text's length."""


def item_bytes(data: Any, item: str) -> bytes | Verdict:
    """The bytes of a file item or of a command's output; a verdict when the command failed.

    Raises:
        GraderFailed: the item is neither.
    """
    if isinstance(data, dict) and {"exit_code", "stdout"} <= data.keys():
        if data["exit_code"] != 0:
            return unknown(f"the command of {item!r} ended with exit code {data['exit_code']}")
        return str(data["stdout"]).encode("utf-8", "surrogateescape")
    try:
        return EvidenceItem(status="ok", data=data).file_bytes()
    except ValueError as error:
        raise GraderFailed(f"evidence {item!r} holds neither a file nor a command's output: {error}") from error


def normal_text(text: str, check: TextCheck) -> str:
    """The text as this check compares it."""
    if check.ignore_trailing_whitespace:
        text = "\n".join(line.rstrip(" \t\r\f\v") for line in text.split("\n")).rstrip("\n")
    return text.casefold() if check.ignore_case and check.match != "regex" else text


def check_text(check: TextCheck, data: Any) -> Verdict:
    """Compare a text with what it should be."""
    raw = item_bytes(data, check.item)
    if isinstance(raw, Verdict):
        return raw
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return unknown(f"not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}")
    text = normal_text(text, check)
    if check.match == "regex":
        return _regex(check, text)
    expected = normal_text(check.expected, check)
    match check.match:
        case "equals":
            return passed("the text is as expected") if text == expected else failed(_difference(text, expected))
        case "contains":
            found = expected in text
            return passed("found") if found else failed(f"{shorten(check.expected)} is not in the text")
        case "not_contains":
            found = expected in text
            return failed(f"{shorten(check.expected)} is still in the text") if found else passed("not in the text")
        case "line":
            found = expected in text.split("\n")
            return passed("the line is there") if found else failed(f"no line is {shorten(check.expected)}")


def _regex(check: TextCheck, text: str) -> Verdict:
    if len(text) > MAX_REGEX_TEXT:
        return unknown(f"the text has {len(text)} characters, more than the {MAX_REGEX_TEXT} a pattern is tried on")
    try:
        matched = re.fullmatch(check.expected, text, re.IGNORECASE if check.ignore_case else 0)
    except re.error as error:
        raise GraderFailed(f"the pattern {check.expected!r} is not a regular expression: {error}") from error
    return passed("the text matches") if matched else failed(f"the text does not match {shorten(check.expected)}")


def _difference(text: str, expected: str) -> str:
    """Where two texts first differ, by line."""
    found_lines, expected_lines = text.split("\n"), expected.split("\n")
    for number, (found, wanted) in enumerate(zip(found_lines, expected_lines, strict=False), start=1):
        if found != wanted:
            return f"line {number} is {shorten(found)}, expected {shorten(wanted)}"
    return f"the text has {len(found_lines)} lines, expected {len(expected_lines)}"
