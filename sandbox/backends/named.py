"""The backends of this machine by name, for whoever lets a person choose."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sandbox.backends.docker import DockerBackend
from sandbox.backends.local import LocalBackend
from sandbox.image import Image, ImageCache

__all__ = ["BackendName", "make_backend"]

BackendName = Literal["local", "docker"]


def make_backend(
    name: BackendName, images: ImageCache, runtime_dir: Path, *, image: Image | None = None
) -> LocalBackend | DockerBackend:
    """The backend of a name; nothing is started before its first boot.

    Args:
        image: boot desktops of its profile from exactly this one, whatever the definition is by now.
    """
    kind = DockerBackend if name == "docker" else LocalBackend
    return kind(images, runtime_dir, image=image)
