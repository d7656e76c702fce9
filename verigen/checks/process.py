"""Whether a process runs."""

from __future__ import annotations

from typing import Any

from verigen.checks.model import ProcessCheck
from verigen.checks.verdict import Verdict, failed, passed, records

__all__ = ["check_process"]


def check_process(check: ProcessCheck, data: Any) -> Verdict:
    """Look whether any process of that name is there."""
    running = bool(records(data, check.item))
    reason = "it runs" if running else "it does not run"
    return passed(reason) if running == check.running else failed(reason)
