"""What is kept: blobs by hash, the catalog's tables, trajectories. Imports nothing of ours.

The names below are loaded when they are first used, so that a process that only needs one of them (the record type, the
state directory) does not pay for the database layers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store.blobs import BlobStore, GcReport
    from store.catalog import Catalog, OutcomeCount, ProofKey
    from store.errors import StoreError
    from store.home import Home
    from store.tables import BundleRow, EpisodeRow, ProofRow, RunRow, SamplerEventRow, SamplerStateRow
    from store.trajectories import Recovery, TrajectoryStore
    from store.trajectory import Trajectory

__all__ = [
    "BlobStore",
    "BundleRow",
    "Catalog",
    "EpisodeRow",
    "GcReport",
    "Home",
    "OutcomeCount",
    "ProofKey",
    "ProofRow",
    "Recovery",
    "RunRow",
    "SamplerEventRow",
    "SamplerStateRow",
    "StoreError",
    "Trajectory",
    "TrajectoryStore",
]

_HOMES = {
    "blobs": ("BlobStore", "GcReport"),
    "catalog": ("Catalog", "OutcomeCount", "ProofKey"),
    "errors": ("StoreError",),
    "home": ("Home",),
    "tables": ("BundleRow", "EpisodeRow", "ProofRow", "RunRow", "SamplerEventRow", "SamplerStateRow"),
    "trajectories": ("Recovery", "TrajectoryStore"),
    "trajectory": ("Trajectory",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'store' has no attribute {name!r}")
    return getattr(import_module(f"store.{_MODULES[name]}"), name)
