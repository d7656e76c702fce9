"""Synthesis with gates in memory: it ends where it should, goes on after a kill, and says what became of everything."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.errors import DesktopLost
from tests.support.evidence import make_evidence
from verigen.bundle import Bundle, Example, Examples
from verigen.errors import BundleError, VerigenError
from verigen.ledger import Entry, Ledger
from verigen.packs import Split, content_key, load_packs, split_of
from verigen.proof import GateResult, Proof
from verigen.synth import CAP, GATES, MAX_REJECTED, synthesise, yields

PACKS = load_packs(["galculator", "terminal"])


class Killed(BaseException):
    """The process ends here."""


class FakeGates:
    """Admits everything but what it is told to reject; ends the process at its nth call if asked."""

    def __init__(self, *, rejects: Callable[[Bundle], str] = lambda bundle: "", dies_at: int = 0) -> None:
        self.rejects = rejects
        self.dies_at = dies_at
        self.calls = 0
        self.recorded: list[str] = []
        self.proven: list[tuple[str, Split]] = []
        self.lost = 0
        """Desktops that are still to be lost."""

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.dies_at:
            raise Killed
        if self.lost:
            self.lost -= 1
            raise DesktopLost("gone")

    async def record(self, bundle: Bundle) -> Bundle:
        self._call()
        await asyncio.sleep(0)
        if self.rejects(bundle) == "examples":
            raise BundleError("the oracle does not score 1")
        self.recorded.append(content_key(bundle))
        # A clock in the evidence makes each recording another bundle, as real ones are.
        example = Example(evidence=make_evidence().model_copy(update={"clock_s": float(self.calls)}), final=None)
        return bundle.model_copy(update={"examples": Examples(golden=example, initial=example)})

    async def prove(self, bundle: Bundle, split: Split) -> Proof:
        self._call()
        await asyncio.sleep(0)
        self.proven.append((bundle.id, split))
        rejected = self.rejects(bundle)
        outcome = "failed" if rejected else "passed"
        gate = GateResult(gate=rejected or "G6", outcome=outcome, detail="why", seconds=0.0)
        return Proof(bundle_id=bundle.id, image_digest="sha256:fake", gates=(gate,), created_at=0.0, seconds=0.0)


async def run(
    path: Path,
    gates: FakeGates,
    *,
    count: int = 8,
    seed: int = 0,
    workers: int = 1,
    known: frozenset[str] = frozenset(),
) -> dict[str, Entry]:
    with Ledger(path) as ledger:
        await synthesise(
            PACKS,
            ["train"],
            gates,
            ledger,
            seed=seed,
            known=set(known),
            wanted=lambda template, split: CAP,
            count=count,
            workers=workers,
        )
        return dict(ledger.entries)


async def test_it_admits_as_many_as_asked_for_template_by_template(tmp_path: Path) -> None:
    gates = FakeGates()
    entries = await run(tmp_path / "a", gates, count=8)
    assert [entry.outcome for entry in entries.values()] == ["admitted"] * 8
    assert max(Counter(entry.template for entry in entries.values()).values()) == 1
    assert all(split_of(entry.bundle) == "train" for entry in entries.values())
    assert gates.proven == [(entry.bundle.id, "train") for entry in entries.values()]


async def test_proposals_follow_from_the_seed(tmp_path: Path) -> None:
    first = await run(tmp_path / "a", FakeGates())
    again = await run(tmp_path / "b", FakeGates())
    other = await run(tmp_path / "c", FakeGates(), seed=1)
    assert list(first) == list(again)
    assert not set(first) & set(other)


async def test_what_is_known_is_not_proposed(tmp_path: Path) -> None:
    first = await run(tmp_path / "a", FakeGates())
    second = await run(tmp_path / "b", FakeGates(), known=frozenset(first))
    assert len(second) == 8
    assert not set(first) & set(second)


async def test_no_template_gives_more_than_its_cap(tmp_path: Path) -> None:
    entries = await run(tmp_path / "a", FakeGates(), count=10**6, workers=3)
    admitted = Counter(entry.template for entry in entries.values() if entry.outcome == "admitted")
    assert max(admitted.values()) == CAP
    assert set(admitted.values()) <= {CAP} | set(range(CAP))


@pytest.mark.parametrize("dies_at", range(1, 13))
async def test_a_killed_synthesis_goes_on_as_if_nothing_had_been(tmp_path: Path, dies_at: int) -> None:
    whole = await run(tmp_path / "whole", FakeGates(), count=6)
    with pytest.raises(BaseExceptionGroup) as ended:
        await run(tmp_path / "torn", FakeGates(dies_at=dies_at), count=6)
    assert ended.group_contains(Killed)
    gates = FakeGates()
    gone_on = await run(tmp_path / "torn", gates, count=6)
    assert list(gone_on) == list(whole)
    assert all(entry.outcome == "admitted" for entry in gone_on.values())
    lines = (tmp_path / "torn").read_text().splitlines()
    assert sum('"event":"proposed"' in line for line in lines) == 6
    # What was recorded before the kill is proven as it was recorded.
    assert len(gates.recorded) == 6 - dies_at // 2


async def test_a_torn_last_line_never_was(tmp_path: Path) -> None:
    await run(tmp_path / "a", FakeGates(), count=3)
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(whole[:-20])
    entries = await run(tmp_path / "a", FakeGates(), count=3)
    assert [entry.outcome for entry in entries.values()] == ["admitted"] * 3
    assert (tmp_path / "a").read_bytes() == whole


async def test_rejections_are_told_with_gate_and_reason_and_made_up_for(tmp_path: Path) -> None:
    def rejects(bundle: Bundle) -> str:
        return {"galculator/square-root": "G5", "terminal/stuck": "examples"}.get(bundle.task.tags["template"], "")

    told: list[str] = []
    with Ledger(tmp_path / "a") as ledger:
        await synthesise(
            PACKS,
            ["train"],
            FakeGates(rejects=rejects),
            ledger,
            seed=0,
            known=set(),
            wanted=lambda template, split: CAP,
            count=40,
            workers=2,
            on_settled=lambda entry, proof: told.append(entry.outcome),
        )
        table = {one.gate: one for one in yields(ledger)}
        rejected = [entry for entry in ledger.entries.values() if entry.outcome == "rejected"]
    assert told.count("admitted") == 40
    # A template that is never admitted is left alone after a few tries.
    assert Counter(entry.template for entry in rejected) == {
        "galculator/square-root": MAX_REJECTED,
        "terminal/stuck": MAX_REJECTED,
    }
    assert {(entry.gate, entry.reason) for entry in rejected} == {
        ("G5", "why"),
        ("examples", "the oracle does not score 1"),
    }
    assert list(table) == list(GATES)
    assert (table["examples"].reached, table["examples"].rejected) == (40 + 2 * MAX_REJECTED, MAX_REJECTED)
    assert (table["G5"].reached, table["G5"].passed, table["G6"].reached) == (40 + MAX_REJECTED, 40, 40)


async def test_what_the_machinery_fails_stays_open_and_is_tried_again(tmp_path: Path) -> None:
    gates = FakeGates()
    gates.lost = 2
    entries = await run(tmp_path / "a", gates, count=3)
    outcomes = [entry.outcome for entry in entries.values()]
    assert outcomes == ["open", "admitted", "admitted", "admitted"]
    again = await run(tmp_path / "a", FakeGates(), count=4)
    assert [entry.outcome for entry in again.values()] == ["admitted"] * 4
    assert list(again) == list(entries)


async def test_two_syntheses_do_not_share_a_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a"), pytest.raises(VerigenError, match="another synthesis works on"):
        Ledger(tmp_path / "a")
    Ledger(tmp_path / "a").__exit__(None, None, None)


def test_a_ledger_that_cannot_be_read_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"event": "settled", "key": "x", "admitted": true, "gate": "", "reason": ""}\n')
    with pytest.raises(VerigenError, match=r"a, line 1, cannot be read .*; remove the file"):
        Ledger(tmp_path / "a")
