"""G2, setup: it reaches its asserted state on every fresh desktop, and the state is the same each time."""

from __future__ import annotations

from collections.abc import Sequence

from verigen.gates.bench import Report
from verigen.gates.fingerprint import difference
from verigen.gates.results import conclude
from verigen.gates.trial import NUM_SETUPS, Trial
from verigen.proof import GateResult

__all__ = ["GATE", "check_setup"]

GATE = "G2"


def check_setup(reports: Sequence[Report[Trial]]) -> GateResult:
    """Judge the setups of all trials."""
    trials = [report.value for report in reports if report.value is not None]
    problems = [trial.setup_error for trial in trials if trial.setup_error is not None]
    prints = [trial.fingerprint for trial in trials if trial.fingerprint is not None]
    for number, other in enumerate(prints[1:], start=2):
        if differs := difference(prints[0], other):
            problems.append(f"setup {number} gave another start state than setup 1: {differs}")
    return conclude(
        GATE,
        problems,
        reports,
        shown=min(len(prints), NUM_SETUPS),
        needed=NUM_SETUPS,
        what="the same asserted start state",
        seconds=sum(trial.setup_s for trial in trials),
    )
