"""Promise 8 for the store: processes die at any point, and what was reported as stored can be read back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from store.blobs import BlobStore
from store.catalog import Catalog
from store.trajectories import TrajectoryStore
from tests.support.store_process import open_stores
from tests.support.trajectories import make_trajectory

REPOSITORY = Path(__file__).parents[3]


def run_children(mode: str, root: Path, number: int) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.support.store_process", mode, str(root), str(number)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


def check_everything(
    blobs: BlobStore, catalog: Catalog, trajectories: TrajectoryStore, reported: list[list[str]]
) -> None:
    """The store is whole, holds all that was reported, and nothing is left behind."""
    committed = {row.id for row in catalog.episodes()}
    assert {what[1] for what in reported if what[0] == "trajectory"} <= committed
    for trajectory_id in committed:  # no row without its record and its blobs, also before recovery
        for sha in trajectories.load(trajectory_id).blobs:
            blobs.get(sha)
    for what in reported:
        if what[0] == "blob":
            blobs.get(what[1])

    # A writer that died may have counted what it did not store, never the other way: the quota holds.
    assert blobs.total_bytes() >= sum(path.stat().st_size for path in blobs.root.glob("??/*"))
    report = trajectories.recover()
    assert (report.lost, report.unreadable) == ((), ())
    for trajectory_id in report.added:
        for sha in trajectories.load(trajectory_id).blobs:
            blobs.get(sha)
    assert trajectories.recover().added == ()

    live = trajectories.live_blobs()
    for directory in blobs.root, trajectories.root:
        for path in directory.glob(".tmp-*"):
            os.utime(path, (0, 0))
    for path in blobs.root.glob("??/*"):
        os.utime(path, (0, 0))
    collected = blobs.gc(live, grace_s=1000)
    trajectories.recover()
    files = [path for root in (blobs.root, trajectories.root) for path in root.rglob("*") if path.is_file()]
    kept = {path.name for path in files if path.parent.parent == blobs.root}
    assert kept == live
    assert collected.total_bytes == sum(path.stat().st_size for path in blobs.root.glob("??/*"))
    assert [path.name for path in files if path.name.startswith(".tmp-")] == []


def test_killed_processes_lose_nothing_that_was_committed(tmp_path: Path) -> None:
    reported = run_children("kill", tmp_path, 30)
    assert {what[0] for what in reported} == {"blob", "trajectory"}
    blobs, catalog, trajectories = open_stores(tmp_path)
    with catalog:
        check_everything(blobs, catalog, trajectories, reported)


def test_death_at_every_single_effect_is_survived(tmp_path: Path) -> None:
    reported = run_children("steps", tmp_path, 200)
    assert reported[-1][1] == "finished"
    last = int(reported[-1][0])
    assert last > 25
    half_committed = 0
    for step in range(1, last + 1):
        blobs, catalog, trajectories = open_stores(tmp_path / str(step))
        with catalog:
            mine = [what[1:] for what in reported if what[0] == str(step)]
            half_committed += len(list(trajectories.root.glob("??/*"))) - len(catalog.episodes())
            check_everything(blobs, catalog, trajectories, mine)
            # Life goes on: the same work succeeds now, whatever was left half done.
            frame = blobs.put(b"frame" * 1000)
            trajectories.commit(make_trajectory("ep-2", frames=(frame,)))
            assert blobs.get(frame) == b"frame" * 1000
    assert half_committed >= 1  # some child did die between the record and the row


def test_processes_may_do_the_same_thing_at_once(tmp_path: Path) -> None:
    reported = run_children("race", tmp_path, 8)
    assert reported.count(["trajectory", "same"]) == 8
    won = [int(what[1]) for what in reported if what[0] == "won"]
    assert len(won) == 1
    assert sum(what[0] == "lost" for what in reported) == 7
    blobs, catalog, trajectories = open_stores(tmp_path)
    with catalog:
        assert trajectories.load("contested").seed_env == won[0]
        assert len(list(blobs.root.glob("??/*"))) == 5
        assert blobs.total_bytes() == sum(path.stat().st_size for path in blobs.root.glob("??/*"))
        check_everything(blobs, catalog, trajectories, [])


@pytest.mark.parametrize("victim", ["blob", "record"])
def test_the_check_itself_notices_a_loss(tmp_path: Path, victim: str) -> None:
    blobs, catalog, trajectories = open_stores(tmp_path)
    with catalog:
        trajectories.commit(make_trajectory("ep-1", frames=(blobs.put(b"x"),)))
        directory = blobs.root if victim == "blob" else trajectories.root
        next(directory.glob("??/*")).unlink()
        with pytest.raises(Exception, match=r"no blob|is gone"):
            check_everything(blobs, catalog, trajectories, [["trajectory", "ep-1"]])
