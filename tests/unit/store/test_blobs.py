from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from pathlib import Path

import pytest

import store.blobs
from store.blobs import BlobStore
from store.durable import locked
from store.errors import BlobCorrupt, BlobMissing, QuotaExceeded, StoreBusy, StoreError

NOISE = random.Random(0).randbytes(100_000)
FLAT = b"\xff" * 100_000


def path_of(blobs: BlobStore, sha: str) -> Path:
    return blobs.root / sha[:2] / sha


def stored_bytes(blobs: BlobStore) -> int:
    return sum(path.stat().st_size for path in blobs.root.glob("??/*"))


def make_old(blobs: BlobStore, sha: str, age_s: float = 1000.0) -> None:
    then = time.time() - age_s
    os.utime(path_of(blobs, sha), (then, then))


@pytest.mark.parametrize("data", [b"", b"x", FLAT, NOISE, b"\x28\xb5\x2f\xfd not a zstd frame", NOISE[:1000] * 3000])
def test_bytes_and_files_read_back_under_their_hash(tmp_path: Path, data: bytes) -> None:
    blobs = BlobStore(tmp_path / "a")
    sha = hashlib.sha256(data).hexdigest()
    assert not blobs.has(sha)
    assert blobs.put(data) == sha
    assert blobs.has(sha)
    assert blobs.get(sha) == data
    assert blobs.size(sha) == len(data)

    (tmp_path / "file").write_bytes(data)
    others = BlobStore(tmp_path / "b")
    assert others.put_file(tmp_path / "file") == sha
    assert others.get(sha) == data
    assert others.total_bytes() == stored_bytes(others)
    assert sorted(path.name for path in others.root.iterdir()) == sorted([".usage", sha[:2]])


