"""One desktop for the tests of a module that leave it as they found it, and a Docker daemon that has the image."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from sandbox.backends.docker_engine import connect
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from sandbox.image import ImageCache
from sandbox.image.docker import import_image
from tests.support.backends import DesktopBackend, cannot_run, missing_for_desktops
from tests.support.dockerd import CannotRun, run_dockerd


@pytest.fixture(scope="module")
async def shared(backend: DesktopBackend) -> AsyncIterator[OwnedDesktop]:
    """A small desktop that lives as long as the module's tests."""
    booted = await backend.boot(DesktopSpec(width=800, height=600))
    try:
        yield booted
    finally:
        await booted.close()


@pytest.fixture
async def tight(backend: DesktopBackend) -> AsyncIterator[OwnedDesktop]:
    """A desktop with little of everything."""
    booted = await backend.boot(DesktopSpec(width=320, height=240, memory_mb=320, pids=64, disk_mb=96, cpus=0.5))
    try:
        yield booted
    finally:
        await booted.close()


@pytest.fixture(scope="session")
def dockerd(images: ImageCache) -> Iterator[str]:
    """The socket's URL of a daemon of the tests' own, which has the light image."""
    missing = missing_for_desktops(images)
    if missing is not None:
        cannot_run(missing)
    try:
        with run_dockerd() as url:
            engine = connect(url)
            try:
                assert import_image(engine, images, images.require("light"))
            finally:
                engine.close()
            yield url
    except CannotRun as error:
        cannot_run(f"no Docker daemon: {error}")
