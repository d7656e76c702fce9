"""Task bundles, their checks, the gates that admit them, and the episodes' view of them.

The names below are loaded when they are first used, so that who only needs the types does not pay for the catalog.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verigen.assets import Assets, BlobAssets, FolderAssets, MemoryAssets
    from verigen.bundle import Bundle, load_bundle, parse_bundle, save_bundle, shipped_bundles
    from verigen.checks import judge, verifier_id
    from verigen.errors import VerigenError
    from verigen.gates.bench import Progress
    from verigen.proof import GateResult, Proof, find_proof, store_bundle, store_proof
    from verigen.record import record_examples
    from verigen.runner import TaskRunner
    from verigen.task import Task
    from verigen.verify import verify, verify_static

__all__ = [
    "Assets",
    "BlobAssets",
    "Bundle",
    "FolderAssets",
    "GateResult",
    "MemoryAssets",
    "Progress",
    "Proof",
    "Task",
    "TaskRunner",
    "VerigenError",
    "find_proof",
    "judge",
    "load_bundle",
    "parse_bundle",
    "record_examples",
    "save_bundle",
    "shipped_bundles",
    "store_bundle",
    "store_proof",
    "verifier_id",
    "verify",
    "verify_static",
]

_HOMES = {
    "assets": ("Assets", "BlobAssets", "FolderAssets", "MemoryAssets"),
    "bundle": ("Bundle", "load_bundle", "parse_bundle", "save_bundle", "shipped_bundles"),
    "checks": ("judge", "verifier_id"),
    "errors": ("VerigenError",),
    "gates.bench": ("Progress",),
    "proof": ("GateResult", "Proof", "find_proof", "store_bundle", "store_proof"),
    "record": ("record_examples",),
    "runner": ("TaskRunner",),
    "task": ("Task",),
    "verify": ("verify", "verify_static"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'verigen' has no attribute {name!r}")
    return getattr(import_module(f"verigen.{_MODULES[name]}"), name)
