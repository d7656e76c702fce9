"""Which paths exist."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import Any

from verigen.checks.model import GlobCheck
from verigen.checks.verdict import Verdict, failed, passed, records, shorten

__all__ = ["check_glob"]


def check_glob(check: GlobCheck, data: Any) -> Verdict:
    """Compare the base names of the matching paths with the names that should (or should not) be there."""
    entries = records(data, check.item)
    if check.kind != "any":
        entries = [entry for entry in entries if entry.get("type") == check.kind]
    found = Counter(PurePosixPath(str(entry.get("path"))).name for entry in entries)
    named = Counter(check.names)
    lacking = sorted((named - found).elements())
    match check.mode:
        case "includes":
            return failed(f"not there: {shorten(lacking)}") if lacking else passed("all are there")
        case "excludes":
            present = sorted(name for name in named if name in found)
            return failed(f"still there: {shorten(present)}") if present else passed("none is there")
        case "exactly":
            extra = sorted((found - named).elements())
            if not lacking and not extra:
                return passed("exactly the expected paths are there")
            return failed(f"not there: {shorten(lacking)}; not expected: {shorten(extra)}")
