"""What can go wrong with what is kept, typed by where it went wrong.

::

    StoreError
    ├── HomeError            the state directory cannot be used (also a ValueError)
    ├── DiskFull             no room left; nothing half written was published
    ├── StoreBusy            another process holds a lock for longer than we wait
    ├── BlobError
    │   ├── BlobMissing        no blob of this name
    │   ├── BlobCorrupt        the stored bytes are not those of the name
    │   └── QuotaExceeded      the blob would not fit the store's quota
    ├── CatalogError         the database refused, is unreachable or is busy; `__cause__` is its own error
    │   ├── SchemaTooNew       a newer Frontdesk made this catalog
    │   ├── NotFound           no such row (also a ValueError)
    │   ├── Ambiguous          a prefix or name that fits several rows (also a ValueError)
    │   └── ConstraintViolated the row breaks one of the catalog's constraints
    └── TrajectoryError
        ├── BlobsMissing       the record refers to blobs that are not stored
        ├── TrajectoryConflict another record has this id
        ├── TrajectoryMissing  no trajectory of this id was committed
        ├── TrajectoryCorrupt  the record is gone, or not what the catalog says
        ├── Unstorable         the record would not read back as itself
        └── UnknownSchema      a record of another schema version
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

__all__ = [
    "Ambiguous",
    "BlobCorrupt",
    "BlobError",
    "BlobMissing",
    "BlobsMissing",
    "CatalogError",
    "ConstraintViolated",
    "DiskFull",
    "HomeError",
    "NotFound",
    "QuotaExceeded",
    "SchemaTooNew",
    "StoreBusy",
    "StoreError",
    "TrajectoryConflict",
    "TrajectoryCorrupt",
    "TrajectoryError",
    "TrajectoryMissing",
    "UnknownSchema",
    "Unstorable",
]


class StoreError(Exception):
    """Root of everything this package raises."""


class HomeError(StoreError, ValueError):
    """The state directory cannot be made or written."""


class DiskFull(StoreError):
    """The file system has no room left, or a file size limit was met."""

    def __init__(self, directory: Path, cause: OSError) -> None:
        super().__init__(
            f"no room left under {directory} ({cause.strerror}). Free space with `frontdesk gc`, or set FRONTDESK_HOME "
            "to a directory on a larger disk"
        )
        self.directory = directory


class StoreBusy(StoreError):
    """A lock was not free in time."""


class BlobError(StoreError):
    """Something about one blob."""


class BlobMissing(BlobError):
    """There is no blob of this name."""

    def __init__(self, sha: str) -> None:
        super().__init__(f"no blob {sha!r} is stored")
        self.sha = sha


class BlobCorrupt(BlobError):
    """The stored bytes do not hash to the blob's name."""

    def __init__(self, sha: str, path: Path, why: str) -> None:
        super().__init__(f"blob {sha} is damaged ({why}); remove {path} and put the content again")
        self.sha = sha
        self.path = path


class QuotaExceeded(BlobError):
    """The blob does not fit into the store's quota; it was not stored."""

    def __init__(self, *, needed: int, stored: int, quota: int) -> None:
        super().__init__(
            f"the blob store holds {stored:,} of {quota:,} bytes and this blob needs {needed:,} more. "
            "Remove what nothing refers to with `frontdesk gc`, or open the store with a larger quota_bytes"
        )
        self.needed = needed
        self.stored = stored
        self.quota = quota


class CatalogError(StoreError):
    """The catalog's database refused, is unreachable or is busy."""


class SchemaTooNew(CatalogError):
    """The catalog's schema is of a revision that this Frontdesk does not know."""


class NotFound(CatalogError, ValueError):
    """No row answers to this id, prefix or name."""


class Ambiguous(CatalogError, ValueError):
    """Several rows answer to this prefix or name."""

    def __init__(self, ref: str, ids: Sequence[str], *, what: str) -> None:
        super().__init__(f"{ref!r} fits more than one {what}: {', '.join(ids)}. Give more of the id")
        self.ids = tuple(ids)


class ConstraintViolated(CatalogError):
    """The row breaks a constraint; nothing was written."""


class TrajectoryError(StoreError):
    """Something about one trajectory."""


class BlobsMissing(TrajectoryError):
    """The record refers to blobs that are not stored; it was not committed."""

    def __init__(self, trajectory_id: str, missing: Collection[str]) -> None:
        names = sorted(missing)
        super().__init__(
            f"trajectory {trajectory_id!r} refers to {len(names)} blob(s) that are not stored: {', '.join(names)}. "
            "Put its screenshots and evidence into the blob store before committing it"
        )
        self.missing = tuple(names)


class TrajectoryConflict(TrajectoryError):
    """Another record was committed under this id."""

    def __init__(self, trajectory_id: str) -> None:
        super().__init__(
            f"another trajectory is stored under the id {trajectory_id!r}; a new attempt needs an id of its own"
        )


class TrajectoryMissing(TrajectoryError, ValueError):
    """No trajectory of this id was committed."""


class TrajectoryCorrupt(TrajectoryError):
    """The record's file is gone, damaged, or not the one that the catalog names."""


class Unstorable(TrajectoryError, ValueError):
    """The record would not read back as itself."""


class UnknownSchema(TrajectoryError):
    """The record was written in a schema version that this Frontdesk does not read."""
