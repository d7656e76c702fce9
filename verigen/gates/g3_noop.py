"""G3, no-op: who did nothing earns nothing, however the episode ends, after the flush recipe too."""

from __future__ import annotations

from collections.abc import Sequence

from verigen.gates.bench import Report
from verigen.gates.results import conclude
from verigen.gates.trial import NUM_NOOPS, Trial
from verigen.proof import GateResult

__all__ = ["GATE", "check_noop"]

GATE = "G3"


def check_noop(reports: Sequence[Report[Trial]]) -> GateResult:
    """Judge the no-ops of all trials."""
    trials = [report.value for report in reports if report.value is not None]
    scores = [trial.noop for trial in trials if trial.noop is not None]
    problems = [
        f"doing nothing scores {score:g} with {ending}" for noop in scores for ending, score in noop.items() if score
    ]
    return conclude(
        GATE,
        problems,
        reports,
        shown=len(scores),
        needed=NUM_NOOPS,
        what="doing nothing scored 0",
        seconds=sum(trial.noop_s for trial in trials),
    )
