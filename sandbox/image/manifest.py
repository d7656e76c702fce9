"""What an image says about itself, and how that is written and checked."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox.errors import ImageError

__all__ = ["MANIFEST", "Image", "image_digest", "read_image", "write_manifest"]

MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A root filesystem on disk. Desktops mount it read-only under an overlay."""

    profile: str
    """Name of the profile it was built from."""
    digest: str
    """sha256 over `definition_hash` and `packages`, hex: names the exact content."""
    root: Path
    """The root filesystem."""
    definition_hash: str
    """Hash of the definition it was built from."""
    packages: dict[str, str]
    """Version of every package in it, by `name:architecture`."""
    size_bytes: int
    """Disk that the root takes."""
    created_at: float
    """Seconds since the epoch."""


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    profile: str
    digest: str
    definition_hash: str
    packages: dict[str, str]
    size_bytes: int
    created_at: float


def image_digest(definition_hash: str, packages: dict[str, str]) -> str:
    """The digest of an image with this definition and these package versions."""
    parts = {"definition": definition_hash, "packages": sorted(packages.items())}
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def write_manifest(folder: Path, image: Image) -> None:
    """Write the manifest of the image in `folder`, through to the disk."""
    manifest = _Manifest(
        profile=image.profile,
        digest=image.digest,
        definition_hash=image.definition_hash,
        packages=dict(sorted(image.packages.items())),
        size_bytes=image.size_bytes,
        created_at=image.created_at,
    )
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_image(folder: Path) -> Image:
    """The image in `folder`.

    Raises:
        ImageError: it has no root, or its manifest is missing, damaged, or does not match its own digest.
    """
    try:
        manifest = _Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise ImageError(f"{folder} has no readable manifest: {error.strerror}") from error
    except ValidationError as error:
        raise ImageError(f"{folder / MANIFEST} is damaged: {error.errors()[0]['msg']}") from error
    if manifest.digest != image_digest(manifest.definition_hash, manifest.packages):
        raise ImageError(f"{folder / MANIFEST} does not match its digest: it was edited or damaged")
    if not (folder / "root").is_dir():
        raise ImageError(f"{folder} has no root filesystem")
    return Image(
        profile=manifest.profile,
        digest=manifest.digest,
        root=folder / "root",
        definition_hash=manifest.definition_hash,
        packages=manifest.packages,
        size_bytes=manifest.size_bytes,
        created_at=manifest.created_at,
    )
