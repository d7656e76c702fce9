"""Whether a window is open."""

from __future__ import annotations

from typing import Any

from verigen.checks.model import WindowCheck
from verigen.checks.verdict import Verdict, failed, passed, records, shorten

__all__ = ["check_window"]


def check_window(check: WindowCheck, data: Any) -> Verdict:
    """Look for a window of the app with the title part."""
    windows = [entry for entry in records(data, check.item) if entry.get("app") == check.app]
    titles = [str(entry.get("title")) for entry in windows]
    is_open = any(check.title_contains in title for title in titles)
    what = f"a {check.app} window" + (f" with {shorten(check.title_contains)}" if check.title_contains else "")
    reason = f"{what} is {'open' if is_open else 'not open'} (its windows: {shorten(titles)})"
    return passed(reason) if is_open == check.open else failed(reason)
