"""Images on disk: which there are, which serves a definition, and what can go.

::

    images_root/  light-0123456789ab/{root/, manifest.json}   an image; appears by rename, so complete or absent
                  .building-XXXX/                             a build under way, or what a killed one left
                  .downloads/                                 package files; they make a second build quick
                  .last-build.log                             what the last build printed
                  .lock                                       held by the one build under way
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.errors import ImageError
from sandbox.image.definition import Profile, load_profile
from sandbox.image.manifest import Image, read_image

__all__ = ["BUILDING", "DOWNLOADS", "ImageCache", "remove_tree"]

BUILDING = ".building-"
DOWNLOADS = ".downloads"
_POLL_S = 0.2

log = logging.getLogger(__name__)


class ImageCache:
    """The images below one folder.

    Args:
        root: the folder; made when first needed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._left_out: set[Path] = set()

    def list(self) -> tuple[Image, ...]:
        """Every sound image, newest first. Damaged ones are left out, and logged once."""
        found = []
        for folder in sorted(self.root.glob("[!.]*")) if self.root.is_dir() else []:
            try:
                found.append(read_image(folder))
            except ImageError as error:
                if folder not in self._left_out:
                    log.warning("image left out: %s. Delete the folder, or build the image again", error)
                self._left_out.add(folder)
        return tuple(sorted(found, key=lambda image: image.created_at, reverse=True))

    def find(self, profile: Profile) -> Image | None:
        """The newest image built from exactly this definition; one of an earlier definition is not taken."""
        wanted = profile.definition_hash
        return next((image for image in self.list() if image.definition_hash == wanted), None)

    def require(self, name: str) -> Image:
        """The image of the profile of this name, as it is defined now.

        Raises:
            ImageError: it is not built, or was built from another definition; the message says what to do.
        """
        profile = load_profile(name)
        image = self.find(profile)
        if image is None:
            why = "its definition changed since it was built" if self.outdated(profile) else "it has not been built"
            raise ImageError(
                f"the desktop image {name!r} is missing: {why}. Build it with `frontdesk image build {name}`"
            )
        return image

    def outdated(self, profile: Profile) -> tuple[Image, ...]:
        """Images of the profile's name whose definition has changed since."""
        wanted = profile.definition_hash
        found = self.list()
        return tuple(i for i in found if i.profile == profile.name and i.definition_hash != wanted)

    def folder(self, image: Image) -> Path:
        """Where the image lies, or will lie."""
        return self.root / f"{image.profile}-{image.digest[:12]}"

    def remove(self, image: Image) -> None:
        """Delete an image. The caller knows that no desktop runs on it."""
        folder = self.folder(image)
        if not folder.is_dir():
            raise ImageError(f"there is no image {folder.name} in {self.root}")
        # Renamed first, so that a half-deleted image is never found.
        doomed = self.root / f"{BUILDING}remove-{folder.name}-{os.getpid()}"
        folder.rename(doomed)
        remove_tree(doomed)

    def gc(self, *, downloads: bool = False) -> tuple[Path, ...]:
        """Delete what killed builds left, unless a build is under way.

        Args:
            downloads: also delete the kept package files.

        Returns:
            What was deleted.
        """
        if not self.root.is_dir():
            return ()
        with self._try_lock() as fd:
            if fd is None:
                return ()
            return self.sweep(downloads=downloads)

    def sweep(self, *, downloads: bool = False) -> tuple[Path, ...]:
        """`gc` for a caller that holds the lock."""
        doomed = sorted(self.root.glob(BUILDING + "*"))
        if downloads and (self.root / DOWNLOADS).is_dir():
            doomed.append(self.root / DOWNLOADS)
        for path in doomed:
            remove_tree(path)
        return tuple(doomed)

    @contextmanager
    def lock(self, *, on_wait: Callable[[], None]) -> Iterator[int]:
        """Hold the build lock; the kernel frees it when every process that inherited its descriptor is gone.

        Args:
            on_wait: called while another build holds it.

        Yields:
            The lock's file descriptor.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        while True:
            with self._try_lock() as fd:
                if fd is not None:
                    yield fd
                    return
            on_wait()
            time.sleep(_POLL_S)

    @contextmanager
    def _try_lock(self) -> Iterator[int | None]:
        fd = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield fd
        finally:
            os.close(fd)


def remove_tree(path: Path) -> None:
    """Delete a folder. Processes of a killed build may still write into it for a moment, so it tries again."""
    for _ in range(20):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_POLL_S)
    raise ImageError(f"cannot delete {path}; delete it by hand")
