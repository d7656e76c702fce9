"""G0, schema and lint: the document is a bundle, and nothing is wrong with it that reading it can show."""

from __future__ import annotations

import time
from typing import Any

from verigen.bundle import Bundle, parse_bundle
from verigen.errors import BundleError
from verigen.gates.lint import lint
from verigen.proof import GateResult

__all__ = ["GATE", "check_bundle", "check_document"]

GATE = "G0"


def check_document(document: Any) -> tuple[Bundle | None, GateResult]:
    """Parse a bundle's JSON form and lint it; the bundle is None when it does not parse."""
    try:
        bundle = parse_bundle(document)
    except BundleError as error:
        return None, GateResult(gate=GATE, outcome="failed", detail=str(error), seconds=0.0)
    return bundle, check_bundle(bundle)


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
