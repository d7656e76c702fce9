"""Which images there are, which serves a definition, what a damaged or half-built one counts for, and the lock."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from sandbox.errors import ImageError
from sandbox.image import ImageCache, load_profile
from sandbox.image.manifest import image_digest, read_image
from tests.support.images import make_image, write_profile


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return ImageCache(tmp_path / "images")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "tiny")


def test_an_empty_cache_has_nothing(cache: ImageCache, folder: Path) -> None:
    assert cache.list() == ()
    assert cache.find(load_profile(folder)) is None
    assert cache.gc() == ()


def test_an_image_is_found_by_its_definition_until_that_changes(cache: ImageCache, folder: Path) -> None:
    made = make_image(cache, load_profile(folder))
    assert cache.find(load_profile(folder)) == made
    (folder / "packages.txt").write_text("zip\n")
    changed = load_profile(folder)
    assert cache.find(changed) is None
    assert cache.outdated(changed) == (made,)


def test_the_newest_image_of_a_definition_is_taken(cache: ImageCache, folder: Path) -> None:
    profile = load_profile(folder)
    make_image(cache, profile, versions={"zip:amd64": "1"})
    newer = make_image(cache, profile, versions={"zip:amd64": "2"})
    assert cache.find(profile) == newer
    assert len(cache.list()) == 2


def test_the_digest_covers_definition_and_versions() -> None:
    digest = image_digest("d", {"a": "1", "b": "2"})
    assert digest == image_digest("d", {"b": "2", "a": "1"})
    assert len({digest, image_digest("e", {"a": "1", "b": "2"}), image_digest("d", {"a": "1", "b": "3"})}) == 3


@pytest.mark.parametrize("damage", ["manifest", "version", "root", "format"])
def test_a_damaged_image_is_not_an_image(cache: ImageCache, folder: Path, damage: str) -> None:
    image = make_image(cache, load_profile(folder))
    manifest = image.root.parent / "manifest.json"
    if damage == "manifest":
        manifest.write_text(manifest.read_text()[:40])
    elif damage == "root":
        (image.root / "etc").rmdir()
        image.root.rmdir()
    else:
        content = json.loads(manifest.read_text())
        content |= {"packages": {"hostname:amd64": "9"}} if damage == "version" else {"unknown": 1}
        manifest.write_text(json.dumps(content))
    assert cache.list() == ()
    with pytest.raises(ImageError):
        read_image(image.root.parent)


def test_removing_an_image(cache: ImageCache, folder: Path) -> None:
    image = make_image(cache, load_profile(folder))
    cache.remove(image)
    assert [path.name for path in cache.root.iterdir()] == []
    with pytest.raises(ImageError, match="there is no image"):
        cache.remove(image)


def test_gc_deletes_what_killed_builds_left_and_nothing_else(cache: ImageCache, folder: Path) -> None:
    image = make_image(cache, load_profile(folder))
    left = cache.root / ".building-abc"
    (left / "root/etc").mkdir(parents=True)
    (cache.root / ".downloads").mkdir()
    assert cache.gc() == (left,)
    assert not left.exists()
    assert cache.list() == (image,)
    assert cache.gc(downloads=True) == (cache.root / ".downloads",)
    assert cache.list() == (image,)


def test_gc_leaves_a_build_under_way_alone(cache: ImageCache) -> None:
    with cache.lock(on_wait=lambda: None):
        under_way = cache.root / ".building-abc"
        under_way.mkdir()
        assert cache.gc() == ()
        assert under_way.exists()
    assert cache.gc() == (under_way,)


def test_the_lock_lasts_as_long_as_a_process_that_inherited_it(cache: ImageCache) -> None:
    with cache.lock(on_wait=lambda: None) as fd:
        left = cache.root / ".building-abc"
        left.mkdir()
        step = subprocess.Popen(["sleep", "60"], pass_fds=(fd,))
    try:
        assert cache.gc() == (), "the builder is gone, but its step still writes"
    finally:
        step.kill()
        step.wait()
    assert cache.gc() == (left,)


def test_a_second_builder_waits_its_turn(cache: ImageCache) -> None:
    waited, inside, order = threading.Event(), threading.Event(), []

    def second() -> None:
        inside.wait(10)
        with cache.lock(on_wait=waited.set):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with cache.lock(on_wait=lambda: None):
        inside.set()
        assert waited.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_damaged_image_is_told_once_with_what_to_do(
    cache: ImageCache, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image = make_image(cache, load_profile(folder))
    (image.root.parent / "manifest.json").write_text("{")
    assert (cache.list(), cache.list()) == ((), ())
    (told,) = [record.getMessage() for record in caplog.records]
    assert "Delete the folder, or build the image again" in told
