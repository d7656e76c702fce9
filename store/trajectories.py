"""Trajectories on disk: a record is committed once its blobs, then its file, then its catalog row are durable.

::

    commit: blobs are there, made young -> record file (fsync, rename, fsync directory) -> row in the catalog
    crash:                               ^ nothing happened                             ^ `recover` adds the row

Guarantees: a row's record and blobs can be read back; committing the same trajectory again changes nothing; another
record under a used id is refused; a record that would not read back as itself is refused before anything is written.
An infra_error cannot be stored as a fail: the model refuses it, and the catalog's constraints refuse it again.

A record is JSON in a zstd frame, in a file named by its id; the row holds the sha256 of the JSON.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import zstandard
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json
from sqlmodel import col, select

from store.blobs import BlobStore
from store.catalog import Catalog
from store.durable import Fanout, fsync_directory, fsync_file, locked, remove_stale, temporary, typed_disk_full
from store.errors import (
    BlobsMissing,
    TrajectoryConflict,
    TrajectoryCorrupt,
    TrajectoryMissing,
    UnknownSchema,
    Unstorable,
)
from store.tables import EpisodeRow
from store.trajectory import SCHEMA_VERSION, Trajectory

__all__ = ["Recovery", "TrajectoryStore"]

_GONE = "Put a copy from a backup in its place; without one this attempt is lost, and the others are as they were"
_DAMAGED = (
    "Put a copy from a backup in its place, or move it away: this attempt is then lost, the others are as they were"
)
_SUFFIX = ".json.zst"
_MAX_NAME = 255 - len(_SUFFIX)
_TEMPORARY_AGE_S = 3600.0
"""No writer takes this long between making a temporary file and renaming it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """What `TrajectoryStore.recover` found."""

    added: tuple[str, ...]
    """Ids whose record had no row; they have one now."""
    lost: tuple[str, ...]
    """Ids whose row has no record file; a person must look (a deleted or unmounted directory)."""
    unreadable: tuple[str, ...]
    """What is wrong with each record that got no row because it cannot be read; it names the file."""
    temporary_files: int
    """Left-overs of crashed writers removed."""


class TrajectoryStore:
    """The committed trajectories.

    Args:
        root: directory of the record files, made if it is not there.
        blobs: where their screenshots and evidence are.
        catalog: where their rows go.
    """

    def __init__(self, root: Path, blobs: BlobStore, catalog: Catalog) -> None:
        self.root = root
        self._blobs = blobs
        self._catalog = catalog
        with typed_disk_full(root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fanout = Fanout(root)

    def commit(self, trajectory: Trajectory) -> EpisodeRow:
        """Make the trajectory durable: on return it, its blobs and its row survive any crash. Idempotent.

        Raises:
            Unstorable: it would not read back as itself; nothing was written.
            BlobsMissing: it refers to blobs that are not stored; nothing was written.
            TrajectoryConflict: another record has its id.
            DiskFull, CatalogError: what they say; commit again once there is room, or `recover`.
        """
        data = _to_json(trajectory)
        row = _row(trajectory, hashlib.sha256(data).hexdigest())
        missing = self._blobs.refresh(trajectory.blobs)
        if missing:
            raise BlobsMissing(trajectory.id, missing)
        self._write(trajectory.id, data)
        self._catalog.add_episode(row)
        return row

    def load(self, trajectory_id: str) -> Trajectory:
        """Read a committed trajectory.

        Raises:
            TrajectoryMissing: none of this id was committed.
            TrajectoryCorrupt: its record is gone or damaged.
            UnknownSchema: it was written in another schema version.
        """
        with self._catalog.session(read_only=True) as session:
            row = session.get(EpisodeRow, trajectory_id)
        if row is None:
            raise TrajectoryMissing(f"no trajectory {trajectory_id!r} was committed")
        path = self._path(row.id)
        data = _read(path)
        if hashlib.sha256(data).hexdigest() != row.record:
            raise TrajectoryCorrupt(
                f"{path} is not the record that the catalog names; it was changed after its commit. {_DAMAGED}"
            )
        return _from_json(data, path)

    def recover(self, ids: Collection[str] | None = None) -> Recovery:
        """Give a row to every record that a crash left without one, and remove temporary files.

        Safe while others commit. Run it when work starts again after a crash.

        Args:
            ids: the trajectories to look at; None looks at every one.
        """
        query = select(col(EpisodeRow.id))
        with self._catalog.session(read_only=True) as session:
            rows = set(session.exec(query if ids is None else query.where(col(EpisodeRow.id).in_(ids))))
        # Looked for after the rows, so that every row's record is there to be found.
        if ids is None:
            records = dict(self._records())
        else:
            records = {name: path for name in ids if (path := self._path(name)).exists()}
        added, unreadable = [], []
        for trajectory_id in sorted(records.keys() - rows):
            try:
                data = _read(records[trajectory_id])
                trajectory = _from_json(data, records[trajectory_id])
            except (TrajectoryCorrupt, UnknownSchema) as error:
                unreadable.append(str(error))
                continue
            if self._catalog.add_episode(_row(trajectory, hashlib.sha256(data).hexdigest())):
                added.append(trajectory_id)
        return Recovery(
            added=tuple(added),
            lost=tuple(sorted(rows - records.keys())),
            unreadable=tuple(unreadable),
            temporary_files=remove_stale(self.root, older_than=time.time() - _TEMPORARY_AGE_S),
        )

    def live_blobs(self) -> frozenset[str]:
        """The blobs that any record refers to, committed or waiting for `recover`: what `BlobStore.gc` must keep.

        Raises:
            TrajectoryCorrupt, UnknownSchema: a record cannot be read, so what it needs is not known.
        """
        return frozenset(name for _, path in self._records() for name in _from_json(_read(path), path).blobs)

    def _records(self) -> Iterator[tuple[str, Path]]:
        for directory in self._fanout.existing():
            for path in directory.iterdir():
                yield unquote(path.name.removesuffix(_SUFFIX)), path

    def _path(self, trajectory_id: str) -> Path:
        digest = hashlib.sha256(trajectory_id.encode()).hexdigest()
        return self.root / digest[:2] / f"{quote(trajectory_id, safe='')}{_SUFFIX}"

    def _write(self, trajectory_id: str, data: bytes) -> None:
        path = self._path(trajectory_id)
        directory = self._fanout.directory(path.parent.name)
        with temporary(self.root) as file:
            file.write(zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data))
            fsync_file(file)
            # Under the lock, because a rename would silently replace another writer's record of this id.
            with locked(self.root / ".lock"):
                if not path.exists():
                    Path(file.name).replace(path)
                elif _read(path) != data:
                    raise TrajectoryConflict(trajectory_id)
        fsync_directory(directory)


