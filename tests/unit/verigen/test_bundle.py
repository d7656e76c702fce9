"""Bundles: their identity, their folder on disk, and messages that name file and field."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from store.blobs import BlobStore
from tests.support.notes import NOTES, notes_bundle
from verigen.assets import BlobAssets, FolderAssets, MemoryAssets
from verigen.bundle import Bundle, load_bundle, parse_bundle, save_bundle, shipped_bundles
from verigen.checks import verifier_id
from verigen.errors import AssetMissing, BundleError
from verigen.task import AssetStep, TextFileStep
from verigen.verify import verify_static

DATA = b"some bytes"
NAME = hashlib.sha256(DATA).hexdigest()


def with_asset() -> Bundle:
    return notes_bundle(task_setup=(AssetStep(path=NOTES, sha256=NAME), *notes_bundle().task.setup[1:]))


def test_the_id_names_the_content() -> None:
    bundle = notes_bundle()
    assert bundle.id == notes_bundle().id
    assert parse_bundle(json.loads(json.dumps(bundle.model_dump(mode="json")))).id == bundle.id
    changed: list[Any] = [
        notes_bundle(seed_state="others"),
        notes_bundle(task_instruction="Append a line that says bread to the notes."),
        notes_bundle(negatives=bundle.negatives[:3]),
        notes_bundle(alternatives=()),
        notes_bundle(oracle=bundle.alternatives[0].script),
        notes_bundle(examples=None),
        notes_bundle(task_setup=(TextFileStep(path=NOTES, text="milk"), *bundle.task.setup[1:])),
        with_asset(),
        bundle.model_copy(update={"examples": None, "seed_state": "x"}),
    ]
    assert len({bundle.id, *(other.id for other in changed)}) == 1 + len(changed)


def test_the_verifier_s_id_covers_checks_and_evidence_only() -> None:
    one = notes_bundle()
    assert verifier_id(one.task) == verifier_id(notes_bundle(task_setup=(), task_instruction="x" * 20).task)
    requests = [request.model_copy(update={"max_bytes": 5}) for request in one.task.evidence]
    assert verifier_id(one.task) != verifier_id(notes_bundle(task_evidence=tuple(requests)).task)


def test_a_folder_reads_back_as_the_same_bundle(tmp_path: Path) -> None:
    bundle = with_asset()
    save_bundle(bundle, tmp_path / "it", MemoryAssets(DATA))
    again, assets = load_bundle(tmp_path / "it")
    assert (again, again.id) == (bundle, bundle.id)
    assert again.assets == {NAME}
    assert assets.get(NAME) == DATA


def test_a_bundle_is_not_written_without_its_assets(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="'append-bread' cannot be written: asset"):
        save_bundle(with_asset(), tmp_path / "it", MemoryAssets())
    assert not (tmp_path / "it").exists()


def edited(folder: Path, change: dict[str, Any]) -> Path:
    save_bundle(notes_bundle(), folder, MemoryAssets())
    path = folder / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"negative": []}, "negative: Extra inputs"),
        ({"oracle": []}, "oracle: Tuple should have at least 1 item"),
        ({"oracle": [{"type": "fly"}]}, "oracle.0: Input tag 'fly'"),
        ({"task": {"name": "x"}}, "task.instruction: Field required"),
        ({"seed_state": ""}, "seed_state: String should have at least 1 character"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = edited(tmp_path / "it", change)
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    assert message in str(caught.value)
    assert str(folder / "bundle.json") in str(caught.value)
    # the same document falls when it comes from a generator rather than a file
    with pytest.raises(BundleError, match=re.escape(message)):
        parse_bundle(json.loads((folder / "bundle.json").read_text()))


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"cannot read .*bundle\.json: No such file"):
        load_bundle(tmp_path)
    (tmp_path / "bundle.json").write_text("{")
    with pytest.raises(BundleError, match="is not JSON"):
        load_bundle(tmp_path)


def test_assets_are_checked_wherever_they_come_from(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DATA)
    assert FolderAssets(tmp_path).get(NAME) == DATA
    (tmp_path / NAME).write_bytes(b"other bytes")
    with pytest.raises(AssetMissing, match="another hash"):
        FolderAssets(tmp_path).get(NAME)
    with pytest.raises(AssetMissing, match="No such file"):
        FolderAssets(tmp_path / "nowhere").get(NAME)
    blobs = BlobStore(tmp_path / "blobs")
    with pytest.raises(AssetMissing):
        BlobAssets(blobs).get(NAME)
    assert blobs.put(DATA) == NAME
    assert BlobAssets(blobs).get(NAME) == DATA


def test_the_shipped_bundles_pass_what_needs_no_desktop() -> None:
    folders = shipped_bundles()
    assert len(folders) >= 3
    for folder in folders:
        bundle, assets = load_bundle(folder)
        assert folder.name == bundle.task.name
        assert [len(assets.get(name)) > 0 for name in bundle.assets] == [True] * len(bundle.assets)
        gates = verify_static(bundle)
        assert [gate.outcome for gate in gates] == ["passed", "passed"], (folder.name, gates)
