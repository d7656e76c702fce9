"""A reaper may live in another control group than the keeper whose remains it removes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.backends.cgroups import HIERARCHY, Cgroup, Hierarchy, Limits, find_hierarchy
from sandbox.backends.local import LocalBackend
from sandbox.image import ImageCache

LIMITS = Limits(memory_bytes=64 << 20, pids=8, cpus=1.0)

pytestmark = pytest.mark.desktop


@pytest.fixture
def elsewhere(backend: LocalBackend) -> Iterator[Hierarchy]:
    """Groups one level below where this process makes its own."""
    own = find_hierarchy()
    if own.version != 1:
        pytest.skip("version 2 makes groups in one place for all")
    level = Cgroup(own, f"frontdesk-test-{os.getpid()}")
    level.create(LIMITS)
    parents = {name: parent / level.name for name, parent in own.parents.items()}
    accounting = None if own.accounting is None else own.accounting / level.name
    yield Hierarchy(version=1, parents=parents, accounting=accounting)
    assert level.remove()


async def test_groups_made_elsewhere_are_removed(elsewhere: Hierarchy, images: ImageCache, runtime_dir: Path) -> None:
    left = runtime_dir / "frontdesk-1-dead"
    (left / "d1").mkdir(parents=True)
    (left / "lock").touch()
    elsewhere.save(left / HIERARCHY)
    group = Cgroup(elsewhere, "frontdesk-1-dead-d1")
    group.create(LIMITS)
    reaper = LocalBackend(images, runtime_dir)
    try:
        assert await reaper.reap() == ["d1"]
    finally:
        await reaper.close()
    assert not any(path.exists() for path in group.directories)
    assert list(runtime_dir.iterdir()) == []


def test_a_hierarchy_is_read_as_it_was_written(elsewhere: Hierarchy, tmp_path: Path) -> None:
    elsewhere.save(tmp_path / "h")
    assert Hierarchy.load(tmp_path / "h") == elsewhere
    (tmp_path / "h").write_text('{"version": 1, "par')
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        Hierarchy.load(tmp_path / "h")
