from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.storage import Holding, collect, survey
from sandbox.image import Image, ImageCache, load_profile
from sandbox.image.manifest import image_digest, write_manifest
from store import BlobStore, Catalog, Home, TrajectoryStore
from tests.support.trajectories import make_trajectory
from verigen.bundle import load_bundle, shipped_bundles
from verigen.proof import store_bundle


class Place:
    """An opened state directory."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.blobs = BlobStore(home.blobs)
        self.catalog = Catalog.open(home.catalog_url)
        self.store = TrajectoryStore(home.trajectories, self.blobs, self.catalog)

    def survey(self) -> dict[str, Holding]:
        found = survey(self.home, self.blobs, self.catalog, self.store)
        return {holding.what: holding for holding in found}

    async def collect(self) -> list[str]:
        return await collect(self.home, self.blobs, self.catalog, self.store)

    def make_blobs_old(self) -> None:
        for path in self.home.blobs.glob("??/*"):
            os.utime(path, (1, 1))

    def make_image(self, definition: str) -> Image:
        digest = image_digest(definition, {"bash": "5"})
        folder = self.home.images / f"light-{digest[:12]}"
        (folder / "root").mkdir(parents=True)
        (folder / "root" / "file").write_text("x")
        image = Image(
            profile="light",
            digest=digest,
            root=folder / "root",
            definition_hash=definition,
            packages={"bash": "5"},
            size_bytes=1000,
            created_at=1.0,
        )
        write_manifest(folder, image)
        return image


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(Home(tmp_path).ensure())
    yield made
    made.catalog.close()


async def test_only_blobs_that_nothing_refers_to_go(place: Place) -> None:
    shown = place.blobs.put(b"a screenshot")
    place.store.commit(make_trajectory(frames=(shown,)))
    for folder in shipped_bundles():
        bundle, assets = load_bundle(folder)
        store_bundle(place.catalog, bundle)
        for name in bundle.assets:
            place.blobs.put(assets.get(name))
    lost = place.blobs.put(b"nobody's")
    kept = set(path.name for path in place.home.blobs.glob("??/*")) - {lost}
    assert place.survey()["screenshots, evidence, assets"].num_free == 0  # all are young
    place.make_blobs_old()
    held = place.survey()["screenshots, evidence, assets"]
    assert (held.num, held.num_free) == (len(kept) + 1, 1)
    assert "removed 1 blobs that nothing refers to" in await place.collect()
    assert {path.name for path in place.home.blobs.glob("??/*")} == kept
    assert place.survey()["trajectories"].num == 1


async def test_images_of_earlier_definitions_go_unless_a_desktop_is_open(place: Place) -> None:
    image = place.make_image("an earlier definition")
    held = place.survey()["desktop images"]
    assert (held.num, held.num_free, held.free_bytes) == (1, 1, 1000)
    live = place.home.run / "frontdesk-1-abcd"
    live.mkdir()
    assert any("because desktops are open" in line for line in await place.collect())
    assert image.root.exists()
    live.rmdir()
    assert any("of an earlier definition" in line for line in await place.collect())
    assert not ImageCache(place.home.images).list()


async def test_what_docker_desktops_left_stays_where_no_daemon_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place.home.path}/docker.sock")
    assert not any("docker" in line for line in await place.collect())
    image = place.make_image("an earlier definition")
    (place.home.run / "docker-1-abcd").mkdir()
    told = await place.collect()
    assert any(line.startswith("kept what desktops of docker left: ") for line in told)
    assert any("because desktops are open" in line for line in told)
    assert image.root.exists()


async def test_the_image_of_the_present_definition_stays(place: Place) -> None:
    image = place.make_image(load_profile("light").definition_hash)
    assert place.survey()["desktop images"].num_free == 0
    await place.collect()
    assert image.root.exists()


async def test_what_builds_left_goes(place: Place) -> None:
    for name in (".downloads", ".building-x"):
        (place.home.images / name).mkdir()
        (place.home.images / name / "part").write_bytes(b"x" * 100)
    held = place.survey()["downloads and remains of builds"]
    assert (held.num, held.free_bytes) == (2, 200)
    await place.collect()
    assert place.survey()["downloads and remains of builds"].num == 0


async def test_runs_are_told_and_stay(place: Place) -> None:
    checkpoint = place.home.runs / "train" / "first" / "weights"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"x" * 300)
    (checkpoint.parent / "newest").symlink_to(checkpoint)
    held = place.survey()["training runs, ledgers of synthesis"]
    assert (held.num, held.size_bytes, held.num_free) == (1, 300, 0)
    await place.collect()
    assert checkpoint.exists()