def _to_json(trajectory: Trajectory) -> bytes:
    if trajectory.schema_version != SCHEMA_VERSION:
        raise Unstorable(
            f"trajectory {trajectory.id!r} has schema version {trajectory.schema_version}; this Frontdesk writes "
            f"version {SCHEMA_VERSION}"
        )
    if not 0 < len(quote(trajectory.id, safe="", errors="replace")) <= _MAX_NAME:
        raise Unstorable(
            f"trajectory id {trajectory.id!r} must have 1 to {_MAX_NAME} characters (more count if quoted)"
        )
    try:
        data = trajectory.model_dump_json().encode()
        Trajectory.model_validate_json(data)
    except (PydanticSerializationError, ValidationError) as error:
        raise Unstorable(f"trajectory {trajectory.id!r} cannot be written as JSON and read back: {error}") from error
    return data


def _read(path: Path) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(path.read_bytes())
    except FileNotFoundError as error:
        raise TrajectoryCorrupt(f"{path} is gone, although the catalog has its row. {_GONE}") from error
    except zstandard.ZstdError as error:
        raise TrajectoryCorrupt(f"{path} is damaged: {error}. {_DAMAGED}") from error


def _from_json(data: bytes, path: Path) -> Trajectory:
    try:
        fields = from_json(data)
        version = fields.get("schema_version") if isinstance(fields, dict) else None
        if version != SCHEMA_VERSION:
            raise UnknownSchema(
                f"{path} has schema version {version}; this Frontdesk reads version {SCHEMA_VERSION}. "
                "Read it with the Frontdesk that wrote it"
            )
        return Trajectory.model_validate_json(data)
    except ValueError as error:
        raise TrajectoryCorrupt(f"{path} is not a trajectory: {error}. {_DAMAGED}") from error


def _row(trajectory: Trajectory, record: str) -> EpisodeRow:
    row = EpisodeRow(
        num_turns=len(trajectory.turns),
        record=record,
        **trajectory.model_dump(include=EpisodeRow.model_fields.keys() - {"num_turns", "record"}),
    )
    for name, value in row.model_dump().items():
        # Refused here, because a row that the database refuses would leave its record without one for ever.
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise Unstorable(f"trajectory {trajectory.id!r}: {name} {value} does not fit 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            raise Unstorable(f"trajectory {trajectory.id!r}: {name} is {value}")
        if isinstance(value, str) and "\0" in value:
            raise Unstorable(f"trajectory {trajectory.id!r}: {name} {value!r} contains a NUL character")
    return row
