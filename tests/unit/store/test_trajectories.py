from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from pydantic import ValidationError

from store.blobs import BlobStore
from store.catalog import Catalog
from store.errors import (
    BlobsMissing,
    CatalogError,
    StoreError,
    TrajectoryConflict,
    TrajectoryCorrupt,
    TrajectoryError,
    TrajectoryMissing,
    UnknownSchema,
    Unstorable,
)
from store.tables import EpisodeRow
from store.trajectories import TrajectoryStore
from store.trajectory import Trajectory
from tests.support.trajectories import make_trajectory


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.sqlite'}") as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path, blobs: BlobStore, catalog: Catalog) -> TrajectoryStore:
    return TrajectoryStore(tmp_path / "trajectories", blobs, catalog)


def record_files(store: TrajectoryStore) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file() and path.name != ".lock"]


def test_commit_then_load(store: TrajectoryStore, blobs: BlobStore, catalog: Catalog) -> None:
    frames = (blobs.put(b"one"), blobs.put(b"two"))
    trajectory = make_trajectory("ep-1", frames=frames, evidence=blobs.put(b"{}"), group_id="g", policy_version=7)
    row = store.commit(trajectory)
    assert store.load("ep-1") == trajectory
    assert catalog.episode("ep-1").model_dump() == row.model_dump()
    assert (row.num_turns, row.group_id, row.policy_version, row.reward) == (2, "g", 7, 1.0)
    assert store.live_blobs() == trajectory.blobs


def test_missing_blobs_are_named_and_nothing_is_written(
    store: TrajectoryStore, blobs: BlobStore, catalog: Catalog
) -> None:
    absent = ("0" * 64, "../../etc/passwd")
    with pytest.raises(BlobsMissing, match="Put its screenshots") as caught:
        store.commit(make_trajectory(frames=(blobs.put(b"there"), *absent)))
    assert set(caught.value.missing) == set(absent)
    assert record_files(store) == []
    assert catalog.episodes() == []


def test_commit_is_idempotent_and_refuses_another_record(store: TrajectoryStore, catalog: Catalog) -> None:
    trajectory = make_trajectory("ep-1")
    store.commit(trajectory)
    store.commit(trajectory)
    with pytest.raises(TrajectoryConflict, match="needs an id of its own"):
        store.commit(make_trajectory("ep-1", outcome="fail", reward=0.0))
    assert store.load("ep-1") == trajectory
    assert len(catalog.episodes()) == len(record_files(store)) == 1


