"""A full disk is a typed error, and nothing half written stays."""

from __future__ import annotations

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.blobs import BlobStore
from store.errors import CatalogError, DiskFull, StoreError
from tests.support.store_process import open_stores
from tests.support.trajectories import make_trajectory

NOISE = random.Random(0).randbytes(3 << 20)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_blob_that_does_not_fit_is_refused_whole(small_disk: Path) -> None:
    blobs = BlobStore(small_disk / "blobs")
    kept = blobs.put(NOISE[:1000])
    (small_disk.parent / "noise").write_bytes(NOISE)
    with pytest.raises(DiskFull, match="frontdesk gc"):
        blobs.put(NOISE)
    with pytest.raises(DiskFull, match="frontdesk gc"):
        blobs.put_file(small_disk.parent / "noise")
    assert list(blobs.root.glob(".tmp-*")) == []
    assert blobs.get(kept) == NOISE[:1000]
    assert blobs.total_bytes() == sum(path.stat().st_size for path in blobs.root.glob("??/*"))
    assert blobs.get(blobs.put(NOISE[: 1 << 20])) == NOISE[: 1 << 20]  # what fits is stored


def test_a_full_disk_under_commits_loses_nothing(small_disk: Path) -> None:
    _, catalog, trajectories = open_stores(small_disk)
    filler = small_disk / "filler"
    filler.write_bytes(NOISE[: 1 << 20])
    committed: list[str] = []
    with catalog:
        for number in range(200):
            trajectory = make_trajectory(f"ep-{number}", instruction=NOISE[number * 100 :][:10_000].hex())
            try:
                trajectories.commit(trajectory)
            except StoreError as error:
                full: StoreError = error
                break
            committed.append(trajectory.id)
        assert isinstance(full, DiskFull | CatalogError)
        assert len(committed) > 3
        assert {row.id for row in catalog.episodes()} == set(committed)
        filler.unlink()
        recovered = trajectories.recover()
        assert (recovered.lost, recovered.unreadable) == ((), ())
        trajectories.commit(trajectory)
        for trajectory_id in [*committed, trajectory.id]:
            assert trajectories.load(trajectory_id).id == trajectory_id
        assert list(trajectories.root.glob(".tmp-*")) == []


def test_a_file_size_limit_is_the_same_error(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DiskFull):
            blobs.put(NOISE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(blobs.root.glob(".tmp-*")) == []
    assert blobs.total_bytes() == 0
    assert blobs.get(blobs.put(NOISE)) == NOISE
