"""G0, schema and lint: a document that was read as a bundle has nothing wrong that reading it can show.

The schema itself is `verigen.bundle.parse_bundle`, which refuses what is no bundle before any gate is asked.
"""

from __future__ import annotations

import time

from verigen.bundle import Bundle
from verigen.gates.lint import lint
from verigen.proof import GateResult

__all__ = ["GATE", "check_bundle"]

GATE = "G0"


def check_bundle(bundle: Bundle) -> GateResult:
    """Lint a bundle."""
    started = time.monotonic()
    problems = lint(bundle)
    return GateResult(
        gate=GATE,
        outcome="failed" if problems else "passed",
        detail="; ".join(problems) or "nothing to object to",
        seconds=time.monotonic() - started,
    )
