"""Checks: a closed set of families, judged by a pure function over collected evidence."""

from verigen.checks.identity import CHECKS_VERSION, verifier_id
from verigen.checks.judge import judge
from verigen.checks.tree import items_read, leaves

__all__ = ["CHECKS_VERSION", "items_read", "judge", "leaves", "verifier_id"]
