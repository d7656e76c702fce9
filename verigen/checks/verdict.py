"""What one check says, and how to complain when a collector did not keep its side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.errors import GraderFailed

__all__ = ["Verdict", "failed", "passed", "records", "shorten", "unknown"]

SHOWN = 80
"""Characters of a found or expected value that a reason quotes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A score with its reason."""

    score: float
    """In [0, 1]."""
    reason: str
    """One sentence for a person."""
    known: bool = True
    """False when nothing can be concluded (a missing or unreadable result): a `not` over it stays 0."""


def passed(reason: str) -> Verdict:
    """Score 1."""
    return Verdict(score=1.0, reason=reason)


def failed(reason: str) -> Verdict:
    """Score 0: the state is known and is not what was asked for."""
    return Verdict(score=0.0, reason=reason)


def unknown(reason: str) -> Verdict:
    """Score 0: the state cannot be read."""
    return Verdict(score=0.0, reason=reason, known=False)


def shorten(value: Any) -> str:
    """A value as a reason quotes it."""
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def records(data: Any, item: str) -> list[dict[str, Any]]:
    """The list of records that a collector owes.

    Raises:
        GraderFailed: it returned something else.
    """
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise GraderFailed(f"evidence {item!r} should be a list of records, the collector returned {shorten(data)}")
    return data
