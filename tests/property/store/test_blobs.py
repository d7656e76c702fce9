"""A blob store behaves like a dictionary with ages, whoever of its openers acts."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from store.blobs import BlobStore
from store.errors import BlobMissing, QuotaExceeded

QUOTA = 4000
GRACE_S = 100.0


class Blobs(RuleBasedStateMachine):
    """Two openers of one store, checked against a dictionary."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.openers = [BlobStore(self.root / "blobs", quota_bytes=QUOTA) for _ in range(2)]
        self.stored: dict[str, bytes] = {}
        self.old: set[str] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(target=names, who=st.integers(0, 1), data=st.binary(max_size=1500), by_file=st.booleans())
    def put(self, who: int, data: bytes, by_file: bool) -> str:
        sha = hashlib.sha256(data).hexdigest()
        (self.root / "source").write_bytes(data)
        try:
            name = self.openers[who].put_file(self.root / "source") if by_file else self.openers[who].put(data)
        except QuotaExceeded as error:
            fits = error.stored + error.needed <= QUOTA
            assert sha not in self.stored
            assert not fits
            return sha
        assert name == sha
        self.stored[sha] = data
        self.old.discard(sha)
        return sha

    @rule(who=st.integers(0, 1), sha=names)
    def refresh(self, who: int, sha: str) -> None:
        missing = self.openers[who].refresh([sha])
        assert missing == ({sha} - self.stored.keys())
        self.old.discard(sha)

    @rule(sha=names)
    def grow_old(self, sha: str) -> None:
        if sha in self.stored:
            then = time.time() - 2 * GRACE_S
            os.utime(self.root / "blobs" / sha[:2] / sha, (then, then))
            self.old.add(sha)

    @rule(who=st.integers(0, 1), live=st.lists(names))
    def collect(self, who: int, live: list[str]) -> None:
        dead = self.old - set(live)
        report = self.openers[who].gc(live, grace_s=GRACE_S)
        assert report.removed == len(dead)
        for sha in dead:
            del self.stored[sha]
        self.old -= dead
        assert report.kept == len(self.stored)

    @rule(target=names)
    def never_put(self) -> str:
        return hashlib.sha256(b"never put" * 1000).hexdigest()

    @invariant()
    def reads_back_and_counts(self) -> None:
        for data in self.stored.values():
            sha = hashlib.sha256(data).hexdigest()
            assert self.openers[0].get(sha) == data
            assert self.openers[1].size(sha) == len(data)
        on_disk = {path.name: path.stat().st_size for path in (self.root / "blobs").glob("??/*")}
        assert on_disk.keys() == self.stored.keys()
        assert self.openers[0].total_bytes() == sum(on_disk.values()) <= QUOTA
        assert list((self.root / "blobs").glob(".tmp-*")) == []

    @rule(sha=names)
    def absent_is_missing(self, sha: str) -> None:
        assert self.openers[0].has(sha) == (sha in self.stored)
        if sha not in self.stored:
            with pytest.raises(BlobMissing):
                self.openers[1].get(sha)


Blobs.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_blobs_are_a_dictionary_with_ages = Blobs.TestCase


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=5000), repeat=st.integers(1, 200), piece=st.integers(1, 70_000))
def test_reading_in_pieces_gives_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, repeat: int, piece: int
) -> None:
    blobs = BlobStore(tmp_path_factory.getbasetemp() / "pieces")
    whole = data * repeat
    with blobs.open(blobs.put(whole)) as reader:
        assert b"".join(iter(lambda: reader.read(piece), b"")) == whole
