"""What became of a bundle's gates, and where that is kept.

A proof belongs to one bundle on one image under one version of the checks and of the gates; change any of them and it
says nothing. A gate is `passed`, `failed`, or `unproven`: an infrastructure failure is never a failed gate by itself,
and never a passed one.
"""

from __future__ import annotations

import time
from typing import Literal

from pydantic import BaseModel, ConfigDict

from store.catalog import Catalog
from store.tables import BundleRow, ProofRow
from verigen.bundle import Bundle
from verigen.checks import CHECKS_VERSION

__all__ = ["GATES_VERSION", "GateOutcome", "GateResult", "Proof", "find_proof", "store_bundle", "store_proof"]

GATES_VERSION = "1"
"""Raised whenever a gate changes what it demands; every proof made before is then stale."""
GateOutcome = Literal["passed", "failed", "unproven"]


class GateResult(BaseModel):
    """How one gate went."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gate: str
    """`G0`, `G1`, ..."""
    outcome: GateOutcome
    detail: str
    """One sentence: what was shown, or what stopped it."""
    seconds: float
    """Spent on this gate; time on a desktop that serves several gates counts for the last of them it reached."""
    attempts: tuple[str, ...] = ()
    """One line per attempt on a desktop, retries of infrastructure failures included."""

    @property
    def passed(self) -> bool:
        """Whether the gate was passed."""
        return self.outcome == "passed"


class Proof(BaseModel):
    """The gate results of a bundle, in the order of running, up to the first that did not pass."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bundle_id: str
    image_digest: str
    checks_version: str = CHECKS_VERSION
    gates_version: str = GATES_VERSION
    gates: tuple[GateResult, ...]
    created_at: float
    """Seconds since the epoch."""
    seconds: float

    @property
    def outcome(self) -> GateOutcome:
        """Passed if every gate was; otherwise as the one that stopped it."""
        return next((gate.outcome for gate in self.gates if not gate.passed), "passed")

    @property
    def passed(self) -> bool:
        """Whether the bundle is admitted."""
        return self.outcome == "passed"

    @property
    def stopped_by(self) -> GateResult | None:
        """The gate that did not pass, if any."""
        return next((gate for gate in self.gates if not gate.passed), None)


def store_bundle(catalog: Catalog, bundle: Bundle, *, split: str = "train") -> bool:
    """Put a bundle's row into the catalog.

    Returns:
        Whether it was new.
    """
    return catalog.add_bundle(
        BundleRow(
            id=bundle.id,
            name=bundle.task.name,
            instruction=bundle.task.instruction,
            apps=list(bundle.task.apps),
            skills=list(bundle.task.skills),
            feasible=bundle.task.feasible,
            split=split,
            document=bundle.model_dump(mode="json"),
            created_at=time.time(),
        )
    )


def store_proof(catalog: Catalog, proof: Proof) -> None:
    """Put a proof into the catalog, in the place of an earlier one of the same key.

    Raises:
        store.errors.ConstraintViolated: the catalog has no such bundle; `store_bundle` first.
    """
    catalog.add_proof(
        ProofRow(
            bundle_id=proof.bundle_id,
            image_digest=proof.image_digest,
            checks_version=proof.checks_version,
            gates_version=proof.gates_version,
            passed=proof.passed,
            gates=[gate.model_dump(mode="json") for gate in proof.gates],
            created_at=proof.created_at,
            seconds=proof.seconds,
        )
    )


def find_proof(catalog: Catalog, bundle_id: str, image_digest: str) -> Proof | None:
    """The stored proof of this bundle on this image under the present versions, if it settles the matter.

    One that was left unproven by the infrastructure settles nothing and is not returned.
    """
    for row in catalog.proofs(bundle_id):
        if (row.image_digest, row.checks_version, row.gates_version) != (image_digest, CHECKS_VERSION, GATES_VERSION):
            continue
        proof = Proof(
            bundle_id=row.bundle_id,
            image_digest=row.image_digest,
            checks_version=row.checks_version,
            gates_version=row.gates_version,
            gates=tuple(GateResult.model_validate(gate) for gate in row.gates),
            created_at=row.created_at,
            seconds=row.seconds,
        )
        if proof.outcome != "unproven":
            return proof
    return None
