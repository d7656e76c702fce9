"""Profile folders and finished images without a build."""

from __future__ import annotations

import time
from pathlib import Path

from sandbox.image import Image, ImageCache, Profile
from sandbox.image.manifest import image_digest, write_manifest


def write_profile(
    folder: Path,
    *,
    name: str = "tiny",
    packages: str = "hostname\n",
    bake: str = "",
    files: dict[str, str] | None = None,
) -> Path:
    """Make a profile folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "profile.toml").write_text(f'name = "{name}"\ndescription = "for tests"\nsuite = "bookworm"\n')
    (folder / "packages.txt").write_text(packages)
    if bake:
        (folder / "bake.sh").write_text(bake)
    for path, text in (files or {}).items():
        target = folder / "files" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


def make_image(cache: ImageCache, profile: Profile, *, versions: dict[str, str] | None = None) -> Image:
    """Put an image with an almost empty root into the cache, as a build would."""
    packages = versions if versions is not None else {"hostname:amd64": "3.23"}
    digest = image_digest(profile.definition_hash, packages)
    folder = cache.root / f"{profile.name}-{digest[:12]}"
    (folder / "root" / "etc").mkdir(parents=True)
    image = Image(
        profile=profile.name,
        digest=digest,
        root=folder / "root",
        definition_hash=profile.definition_hash,
        packages=packages,
        size_bytes=4096,
        created_at=time.time(),
    )
    write_manifest(folder, image)
    return image
