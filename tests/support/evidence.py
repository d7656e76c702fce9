"""Small builders of evidence."""

from __future__ import annotations

import base64
from typing import Any

from sandbox.evidence import Evidence, EvidenceItem

__all__ = ["file_item", "make_evidence", "missing", "ok"]


def ok(data: Any) -> EvidenceItem:
    """An item that was collected."""
    return EvidenceItem(status="ok", data=data)


def file_item(content: str | bytes) -> EvidenceItem:
    """A file's item."""
    raw = content.encode() if isinstance(content, str) else content
    return ok({"base64": base64.b64encode(raw).decode()})


def missing(reason: str = "there is no such file") -> EvidenceItem:
    """An item that is not there."""
    return EvidenceItem(status="missing", reason=reason)


def make_evidence(**items: EvidenceItem) -> Evidence:
    """Evidence with these items."""
    return Evidence(items=items, clock_s=1_700_000_000.0)
