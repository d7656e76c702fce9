"""Synthesis without a model: skill packs propose bundles, the gates admit them.

::

    packs -> draw -> G0 -> examples (start state and oracle, on desktops) -> G1 ... G6 -> catalog, with the proof
              `- never one that is known: shipped, in the catalog, or proposed before

Every step is written to the ledger before the next begins, so a synthesis that is killed at any point goes on from
there. Which bundles are proposed follows from the packs, the seed and what was known at the beginning.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.errors import GraderFailed
from sandbox.errors import DesktopError
from sandbox.hub import Lender
from store.catalog import Catalog
from verigen.assets import MemoryAssets
from verigen.bundle import Bundle
from verigen.errors import BundleError
from verigen.gates.g0_schema import check_bundle
from verigen.ledger import Entry, Ledger
from verigen.packs.protocol import SkillPack
from verigen.packs.splits import SPLITS, Split
from verigen.proof import Proof, find_proof, store_bundle, store_proof
from verigen.propose import Proposer
from verigen.record import record_examples
from verigen.verify import verify

__all__ = ["CAP", "GATES", "PAUSES_S", "Admit", "GateYield", "Gates", "Wanted", "synthesise", "yields"]

CAP = 10
"""Bundles of one template in one set at most."""
MAX_REJECTED = 3
"""Rejections after which a template that was never admitted is left alone."""
TRIES = 2
"""Of one proposal, where the machinery fails."""
PAUSES_S = (0.02, 0.3)
"""Random pauses before each action of the slowed oracles: short scripts on small desktops need no longer ones."""
GATES = ("G0", "examples", "G1", "G2", "G3", "G4", "G5", "G6")


class Admit(Protocol):
    """Decides about a bundle with examples; the gates do, on desktops."""

    async def record(self, bundle: Bundle) -> Bundle:
        """The bundle with examples.

        Raises:
            BundleError: its setup or its oracle fails.
        """
        ...

    async def prove(self, bundle: Bundle, split: Split) -> Proof:
        """Run its gates; keep bundle and proof if it passes."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Gates:
    """The real gates."""

    hub: Lender
    image_digest: str
    catalog: Catalog
    limit: int
    """Desktops that one bundle uses at once."""

    async def record(self, bundle: Bundle) -> Bundle:
        """See `Admit`."""
        return await record_examples(bundle, MemoryAssets(), self.hub)

    async def prove(self, bundle: Bundle, split: Split) -> Proof:
        """See `Admit`. The catalog is given only what is admitted: whatever is in it may be trained on."""
        proof = await asyncio.to_thread(find_proof, self.catalog, bundle.id, self.image_digest)
        if proof is not None:
            return proof
        proof = await verify(
            bundle,
            MemoryAssets(),
            self.hub,
            image_digest=self.image_digest,
            limit=self.limit,
            delays_s=PAUSES_S,
        )
        if proof.passed:
            await asyncio.to_thread(store_bundle, self.catalog, bundle, split=split)
            await asyncio.to_thread(store_proof, self.catalog, proof)
        return proof


@dataclass(frozen=True, kw_only=True, slots=True)
class GateYield:
    """How many bundles came to a gate and how many passed it."""

    gate: str
    reached: int
    passed: int
    rejected: int
    unproven: int
    """Attempts that the machinery failed."""


def yields(ledger: Ledger) -> list[GateYield]:
    """The yield of every gate, over all settled proposals of a ledger."""
    settled = [entry for entry in ledger.entries.values() if entry.outcome != "open"]
    rejected = Counter(entry.gate for entry in settled if entry.outcome == "rejected")
    table, left = [], len(settled)
    for gate in GATES:
        table.append(
            GateYield(
                gate=gate,
                reached=left,
                passed=left - rejected[gate],
                rejected=rejected[gate],
                unproven=ledger.unproven[gate],
            )
        )
        left -= rejected[gate]
    return table


Wanted = Callable[[str, Split], int]
"""How many bundles of a template are wanted for a split."""


