"""The generated tasks that ship: they are whole, proven, and what their ids say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.notes import notes_bundle
from verigen.bundle import load_bundle, parse_bundle, shipped_bundles
from verigen.errors import BundleError
from verigen.packs import Draw, content_key, load_packs
from verigen.proof import GateResult, Proof
from verigen.sets import SETS, ProvenBundle, compact, read_sets, write_sets
from verigen.ship import PRACTISED, quotas
from verigen.synth import CAP
from verigen.verify import verify_static

TEMPLATES = [template for pack in load_packs() for template in pack.templates]


def proven(number: int) -> ProvenBundle:
    bundle = TEMPLATES[number].make(Draw(str(number)))
    gate = GateResult(gate="G0", outcome="passed", detail="", seconds=0.0)
    proof = Proof(bundle_id=bundle.id, image_digest="sha256:fake", gates=(gate,), created_at=1.0, seconds=2.0)
    return ProvenBundle(bundle=bundle, proof=proof)


def test_leaving_defaults_out_changes_no_id() -> None:
    bundles = [template.make(Draw("x")) for template in TEMPLATES]
    bundles += [load_bundle(folder)[0] for folder in shipped_bundles()] + [notes_bundle()]
    for bundle in bundles:
        text = json.dumps(compact(bundle))
        assert parse_bundle(json.loads(text)).id == bundle.id
        assert len(text) < len(json.dumps(bundle.model_dump(mode="json")))


def test_sets_read_back_as_they_were_written(tmp_path: Path) -> None:
    tasks = [proven(number) for number in range(len(TEMPLATES))]
    write_sets(tasks, tmp_path)
    read = read_sets(tmp_path)
    assert {task.bundle.id: task.proof for task in read} == {task.bundle.id: task.proof for task in tasks}
    assert {path.name for path in tmp_path.iterdir() if path.suffix == ".part"} == set()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    write_sets(reversed(read), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("change", [("Remove", "Keep"), ("mousepad-", "mousepad-x-")])
def test_a_line_that_was_changed_is_refused(tmp_path: Path, change: tuple[str, str]) -> None:
    names = [template.name for template in TEMPLATES]
    write_sets([proven(names.index("mousepad/remove-line"))], tmp_path)
    path = tmp_path / "mousepad.jsonl"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(BundleError, match=r"mousepad.jsonl, line 1: the bundle is not the proven one"):
        read_sets(tmp_path)


def test_a_bundle_without_its_proof_is_refused(tmp_path: Path) -> None:
    write_sets([proven(0)], tmp_path)
    (tmp_path / "galculator.proofs.jsonl").write_text("")
    with pytest.raises(BundleError, match="line 1"):
        read_sets(tmp_path)


def test_the_shipped_set_is_proven_varied_and_within_its_caps() -> None:
    tasks = read_sets()
    assert len({task.bundle.id for task in tasks}) == len(tasks)
    assert len({content_key(task.bundle) for task in tasks}) == len(tasks)
    assert all(task.proof.passed for task in tasks)
    kinds = Counter((task.bundle.task.tags["template"], task.split) for task in tasks)
    assert all(number <= CAP for number in kinds.values())
    assert kinds == {kind: number for kind, number in quotas(load_packs()).items() if number}
    states: dict[str, set[str]] = {}
    for task in tasks:
        states.setdefault(task.bundle.seed_state, set()).add(task.split)
    assert all(len(splits) == 1 for splits in states.values())
    assert sum(path.stat().st_size for path in SETS.glob("*")) < 5 << 20


def test_the_shipped_set_passes_what_needs_no_desktop() -> None:
    for task in read_sets():
        gates = verify_static(task.bundle)
        assert [gate.gate for gate in gates] == ["G0", "G1"]
        assert gates[-1].passed, gates[-1].detail


def test_the_set_that_is_to_ship_is_large_enough_for_every_skill_and_split() -> None:
    table = quotas(load_packs())
    skills: Counter[str] = Counter()
    for template in TEMPLATES:
        counts = [count for (name, _), count in table.items() if name == template.name]
        assert max(counts) <= CAP
        number = sum(counts)
        for skill in set(template.make(Draw("x")).task.skills):
            skills[skill] += number
    assert min(skills.values()) >= 5
    assert sum(table.values()) >= 150
    assert sum(count for (_, split), count in table.items() if split == "held-out") >= 120
    assert set(PRACTISED) <= {template.name for template in TEMPLATES}
    assert sum(table[name, "held-out"] for name in PRACTISED) >= 120
