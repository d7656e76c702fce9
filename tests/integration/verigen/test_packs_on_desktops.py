"""Generated tasks on real desktops: one of each pack is admitted, and broken twins fall at the right gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.hub import Hub
from sandbox.image import ImageCache, load_profile
from store.catalog import Catalog
from verigen.assets import MemoryAssets
from verigen.bundle import Bundle
from verigen.ledger import Ledger
from verigen.packs import Draw, load_packs
from verigen.proof import Proof, find_proof
from verigen.record import record_examples
from verigen.synth import PAUSES_S, Gates, synthesise
from verigen.verify import verify

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(300)]

TEMPLATES = {template.name: template for pack in load_packs() for template in pack.templates}


def digest_of(images: ImageCache) -> str:
    image = images.find(load_profile("light"))
    assert image is not None
    return image.digest


@pytest.mark.parametrize("pack", [pack.name for pack in load_packs()])
async def test_one_task_of_each_pack_is_proven(pack: str, hub: Hub, images: ImageCache, tmp_path: Path) -> None:
    digest = digest_of(images)
    with Catalog.open(f"sqlite:///{tmp_path}/catalog.sqlite") as catalog, Ledger(tmp_path / "ledger") as ledger:
        await synthesise(
            load_packs([pack]),
            ["train"],
            Gates(hub=hub, image_digest=digest, catalog=catalog, limit=4),
            ledger,
            seed=5,
            known=set(),
            wanted=lambda template, split: 1,
            count=1,
            workers=1,
        )
        entries = list(ledger.entries.values())
        assert [(entry.outcome, entry.gate, entry.reason) for entry in entries] == [("admitted", "", "")]
        entry = entries[0]
        proof = find_proof(catalog, entry.bundle.id, digest)
        assert proof is not None
        assert proof.passed
        assert catalog.bundle(entry.bundle.id).split == "train"


@pytest.fixture(scope="module")
async def sound(images: ImageCache, backend: Any) -> Bundle:
    """A small sound task with examples: a file is renamed in the terminal."""
    async with Hub(backend, capacity=2, close_backend=False) as hub:
        return await record_examples(TEMPLATES["terminal/move-file"].make(Draw("twins")), MemoryAssets(), hub)


def passes_at_the_start(document: dict[str, Any]) -> None:
    """The work is done by the setup."""
    move = document["oracle"][0]["action"]["text"]
    document["task"]["setup"].append({"type": "exec", "argv": ["/bin/sh", "-c", f"cd && {move}"]})


def unreachable(document: dict[str, Any]) -> None:
    """The solution leads to another name than the one that is checked."""
    document["oracle"][0]["action"]["text"] += "x"


def flaky(document: dict[str, Any]) -> None:
    """Every start is another one."""
    argv = ["/bin/sh", "-c", "head -c 8 /dev/urandom | base64 > Documents/number.txt"]
    document["task"]["setup"].append({"type": "exec", "argv": argv})


def wrong_file(document: dict[str, Any]) -> None:
    """The check reads a file that the work does not touch."""
    for request in document["task"]["evidence"]:
        if request["name"] == "moved":
            request["path"] = f"Documents/{request['path']}"


def proxy_check(document: dict[str, Any]) -> None:
    """Only the name is checked, not what the file holds."""
    task = document["task"]
    task["evidence"] = [request for request in task["evidence"] if request["name"] != "moved"]
    task["check"]["of"] = [leaf for leaf in task["check"]["of"] if leaf.get("item") != "moved"]
    for example in document["examples"].values():
        del example["evidence"]["items"]["moved"]


@pytest.mark.parametrize(
    ("fault", "gate", "said"),
    [
        (passes_at_the_start, "G3", "scores 1"),
        (unreachable, "G4", "the oracle scores 0"),
        (flaky, "G2", "number.txt"),
        (wrong_file, "G4", "moved is missing"),
        (proxy_check, "G5", "'an empty file' passes, but must not"),
    ],
)
async def test_a_planted_fault_falls_at_its_gate(
    sound: Bundle, hub: Hub, images: ImageCache, fault: Callable[[dict[str, Any]], None], gate: str, said: str
) -> None:
    document = sound.model_dump(mode="json")
    fault(document)
    proof: Proof = await verify(
        Bundle.model_validate(document),
        MemoryAssets(),
        hub,
        image_digest=digest_of(images),
        limit=4,
        delays_s=PAUSES_S,
    )
    stopped = proof.stopped_by
    assert stopped is not None
    assert (stopped.gate, stopped.outcome) == (gate, "failed"), stopped.detail
    assert said in stopped.detail
