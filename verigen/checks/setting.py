"""A GSettings value, compared as GVariant text; white space outside quotes does not count."""

from __future__ import annotations

from typing import Any

from agent.errors import GraderFailed
from verigen.checks.model import SettingCheck
from verigen.checks.verdict import Verdict, failed, passed, shorten

__all__ = ["check_setting", "compact_gvariant"]


def compact_gvariant(text: str) -> str:
    """GVariant text without the white space outside its quoted strings."""
    kept: list[str] = []
    quote = ""
    escaped = False
    for char in text:
        if quote:
            kept.append(char)
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
            kept.append(char)
        elif not char.isspace():
            kept.append(char)
    return "".join(kept)


def check_setting(check: SettingCheck, data: Any) -> Verdict:
    """Compare a setting with what it should be."""
    if not isinstance(data, str):
        raise GraderFailed(f"evidence {check.item!r} should be one setting's text, the collector gave {shorten(data)}")
    if compact_gvariant(data) == compact_gvariant(check.expected):
        return passed("the setting is as expected")
    return failed(f"the setting is {shorten(data)}, expected {shorten(check.expected)}")
