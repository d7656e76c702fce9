"""Bytes kept under the sha256 of their plain content: screenshots, evidence, assets.

::

    put: hash -> there already? refresh its age : temporary file -> fsync -> [lock: quota, rename] -> fsync directory
    gc:  live names -> [lock: still old? remove] -> recount

Guarantees: a name that `put` returned reads back as exactly its bytes or raises, after a crash too; two processes may
put the same bytes at once; nothing half written is ever visible; `gc` never removes a blob that was put, put again or
refreshed within the grace, whoever does what at the same time (both sides decide under one lock).

Trade-offs: one lock for the whole store, held for a few system calls per put; the count of stored bytes that the quota
uses lives in the lock file and is not fsynced, so after a power cut it may be off until the next `gc` recounts it. A
crash between counting and renaming, or within `gc`, leaves the count too high, never too low.

On disk a blob is `ab/abcd...`: a magic, how the body is coded, the plain size, the body.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import zstandard

from store.durable import Fanout, fsync_directory, fsync_file, locked, remove_stale, temporary, typed_disk_full
from store.errors import BlobCorrupt, BlobMissing, QuotaExceeded

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["BlobReader", "BlobStore", "GcReport"]

_HEADER = struct.Struct(">4scQ")
_MAGIC = b"FDB1"
_RAW, _ZSTD = b"r", b"z"
_CHUNK = 1 << 20
_NAME = re.compile(r"[0-9a-f]{64}")
_USAGE_BYTES = 8
GRACE_S = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GcReport:
    """What a collection did."""

    removed: int
    """Blobs removed."""
    freed_bytes: int
    """Bytes of the removed blobs as stored."""
    kept: int
    """Blobs left, live or young."""
    temporary_files: int
    """Left-overs of crashed writers removed."""
    total_bytes: int
    """Bytes stored afterwards, counted anew."""


def _is_old(path: Path, cutoff: float) -> bool:
    try:
        return path.stat().st_mtime < cutoff
    except FileNotFoundError:
        return False


class BlobReader(io.RawIOBase):
    """Reads a blob's plain bytes and checks them on the way.

    The last bytes are given out only after the hash was found right, so a reader that got `size` bytes got the right
    ones.
    """

    size: int
    """Plain bytes."""

    def __init__(self, file: BinaryIO, sha: str, path: Path) -> None:
        super().__init__()
        self._file, self._sha, self._path = file, sha, path
        header = file.read(_HEADER.size)
        if len(header) != _HEADER.size:
            raise self._corrupt("its header is cut short")
        magic, coding, self.size = _HEADER.unpack(header)
        if magic != _MAGIC or coding not in (_RAW, _ZSTD):
            raise self._corrupt("its header is not one")
        self._read: Callable[[int], bytes] = file.read
        if coding == _ZSTD:
            self._read = zstandard.ZstdDecompressor().stream_reader(file).read
        self._digest = hashlib.sha256()
        self._received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        try:
            chunk = self._read(min(len(view), self.size - self._received))
        except zstandard.ZstdError as error:
            raise self._corrupt(str(error)) from error
        self._digest.update(chunk)
        self._received += len(chunk)
        if view and not chunk and self._received < self.size:
            raise self._corrupt(f"only {self._received} of {self.size} bytes are there")
        if self._received == self.size and self._digest.hexdigest() != self._sha:
            raise self._corrupt("its hash is another")
        view[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _corrupt(self, why: str) -> BlobCorrupt:
        return BlobCorrupt(self._sha, self._path, why)


class BlobStore:
    """A directory of blobs, shared by any number of threads and processes.

    Args:
        root: made if it is not there.
        quota_bytes: most bytes to keep, as stored (compressed); None for no limit.
    """

    def __init__(self, root: Path, *, quota_bytes: int | None = None) -> None:
        self.root = root
        self.quota_bytes = quota_bytes
        with typed_disk_full(root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fanout = Fanout(root)

    def put(self, data: bytes) -> str:
        """Store the bytes; on return they are on the disk. Putting them again makes the blob young again.

        Returns:
            Their sha256, hex: the blob's name.

        Raises:
            QuotaExceeded: they do not fit the quota.
            DiskFull: they do not fit the disk.
        """
        sha = hashlib.sha256(data).hexdigest()
        if self.refresh([sha]):
            packed = zstandard.ZstdCompressor(level=1).compress(data)
            coding, body = (_ZSTD, packed) if len(packed) < len(data) else (_RAW, data)
            with temporary(self.root) as file:
                file.write(_HEADER.pack(_MAGIC, coding, len(data)))
                file.write(body)
                self._publish(file, sha)
        return sha

    def put_file(self, path: Path) -> str:
        """Store a file's bytes as `put` does, in constant memory. What is stored is what one reading of it gave."""
        with path.open("rb") as source, temporary(self.root) as packed:
            digest, size = hashlib.sha256(), 0
            packed.write(_HEADER.pack(_MAGIC, _ZSTD, 0))
            with zstandard.ZstdCompressor(level=1).stream_writer(packed, closefd=False) as writer:
                for chunk in iter(lambda: source.read(_CHUNK), b""):
                    digest.update(chunk)
                    size += len(chunk)
                    writer.write(chunk)
            sha = digest.hexdigest()
            if not self.refresh([sha]):
                return sha
            if packed.tell() - _HEADER.size < size:
                packed.seek(0)
                packed.write(_HEADER.pack(_MAGIC, _ZSTD, size))
                self._publish(packed, sha)
            else:
                # Unpack our own copy rather than read the source again: it may have changed since.
                packed.seek(_HEADER.size)
                with temporary(self.root) as plain:
                    plain.write(_HEADER.pack(_MAGIC, _RAW, size))
                    zstandard.ZstdDecompressor().copy_stream(packed, plain)
                    self._publish(plain, sha)
        return sha

    def get(self, sha: str) -> bytes:
        """The blob's bytes.

        Raises:
            BlobMissing: there is none of this name.
            BlobCorrupt: what is stored is not what was put.
        """
        with self.open(sha) as reader:
            return b"".join(iter(lambda: reader.read(_CHUNK), b""))

    def open(self, sha: str) -> BlobReader:
        """Read the blob as a stream; it raises as `get` does, BlobCorrupt at the latest with the last bytes."""
        path = self._path(sha)
        try:
            file = path.open("rb")
        except FileNotFoundError as error:
            raise BlobMissing(sha) from error
        try:
            return BlobReader(file, sha, path)
        except BlobCorrupt:
            file.close()
            raise

    def has(self, sha: str) -> bool:
        """Whether a blob of this name is stored. A name that is no sha256 is the name of none."""
        return _NAME.fullmatch(sha) is not None and self._path(sha).exists()

    def size(self, sha: str) -> int:
        """Number of the blob's plain bytes; raises as `get` does."""
        with self.open(sha) as reader:
            return reader.size

    def total_bytes(self) -> int:
        """Bytes stored, compressed; what the quota limits."""
        with self._usage() as usage:
            return usage.total

    def refresh(self, names: Iterable[str]) -> frozenset[str]:
        """Make these blobs young, so that no `gc` takes them within its grace, and be sure that they are on the disk.

        Returns:
            The names that are not stored.
        """
        missing = set()
        directories = set()
        with self._usage():
            for sha in names:
                if self.has(sha):
                    path = self._path(sha)
                    os.utime(path)
                    directories.add(path.parent)
                else:
                    missing.add(sha)
        for directory in directories:
            # Whoever renamed the blob into it may not have reached this fsync yet.
            fsync_directory(self._fanout.directory(directory.name))
        return frozenset(missing)

    def unreferenced(self, live: Iterable[str], *, grace_s: float = GRACE_S) -> tuple[int, int]:
        """How many blobs `gc` would remove now, and their bytes as stored."""
        keep = frozenset(live)
        cutoff = time.time() - grace_s
        paths = [path for directory in self._fanout.existing() for path in directory.iterdir()]
        dead = [path for path in paths if path.name not in keep and _is_old(path, cutoff)]
        return len(dead), sum(path.stat().st_size for path in dead)

    def gc(self, live: Iterable[str], *, grace_s: float = GRACE_S) -> GcReport:
        """Remove the blobs that are not live and not young, and what crashed writers left.

        Args:
            live: names to keep, e.g. `TrajectoryStore.live_blobs()` and the assets of all bundles.
            grace_s: seconds since the last put or refresh during which a blob stays whatever `live` says. It must
                exceed the longest time from a put to the commit of what refers to it (an episode), and the time from
                computing `live` to the end of this call.
        """
        if grace_s < 0:
            raise ValueError(f"grace_s is {grace_s}; it must not be negative")
        keep = frozenset(live)
        cutoff = time.time() - grace_s
        removed = freed = kept = 0
        for directory in self._fanout.existing():
            blobs = list(directory.iterdir())
            dead = [path for path in blobs if path.name not in keep and _is_old(path, cutoff)]
            if dead:
                with self._usage():
                    # Look again under the lock: one may have been refreshed since, or taken by another collection.
                    dead = [path for path in dead if _is_old(path, cutoff)]
                    size = sum(path.stat().st_size for path in dead)
                    for path in dead:
                        path.unlink()
                freed += size
            removed += len(dead)
            kept += len(blobs) - len(dead)
        temporary_files = remove_stale(self.root, older_than=cutoff)
        with self._usage() as usage:
            usage.total = self._count()
            total = usage.total
        return GcReport(
            removed=removed, freed_bytes=freed, kept=kept, temporary_files=temporary_files, total_bytes=total
        )

    def _path(self, sha: str) -> Path:
        if not _NAME.fullmatch(sha):
            raise BlobMissing(sha)
        return self.root / sha[:2] / sha

    def _publish(self, file: io.BufferedRandom, sha: str) -> None:
        """Give a written temporary file its final name."""
        fsync_file(file)
        directory = self._fanout.directory(sha)
        path = directory / sha
        with self._usage() as usage:
            if path.exists():
                os.utime(path)
            else:
                needed = os.fstat(file.fileno()).st_size
                if self.quota_bytes is not None and usage.total + needed > self.quota_bytes:
                    raise QuotaExceeded(needed=needed, stored=usage.total, quota=self.quota_bytes)
                usage.total += needed
                Path(file.name).replace(path)
        fsync_directory(directory)

    def _count(self) -> int:
        return sum(path.stat().st_size for directory in self._fanout.existing() for path in directory.iterdir())

    @contextmanager
    def _usage(self) -> Iterator[_Usage]:
        """The store's lock and the count of stored bytes that it guards."""
        with typed_disk_full(self.root), locked(self.root / ".usage") as descriptor:
            yield _Usage(descriptor, self._count)


class _Usage:
    """The count in the lock file. A change is written through at once, so that it never lags behind a rename."""

    def __init__(self, descriptor: int, count: Callable[[], int]) -> None:
        self._descriptor = descriptor
        written = os.pread(descriptor, _USAGE_BYTES, 0)
        if len(written) == _USAGE_BYTES:
            self._total = int.from_bytes(written, "big")
        else:
            self.total = count()

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        os.pwrite(self._descriptor, value.to_bytes(_USAGE_BYTES, "big"), 0)
        self._total = value
