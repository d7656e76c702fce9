"""Where the files of a bundle come from. An asset is named by the sha256 of its bytes, and every reader checks that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from store.blobs import BlobStore
from store.errors import BlobCorrupt, BlobMissing
from verigen.errors import AssetMissing

__all__ = ["Assets", "BlobAssets", "FolderAssets", "MemoryAssets"]


class Assets(Protocol):
    """Assets by name."""

    def get(self, sha256: str) -> bytes:
        """The asset's bytes.

        Raises:
            AssetMissing: they are not there, or are not those of this name.
        """
        ...


class FolderAssets:
    """The `assets` folder of a bundle on disk: one file per asset, named by its hash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, sha256: str) -> bytes:
        """See `Assets`."""
        path = self._folder / sha256
        try:
            data = path.read_bytes()
        except OSError as error:
            raise AssetMissing(sha256, f"{path}: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise AssetMissing(sha256, f"the bytes of {path} have another hash")
        return data


class BlobAssets:
    """Assets kept in the blob store."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def get(self, sha256: str) -> bytes:
        """See `Assets`."""
        try:
            return self._blobs.get(sha256)
        except (BlobMissing, BlobCorrupt) as error:
            raise AssetMissing(sha256, str(error)) from error


class MemoryAssets:
    """Assets held in memory, for bundles that were just made.

    Args:
        data: bytes of each asset; they are named by their own hash.
    """

    def __init__(self, *data: bytes) -> None:
        self._assets: Mapping[str, bytes] = {hashlib.sha256(asset).hexdigest(): asset for asset in data}

    def get(self, sha256: str) -> bytes:
        """See `Assets`."""
        if sha256 not in self._assets:
            raise AssetMissing(sha256, "it was not given")
        return self._assets[sha256]