def test_what_does_not_shrink_is_stored_raw(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    (tmp_path / "noise").write_bytes(NOISE + b"!")
    for sha in (blobs.put(NOISE), blobs.put_file(tmp_path / "noise")):
        assert path_of(blobs, sha).stat().st_size == blobs.size(sha) + 13
    assert path_of(blobs, blobs.put(FLAT)).stat().st_size < 200


def test_a_stream_gives_the_bytes_in_pieces(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    with blobs.open(blobs.put(NOISE)) as reader:
        assert reader.size == len(NOISE)
        assert reader.read(10) == NOISE[:10]
        assert b"".join(iter(lambda: reader.read(999), b"")) == NOISE[10:]
        assert reader.read(1) == b""


def test_missing_blobs_are_typed_whatever_the_name(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    (tmp_path / "secret").write_text("x")
    for name in ("0" * 64, "../secret", "", "F" * 64, "0" * 64 + "\n"):
        assert not blobs.has(name)
        for call in (blobs.get, blobs.open, blobs.size):
            with pytest.raises(BlobMissing):
                call(name)
    assert blobs.refresh(["../secret", "0" * 64]) == {"../secret", "0" * 64}


@pytest.mark.parametrize("data", [FLAT, NOISE], ids=["compressed", "raw"])
def test_damage_is_noticed(tmp_path: Path, data: bytes) -> None:
    blobs = BlobStore(tmp_path)
    sha = blobs.put(data)
    path = path_of(blobs, sha)
    whole = path.read_bytes()
    harmless = 0
    places = {*range(min(60, len(whole))), len(whole) - 1, len(whole) // 2}
    for at in places:
        changed = bytearray(whole)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        try:
            # A few bits of a zstd frame mean nothing; whatever is given out must be what was put.
            assert blobs.get(sha) == data
            harmless += 1
        except BlobCorrupt as error:
            assert error.path == path  # noqa: PT017
    assert harmless <= (1 if data == FLAT else 0)
    for cut in (0, 5, 13, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(BlobCorrupt):
            blobs.get(sha)


def test_a_stream_never_gives_out_all_of_a_damaged_blob(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    sha = blobs.put(NOISE)
    path = path_of(blobs, sha)
    damaged = bytearray(path.read_bytes())
    damaged[13] ^= 1
    path.write_bytes(damaged)
    received: list[bytes] = []
    with blobs.open(sha) as reader, pytest.raises(BlobCorrupt, match="hash"):
        received.extend(iter(lambda: reader.read(1000), b""))
    assert 0 < len(b"".join(received)) < len(NOISE)


def test_a_second_put_stores_nothing_more(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    sha = blobs.put(NOISE)
    inode = path_of(blobs, sha).stat().st_ino
    before = blobs.total_bytes()
    blobs.put(NOISE)
    assert path_of(blobs, sha).stat().st_ino == inode
    assert blobs.total_bytes() == before == stored_bytes(blobs)


def test_quota_counts_what_is_stored_and_says_what_to_do(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs", quota_bytes=150_000)
    kept = blobs.put(NOISE)
    with pytest.raises(QuotaExceeded, match=r"frontdesk gc.*quota_bytes") as caught:
        blobs.put(NOISE[::-1])
    assert (caught.value.needed, caught.value.stored) == (100_013, 100_013)
    (tmp_path / "noise").write_bytes(NOISE[::-1])
    with pytest.raises(QuotaExceeded):
        blobs.put_file(tmp_path / "noise")
    blobs.put(FLAT)  # compressed, it fits
    blobs.put(NOISE)  # it is there already
    assert blobs.get(kept) == NOISE
    assert list(blobs.root.glob(".tmp-*")) == []


def test_quota_sees_what_other_openers_stored_and_collected(tmp_path: Path) -> None:
    one, two = BlobStore(tmp_path, quota_bytes=150_000), BlobStore(tmp_path, quota_bytes=150_000)
    sha = one.put(NOISE)
    with pytest.raises(QuotaExceeded):
        two.put(NOISE[::-1])
    make_old(one, sha)
    one.gc([], grace_s=10)
    two.put(NOISE[::-1])


def test_a_lost_count_is_counted_anew(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    blobs.put(NOISE)
    (tmp_path / ".usage").unlink()
    assert BlobStore(tmp_path).total_bytes() == stored_bytes(blobs) > 0
    (tmp_path / ".usage").write_bytes((5).to_bytes(8, "big"))
    assert blobs.total_bytes() == 5
    assert blobs.gc([]).total_bytes == blobs.total_bytes() == stored_bytes(blobs)


def test_gc_keeps_the_live_and_the_young(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    live, young, again, fresh, dead = (blobs.put(NOISE[n:]) for n in range(5))
    for sha in (live, again, fresh, dead):
        make_old(blobs, sha)
    blobs.put(NOISE[2:])
    assert blobs.refresh([fresh]) == frozenset()
    size = path_of(blobs, dead).stat().st_size
    assert blobs.unreferenced([live], grace_s=100) == (1, size)
    report = blobs.gc([live], grace_s=100)
    assert (report.removed, report.freed_bytes, report.kept) == (1, size, 4)
    assert blobs.unreferenced([live], grace_s=100) == (0, 0)
    assert not blobs.has(dead)
    assert all(blobs.has(sha) for sha in (live, young, again, fresh))
    assert report.total_bytes == blobs.total_bytes() == stored_bytes(blobs)
    with pytest.raises(ValueError, match="negative"):
        blobs.gc([], grace_s=-1)


def test_gc_does_not_take_what_is_put_again_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = BlobStore(tmp_path)
    sha = blobs.put(NOISE)
    make_old(blobs, sha)
    first_look = store.blobs._is_old
    looks: list[bool] = []

    def look_then_put(path: Path, cutoff: float) -> bool:
        looks.append(first_look(path, cutoff))
        if len(looks) == 1:
            blobs.put(NOISE)
        return looks[-1]

    monkeypatch.setattr(store.blobs, "_is_old", look_then_put)
    assert blobs.gc([], grace_s=100).removed == 0
    assert looks == [True, False]
    assert blobs.get(sha) == NOISE


def test_gc_removes_old_temporary_files_only(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    for name, age_s in ((".tmp-1-old", 1000.0), (".tmp-2-new", 0.0)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    assert blobs.gc([], grace_s=100).temporary_files == 1
    assert [path.name for path in tmp_path.glob(".tmp-*")] == [".tmp-2-new"]


def test_a_failed_put_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = BlobStore(tmp_path / "blobs")

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output"):
            blobs.put(NOISE)
    assert not blobs.has(hashlib.sha256(NOISE).hexdigest())
    assert list(blobs.root.glob(".tmp-*")) == []
    assert blobs.get(blobs.put(NOISE)) == NOISE


def test_threads_may_put_the_same_bytes_at_once(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    start = threading.Barrier(8)
    errors: list[StoreError] = []

    def work() -> None:
        start.wait()
        try:
            for n in range(10):
                assert len(blobs.get(blobs.put(NOISE[n:]))) == len(NOISE) - n
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list(tmp_path.glob("??/*"))) == 10
    assert blobs.total_bytes() == stored_bytes(blobs)


def test_a_lock_held_elsewhere_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locked(lock), pytest.raises(StoreBusy, match=r"locked for 0\.01 s"), locked(lock, timeout_s=0.01):
        pass
    with locked(lock, timeout_s=0.01):
        pass
