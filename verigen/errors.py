"""What can go wrong with task bundles.

::

    VerigenError
    ├── BundleError   a bundle file is wrong (also a ValueError); the message names file and field
    └── AssetMissing  an asset that a bundle names is not there, or is not what its name says
"""

from __future__ import annotations

__all__ = ["AssetMissing", "BundleError", "VerigenError"]


class VerigenError(Exception):
    """Root of everything this package raises."""


class BundleError(VerigenError, ValueError):
    """A bundle cannot be read or written."""


class AssetMissing(VerigenError):
    """An asset cannot be had.

    Args:
        sha256: the asset's name.
        why: where it was looked for and what was found.
    """

    def __init__(self, sha256: str, why: str) -> None:
        super().__init__(f"asset {sha256[:12]}… cannot be used: {why}")
        self.sha256 = sha256
