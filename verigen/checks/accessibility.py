"""Text, name, value or state of accessibility nodes: the desktop's own word, for state that exists nowhere else.

The request has already chosen the nodes by application, role and name; one of them must show the expected value
exactly. White space around a text or a name does not count, since toolkits pad them.
"""

from __future__ import annotations

import math
from typing import Any

from verigen.checks.model import AccessibilityCheck
from verigen.checks.verdict import Verdict, failed, passed, records, shorten, unknown

__all__ = ["check_accessibility"]


def check_accessibility(check: AccessibilityCheck, data: Any) -> Verdict:
    """Look for a node with the expected value."""
    nodes = records(data, check.item)
    if not nodes:
        return unknown("no accessibility node matched the request")
    shown = [node.get(check.field) for node in nodes]
    if any(_shows(check, value) for value in shown):
        return passed(f"the {check.field} is as expected")
    return failed(
        f"the {check.field} is {shorten(shown[0] if len(shown) == 1 else shown)}, expected {shorten(check.expected)}"
    )


def _shows(check: AccessibilityCheck, value: Any) -> bool:
    match check.field:
        case "text" | "name":
            return isinstance(value, str) and value.strip() == check.expected.strip()
        case "value":
            try:
                wanted = float(check.expected)
            except ValueError:
                return False
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-9)
        case "states":
            return isinstance(value, list | tuple) and check.expected in value
