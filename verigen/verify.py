"""Admission: run a bundle through the gates and write down the proof.

::

    G0 schema, lint -> G1 judge alone -> trials: G2 setup, G3 no-op, G4 oracle -> G5 negatives -> G6 alternatives
    `-------- no desktop --------'       `------------------- fresh desktops -------------------'

Cheap gates come first and the first that does not pass is the last that runs. A stored proof of the same bundle, image
and versions is used again, so that an interrupted verification of many bundles goes on where it was; a proof that the
infrastructure left unproven is tried anew. docs/design/gates.md says what each gate shows and what it cannot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from agent.harness import Harness
from agent.turns import BlobSink
from sandbox.hub import Lender
from store.catalog import Catalog
from store.trajectory import Trajectory
from verigen.assets import Assets
from verigen.bundle import Bundle
from verigen.gates.bench import Bench, DiscardBlobs, Progress
from verigen.gates.g0_schema import check_bundle
from verigen.gates.g1_judge import check_judge
from verigen.gates.g2_setup import check_setup
from verigen.gates.g3_noop import check_noop
from verigen.gates.g4_oracle import check_oracle
from verigen.gates.g5_negatives import check_negatives
from verigen.gates.g6_alternatives import check_alternatives
from verigen.gates.trial import run_trials
from verigen.proof import GateResult, Proof, find_proof, store_bundle, store_proof

__all__ = ["verify", "verify_static"]


async def verify(
    bundle: Bundle,
    assets: Assets,
    hub: Lender,
    *,
    image_digest: str,
    catalog: Catalog | None = None,
    split: str = "train",
    force: bool = False,
    limit: int = 2,
    harness: Harness | None = None,
    blobs: BlobSink | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    on_trajectory: Callable[[Trajectory], None] = lambda trajectory: None,
    delays_s: tuple[float, float] | None = None,
) -> Proof:
    """Run the gates of one bundle.

    Args:
        assets: where the bundle's files come from.
        hub: lends the desktops; each attempt gets a fresh one.
        image_digest: the image that the proof is for; the hub's desktops must be of it.
        catalog: where the bundle and its proof are kept, and looked up; None keeps nothing.
        split: of the bundle's row, if it is new to the catalog.
        force: run the gates even if a proof is stored.
        limit: desktops used at once.
        harness: the rules that scripts act under.
        blobs: keeps screenshots and evidence of the episodes; None discards them.
        progress: called when something ends.
        on_trajectory: given every episode's record.
        delays_s: shortest and longest pause of the slowed oracles, seconds; None for what suits their length.

    Raises:
        VerigenError: the hub's desktops are of another image.
        MissingRequirement, ImageError: this machine cannot run desktops.
    """
    if catalog is not None and not force:
        stored = await asyncio.to_thread(find_proof, catalog, bundle.id, image_digest)
        if stored is not None:
            return stored
    started, created_at = time.monotonic(), time.time()
    gates = verify_static(bundle)
    if gates[-1].passed:
        bench = Bench(
            bundle=bundle,
            assets=assets,
            hub=hub,
            image_digest=image_digest,
            harness=harness or Harness(),
            blobs=blobs or DiscardBlobs(),
            limit=limit,
            progress=progress,
            on_trajectory=on_trajectory,
        )
        gates += await _on_desktops(bench, delays_s)
    proof = Proof(
        bundle_id=bundle.id,
        image_digest=image_digest,
        gates=tuple(gates),
        created_at=created_at,
        seconds=time.monotonic() - started,
    )
    if catalog is not None:
        await asyncio.to_thread(store_bundle, catalog, bundle, split=split)
        await asyncio.to_thread(store_proof, catalog, proof)
    return proof


def verify_static(bundle: Bundle) -> list[GateResult]:
    """The gates that need no desktop, up to the first that does not pass."""
    gates = [check_bundle(bundle)]
    if gates[-1].passed:
        gates.append(check_judge(bundle))
    return gates


async def _on_desktops(bench: Bench, delays_s: tuple[float, float] | None) -> list[GateResult]:
    gates: list[GateResult] = []
    reports = await run_trials(bench, delays_s=delays_s)
    for check in (check_setup, check_noop, check_oracle):
        gates.append(check(reports))
        if not gates[-1].passed:
            return gates
    for attempt in (check_negatives, check_alternatives):
        gates.append(await attempt(bench))
        if not gates[-1].passed:
            return gates
    return gates