async def synthesise(
    packs: Sequence[SkillPack],
    splits: Sequence[Split],
    admit: Admit,
    ledger: Ledger,
    *,
    seed: int,
    known: set[str],
    wanted: Wanted,
    count: int,
    workers: int,
    on_settled: Callable[[Entry, Proof | None], None] = lambda entry, proof: None,
) -> None:
    """Propose and prove until enough bundles are admitted, or the packs have nothing more to give.

    What the ledger has open comes first, and what it has admitted counts.

    Args:
        known: content keys that must not be proposed: of shipped bundles and of the catalog.
        wanted: admitted bundles per template and split, at most.
        count: admitted bundles in all.
        workers: bundles worked on at once.
        on_settled: told of every bundle that is admitted or rejected, with its proof if it came that far, and of those
            that the machinery left open.
    """
    board = _Board(ledger=ledger, wanted=wanted, count=count)
    waiting = iter(ledger.open_entries())
    proposer = Proposer(packs, splits, seed=seed, known=known, ledger=ledger)

    def next_entry() -> Entry | None:
        for left in waiting:
            return left
        entry = proposer.next(board.needs) if board.needs_more() else None
        if entry is not None:
            ledger.propose(entry)
        return entry

    async def work() -> None:
        while True:
            entry = next_entry()
            if entry is None:
                if not board.busy:
                    return
                # Another worker's bundle may yet be rejected, and then one more is needed.
                await board.changed()
                continue
            board.begin(entry)
            try:
                on_settled(ledger.entries[entry.key], await _settle(ledger.entries[entry.key], admit, ledger))
            finally:
                board.end(entry)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    except ExceptionGroup as error:  # callers know single errors; the first is as good as any
        raise error.exceptions[0] from error


async def _settle(entry: Entry, admit: Admit, ledger: Ledger) -> Proof | None:
    """Bring one proposal to its end; it stays open where the machinery fails every time."""
    for _ in range(TRIES):
        try:
            return await _try(entry, admit, ledger)
        except (DesktopError, GraderFailed) as error:
            ledger.leave_unproven(entry.key, gate="examples", reason=str(error))
        except _Unproven as unproven:
            ledger.leave_unproven(entry.key, gate=unproven.gate, reason=str(unproven))
    return None


async def _try(entry: Entry, admit: Admit, ledger: Ledger) -> Proof | None:
    schema = check_bundle(entry.bundle)
    if not schema.passed:
        ledger.settle(entry.key, admitted=False, gate="G0", reason=schema.detail)
        return None
    if entry.bundle.examples is None:
        try:
            recorded = await admit.record(entry.bundle)
        except BundleError as error:
            ledger.settle(entry.key, admitted=False, gate="examples", reason=str(error))
            return None
        ledger.record(entry.key, recorded)
    proof = await admit.prove(entry.bundle, _as_split(entry.split))
    stopped = proof.stopped_by
    if stopped is not None and stopped.outcome == "unproven":
        raise _Unproven(stopped.gate, stopped.detail)
    if stopped is None:
        ledger.settle(entry.key, admitted=True)
    else:
        ledger.settle(entry.key, admitted=False, gate=stopped.gate, reason=stopped.detail)
    return proof


def _as_split(name: str) -> Split:
    return next(split for split in SPLITS if split == name)


class _Board:
    """What is admitted and what is being worked on, against what is wanted.

    Args:
        wanted: per template and split, at most.
        count: in all.
    """

    def __init__(self, *, ledger: Ledger, wanted: Wanted, count: int) -> None:
        self._ledger = ledger
        self._wanted = wanted
        self._count = count
        self._working: set[str] = set()
        self._news = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether a bundle is being worked on."""
        return bool(self._working)

    def begin(self, entry: Entry) -> None:
        self._working.add(entry.key)

    def end(self, entry: Entry) -> None:
        self._working.discard(entry.key)
        self._news.set()
        self._news = asyncio.Event()

    async def changed(self) -> None:
        """Wait until a bundle's work has ended."""
        await self._news.wait()

    def needs_more(self) -> bool:
        """Whether the total is not reached, counting what is being worked on as if it were admitted."""
        return sum(1 for entry in self._ledger.entries.values() if self._counts(entry)) < self._count

    def needs(self, template: str, split: Split) -> bool:
        """Whether one more bundle of this kind is wanted and likely to be admitted."""
        members = [
            entry for entry in self._ledger.entries.values() if (entry.template, entry.split) == (template, split)
        ]
        outcomes = Counter(entry.outcome for entry in members)
        if not outcomes["admitted"] and outcomes["rejected"] >= MAX_REJECTED:
            return False
        return sum(map(self._counts, members)) < self._wanted(template, split)

    def _counts(self, entry: Entry) -> bool:
        return entry.outcome == "admitted" or entry.key in self._working


class _Unproven(Exception):
    """The infrastructure left a gate unproven."""

    def __init__(self, gate: str, reason: str) -> None:
        super().__init__(reason)
        self.gate = gate
