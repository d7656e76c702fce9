"""Gives a built image to the Docker daemon: the same files, owners and modes, under a name that is their digest."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator

from sandbox.backends.docker_engine import Engine, EngineError
from sandbox.errors import ImageError
from sandbox.image.cache import ImageCache
from sandbox.image.manifest import Image

__all__ = ["docker_image", "import_image", "require_imported"]

REPOSITORY = "frontdesk-desktop"
CHUNK = 1 << 20


def docker_image(image: Image) -> str:
    """What the daemon calls it."""
    return f"{REPOSITORY}:{image.digest}"


def require_imported(engine: Engine, image: Image, profile: str) -> None:
    """Check that the daemon has an image.

    Args:
        profile: how a person names it: a profile's name or folder.

    Raises:
        ImageError: it has not; the message says how to import it.
    """
    if not engine.has_image(docker_image(image)):
        raise ImageError(
            f"docker does not have the desktop image {image.profile!r}. Import it with "
            f"`frontdesk image build {profile} --backend docker`"
        )


def import_image(
    engine: Engine, images: ImageCache, image: Image, *, progress: Callable[[int], None] | None = None
) -> bool:
    """Import an image, unless the daemon has it; say whether it was new to it. Imported whole or not at all.

    Args:
        images: where it lies; one import or build at a time.
        progress: called with the bytes sent so far.

    Raises:
        ImageError: it could not be read, or the daemon refused it.
    """
    report = progress if progress is not None else _ignore
    with images.lock(on_wait=lambda: None):
        try:
            if engine.has_image(docker_image(image)):
                return False
            engine.import_image(REPOSITORY, image.digest, _tar(image, report))
        except EngineError as error:
            raise ImageError(f"importing {image.profile} into docker failed: {error}") from error
    return True


def _ignore(sent: int) -> None:
    pass


def _tar(image: Image, report: Callable[[int], None]) -> Iterator[bytes]:
    """The root as a tar stream.

    Raises:
        ImageError: it could not be read; whoever was sent the beginning must not use it.
    """
    argv = ["tar", "--create", "--one-file-system", "--numeric-owner", f"--directory={image.root}", "."]
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as process:
            assert process.stdout is not None
            sent = 0
            try:
                while block := process.stdout.read(CHUNK):
                    yield block
                    sent += len(block)
                    report(sent)
            finally:
                process.stdout.close()
        if process.returncode != 0:
            said.seek(0)
            raise ImageError(f"cannot read the image: {said.read().decode(errors='replace').strip()[-300:]}")
