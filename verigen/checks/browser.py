"""What a browser shows or keeps: its tabs, elements of a page, cookies, local storage, bookmarks.

All but the bookmarks is the browser's own word, and so the desktop's; where a site's server or a file knows it too, ask
that.
"""

from __future__ import annotations

from typing import Any

from verigen.checks.model import BrowserCheck
from verigen.checks.verdict import Verdict, failed, passed, records, shorten

__all__ = ["check_browser"]


def check_browser(check: BrowserCheck, data: Any) -> Verdict:
    """Look for a record as described."""
    found = records(data, check.item)
    matching = [record for record in found if _fits(check, record)]
    if bool(matching) == check.present:
        return passed("a record is as described" if matching else "no record is as described")
    if matching:
        return failed(f"there is {shorten(matching[0])}")
    fields = [*check.where, *check.contains]
    return failed(f"none of {len(found)} is as described: {shorten([{f: r.get(f) for f in fields} for r in found])}")


def _fits(check: BrowserCheck, record: dict[str, Any]) -> bool:
    return all(_equal(record.get(field), value) for field, value in check.where.items()) and all(
        isinstance(text := record.get(field), str) and part in text for field, part in check.contains.items()
    )


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(found, str) and isinstance(expected, str):
        return found.strip() == expected.strip()
    return isinstance(found, bool) == isinstance(expected, bool) and bool(found == expected)
