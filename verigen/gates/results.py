"""Making a gate's result out of single findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verigen.gates.bench import Report
from verigen.proof import GateResult

__all__ = ["conclude"]


def conclude(
    gate: str,
    problems: Sequence[str],
    reports: Sequence[Report[Any]],
    *,
    shown: int,
    needed: int,
    what: str,
    seconds: float,
) -> GateResult:
    """Failed if anything speaks against the bundle, else unproven if too little was shown, else passed.

    Args:
        problems: what speaks against the bundle.
        reports: the work that the gate looked at; its infrastructure failures are listed.
        shown: how many findings speak for it.
        needed: how many must.
        what: what the findings show, for the message.
        seconds: desktop time.
    """
    retries = [failure for report in reports for failure in report.failures]
    again = f" ({len(retries)} infrastructure failures, tried again on fresh desktops)" if retries else ""
    attempts = (*problems, *retries)
    if problems:
        return GateResult(gate=gate, outcome="failed", detail=problems[0] + again, seconds=seconds, attempts=attempts)
    detail = f"{what} in {shown} of {needed}{again}"
    outcome: Any = "passed" if shown >= needed else "unproven"
    return GateResult(gate=gate, outcome=outcome, detail=detail, seconds=seconds, attempts=attempts)
