"""G4, oracle: the solution scores 1 on every fresh desktop, at full speed and with random pauses."""

from __future__ import annotations

from collections.abc import Sequence

from verigen.gates.bench import Report
from verigen.gates.results import conclude
from verigen.gates.trial import NUM_ORACLES, Trial
from verigen.proof import GateResult

__all__ = ["GATE", "check_oracle"]

GATE = "G4"


def check_oracle(reports: Sequence[Report[Trial]]) -> GateResult:
    """Judge the oracles of all trials."""
    runs = [report.value.oracle for report in reports if report.value is not None and report.value.oracle is not None]
    problems = [
        f"the oracle cannot be carried out: {run.reason}"
        if run.score is None
        else f"the oracle scores {run.score:g}: {run.reason}"
        for run in runs
        if run.score != 1.0
    ]
    return conclude(
        GATE,
        problems,
        reports,
        shown=len(runs),
        needed=NUM_ORACLES,
        what="the oracle scored 1",
        seconds=sum(run.seconds for run in runs),
    )