def test_effects_reach_the_disk_in_order(
    store: TrajectoryStore, blobs: BlobStore, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut can only take what was not fsynced: so each effect must be fsynced before the next begins."""
    frame = blobs.put(b"frame")
    events: list[str] = []
    fsync, replace, add_episode = os.fsync, os.replace, catalog.add_episode

    def name(path: Path) -> str:
        return "temporary file" if path.name.startswith(".tmp-") else f"{path.parent.name}/"

    def watch_fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        events.append(f"fsync {name(path)}" if path.is_file() else f"fsync {path.parent.name}/")
        fsync(descriptor)

    def watch_replace(source: Path, target: Path) -> None:
        events.append(f"rename into {target.parent.parent.name}/")
        replace(source, target)

    def watch_row(row: EpisodeRow) -> bool:
        events.append("row")
        return add_episode(row)

    store.commit(make_trajectory("warm-up", frames=(frame,)))
    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "replace", watch_replace)
    monkeypatch.setattr(catalog, "add_episode", watch_row)
    blobs.put(b"frame of another directory")
    new_directory = ["fsync temporary file", f"fsync {blobs.root.parent.name}/"]
    assert events == [*new_directory, "rename into blobs/", "fsync blobs/"]
    events.clear()
    store.commit(make_trajectory("warm-up", frames=(frame,)))
    assert events == ["fsync blobs/", "fsync temporary file", "fsync trajectories/", "row"]
    events.clear()
    store.commit(make_trajectory("ep-16", frames=(frame,)))
    assert [event for event in events if event != f"fsync {store.root.parent.name}/"] == [
        "fsync blobs/",
        "fsync temporary file",
        "rename into trajectories/",
        "fsync trajectories/",
        "row",
    ]


def test_two_writers_of_one_id_cannot_replace_each_other(
    store: TrajectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second writer comes between the first one's look and its rename."""
    results: list[str] = []
    replace = os.replace

    def commit(seed_env: int) -> None:
        try:
            store.commit(make_trajectory("ep-1", seed_env=seed_env))
            results.append(f"stored {seed_env}")
        except TrajectoryConflict:
            results.append(f"refused {seed_env}")

    second = threading.Thread(target=commit, args=(2,))

    def second_comes(source: Path, target: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        second.start()
        second.join(0.3)  # it would be through by now if it could
        replace(source, target)

    monkeypatch.setattr(os, "replace", second_comes)
    commit(1)
    second.join()
    assert sorted(results) == ["refused 2", "stored 1"]
    assert store.load("ep-1").seed_env == 1


@pytest.mark.parametrize("ids", [None, ["cut/é"]])
def test_recover_adds_the_row_that_a_crash_left_out(
    ids: list[str] | None,
    store: TrajectoryStore,
    blobs: BlobStore,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, cut = make_trajectory("whole"), make_trajectory("cut/é", frames=(blobs.put(b"x"),), outcome="infra_error")
    store.commit(whole)

    def crash(row: EpisodeRow) -> bool:
        raise CatalogError("the database is gone")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "add_episode", crash)
        with pytest.raises(CatalogError):
            store.commit(cut)
    with pytest.raises(TrajectoryMissing):
        store.load("cut/é")
    assert store.live_blobs() == cut.blobs  # gc must not take what recovery will need
    assert store.recover(["whole", "no such"]).added == ()
    report = store.recover(ids)
    assert (report.added, report.lost, report.unreadable) == (("cut/é",), (), ())
    assert store.load("cut/é") == cut
    assert catalog.episode("cut/é").reward is None
    assert store.recover().added == ()


def test_recover_reports_what_it_cannot_heal(store: TrajectoryStore) -> None:
    for trajectory_id in ("lost", "kept"):
        store.commit(make_trajectory(trajectory_id))
    for path in record_files(store):
        if path.name.startswith("lost"):
            path.unlink()
    (store.root / "00").mkdir(exist_ok=True)
    (store.root / "00" / "broken.json.zst").write_bytes(b"half")
    (store.root / "00" / "list.json.zst").write_bytes(zstandard.compress(b"[1]"))
    (store.root / ".tmp-1-old").write_bytes(b"half")
    os.utime(store.root / ".tmp-1-old", (0, 0))
    report = store.recover()
    assert (report.added, report.lost, report.temporary_files) == ((), ("lost",), 1)
    assert ["broken.json.zst" in report.unreadable[0], "list.json.zst" in report.unreadable[1]] == [True, True]
    with pytest.raises(TrajectoryCorrupt, match=r"is gone.*copy from a backup"):
        store.load("lost")
    with pytest.raises(TrajectoryError, match="/00/"):
        store.live_blobs()  # what it needs is not known, so gc must not run


def test_a_changed_record_is_noticed(store: TrajectoryStore) -> None:
    store.commit(make_trajectory("ep-1", outcome="fail", reward=0.0))
    (path,) = record_files(store)
    data = path.read_bytes()
    forged = make_trajectory("ep-1").model_dump_json().encode()
    for content in (data[:-1], data[:20], b"", zstandard.compress(forged)):
        path.write_bytes(content)
        with pytest.raises(TrajectoryCorrupt, match=r"ep-1\.json\.zst.*copy from a backup.*or move it away"):
            store.load("ep-1")
    path.write_bytes(data)
    assert store.load("ep-1").outcome == "fail"


def test_another_schema_version_is_refused(store: TrajectoryStore) -> None:
    with pytest.raises(Unstorable, match="schema version 2"):
        store.commit(make_trajectory(schema_version=2))
    store.commit(make_trajectory("ep-1"))
    (path,) = record_files(store)
    newer = make_trajectory("ep-2").model_dump() | {"schema_version": 2, "new_field": 1}
    path.with_name("ep-2.json.zst").write_bytes(zstandard.compress(json.dumps(newer).encode()))
    assert "schema version 2; this Frontdesk reads version 1" in store.recover().unreadable[0]
    with pytest.raises(UnknownSchema):
        store.live_blobs()


def test_load_wants_the_whole_id(store: TrajectoryStore) -> None:
    store.commit(make_trajectory("ep-10"))
    with pytest.raises(TrajectoryMissing, match="'ep-1'"):
        store.load("ep-1")


@pytest.mark.parametrize(
    "changes",
    [
        {"trajectory_id": ""},
        {"trajectory_id": "x" * 300},
        {"trajectory_id": "a\0b"},
        {"trajectory_id": "\ud800"},
        {"instruction": "lone surrogate \ud800"},
        {"seed_env": 2**63},
        {"policy_version": -(2**63) - 1},
        {"started_at": float("nan")},
        {"seconds": float("inf")},
        {"actor": "a\0b"},
        {"final_action": {"kind": object()}},
    ],
)
def test_what_would_not_read_back_is_refused_before_anything_is_written(
    store: TrajectoryStore, catalog: Catalog, changes: dict[str, object]
) -> None:
    with pytest.raises(Unstorable):
        store.commit(make_trajectory(**changes))  # type: ignore[arg-type]
    assert record_files(store) == []
    assert catalog.episodes() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "infra_error", "reward": 0.0},
        {"outcome": "infra_error", "error": None},
        {"outcome": "fail", "reward": None},
        {"outcome": "pass", "reward": 1.5},
        {"outcome": "fail", "reward": float("nan")},
    ],
)
def test_the_model_refuses_dishonest_outcomes(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        make_trajectory(**changes)  # type: ignore[arg-type]


def test_the_store_and_the_catalog_refuse_what_the_model_was_made_to_accept(
    store: TrajectoryStore, catalog: Catalog
) -> None:
    honest = make_trajectory("ep-1", outcome="infra_error")
    forged = Trajectory.model_construct(**(dict(honest) | {"reward": 0.0}))
    with pytest.raises(StoreError):
        store.commit(forged)
    assert catalog.episodes() == []
    store.commit(honest)
    assert (catalog.episodes()[0].outcome, catalog.episodes()[0].reward) == ("infra_error", None)
