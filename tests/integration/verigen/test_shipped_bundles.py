"""The hand-made bundles on real desktops, and broken twins of them: each twin must fall at the right gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.hub import Hub
from sandbox.image import ImageCache, load_profile
from verigen.assets import Assets, MemoryAssets
from verigen.bundle import Bundle, load_bundle, save_bundle, shipped_bundles
from verigen.proof import Proof
from verigen.record import record_examples
from verigen.verify import verify

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(600)]

FOLDERS = {folder.name: folder for folder in shipped_bundles()}
MOUSEPAD, GALCULATOR, RISTRETTO = (
    "mousepad-final-minutes",
    "galculator-boxes-with-discount",
    "ristretto-draw-a-circle",
)


async def prove(bundle: Bundle, assets: Assets, hub: Hub, images: ImageCache) -> Proof:
    image = images.find(load_profile("light"))
    assert image is not None
    return await verify(bundle, assets, hub, image_digest=image.digest, limit=4, delays_s=(0.02, 0.3))


def twin(name: str, change: Callable[[dict[str, Any]], None]) -> Bundle:
    """A shipped bundle with its document changed."""
    bundle, _ = load_bundle(FOLDERS[name])
    document = bundle.model_dump(mode="json")
    change(document)
    return Bundle.model_validate(document)


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS.keys())
async def test_every_shipped_bundle_is_admitted(folder: Path, hub: Hub, images: ImageCache) -> None:
    bundle, assets = load_bundle(folder)
    proof = await prove(bundle, assets, hub, images)
    assert proof.passed, proof.stopped_by


def passes_at_the_start(document: dict[str, Any]) -> None:
    golden = document["task"]["check"]["of"][0]["expected"]
    document["task"]["setup"].append({"type": "text_file", "path": "Documents/minutes-final.txt", "text": golden})
    document["task"]["setup_asserts"] = []


def state_differs(document: dict[str, Any]) -> None:
    argv = ["/bin/sh", "-c", "head -c 8 /dev/urandom | base64 > Documents/number.txt"]
    document["task"]["setup"].append({"type": "exec", "argv": argv})
    document["task"]["setup_asserts"] = []


def unreachable(document: dict[str, Any]) -> None:
    document["task"]["check"]["of"][0]["expected"] = "770.52"
    (node,) = document["examples"]["golden"]["evidence"]["items"]["display"]["data"]
    node["text"] = "770.52"


def proxy(document: dict[str, Any]) -> None:
    """The picture's bytes are no longer looked at, only that it is there."""
    task = document["task"]
    task["evidence"] = [request for request in task["evidence"] if request["name"] == "pictures"]
    task["check"]["of"] = [leaf for leaf in task["check"]["of"] if leaf.get("item") != "picture"]
    for example in document["examples"].values():
        del example["evidence"]["items"]["picture"]


def wrong_on_golden(document: dict[str, Any]) -> None:
    document["task"]["check"]["of"][0]["expected"] += "- one line more\n"


@pytest.mark.parametrize(
    ("name", "change", "gate", "detail"),
    [
        (MOUSEPAD, wrong_on_golden, "G1", "golden evidence scores 0"),
        (MOUSEPAD, state_differs, "G2", "Documents/number.txt"),
        (MOUSEPAD, passes_at_the_start, "G3", "doing nothing scores 1"),
        (GALCULATOR, unreachable, "G4", "'770.525', expected '770.52'"),
        (RISTRETTO, proxy, "G5", "gives up but has replaced the picture"),
    ],
)
async def test_each_broken_twin_falls_at_its_gate(
    name: str, change: Callable[[dict[str, Any]], None], gate: str, detail: str, hub: Hub, images: ImageCache
) -> None:
    _, assets = load_bundle(FOLDERS[name])
    proof = await prove(twin(name, change), assets, hub, images)
    assert proof.outcome == "failed"
    assert proof.gates[-1].gate == gate, proof.gates[-1]
    assert detail in proof.gates[-1].detail


async def test_a_missing_asset_falls_at_the_setup(hub: Hub, images: ImageCache) -> None:
    bundle, _ = load_bundle(FOLDERS[RISTRETTO])
    proof = await prove(bundle, MemoryAssets(), hub, images)
    assert (proof.gates[-1].gate, proof.outcome) == ("G2", "failed")
    assert "the asset for Pictures/lake.png" in proof.gates[-1].detail


async def test_examples_are_recorded_from_real_runs(hub: Hub, tmp_path: Path) -> None:
    bundle, assets = load_bundle(FOLDERS[RISTRETTO])
    recorded = await record_examples(bundle.model_copy(update={"examples": None}), assets, hub)
    save_bundle(recorded, tmp_path / "again", assets)
    again, _ = load_bundle(tmp_path / "again")
    assert again.id == recorded.id
    assert again.examples is not None
    assert bundle.examples is not None
    assert again.examples.golden.final == bundle.examples.golden.final
    assert again.examples.golden.evidence.items == bundle.examples.golden.evidence.items
