"""What names a verifier: its check tree, what it collects, and the version of the code that judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verigen.canonical import content_hash

if TYPE_CHECKING:
    from verigen.task import Task

__all__ = ["CHECKS_VERSION", "verifier_id"]

CHECKS_VERSION = "1"
"""Raised whenever a check family changes what it accepts; every proof made before is then stale."""


def verifier_id(task: Task) -> str:
    """sha256 over what is collected, how it is checked, and by which code."""
    return content_hash(
        {
            "check": task.check.model_dump(mode="json"),
            "evidence": [request.model_dump(mode="json") for request in task.evidence],
            "version": CHECKS_VERSION,
        }
    )
