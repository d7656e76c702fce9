"""Fixtures that several tests share: a real backend, desktops and a hub on it, and a Docker daemon with the image.

Desktop tests need root, bubblewrap and the built light image. Where those are missing they are skipped with the reason,
except in CI, where a missing requirement is a failure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sandbox.backends.docker_engine import connect
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from sandbox.hub import Hub
from sandbox.image import ImageCache
from sandbox.image.docker import import_image
from store import Home
from tests.support.backends import cannot_run, missing_for_desktops
from tests.support.dockerd import CannotRun, run_dockerd

SMALL = DesktopSpec(width=800, height=600)
"""Enough for most tests, and cheap."""


@pytest.fixture(scope="session")
def images() -> ImageCache:
    """The machine's built images."""
    return ImageCache(Home.default().images)


@pytest.fixture(scope="session")
async def backend(images: ImageCache, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalBackend]:
    """One local backend for the whole run; every desktop it still has ends with it."""
    missing = missing_for_desktops(images)
    if missing is not None:
        cannot_run(missing)
    made = LocalBackend(images, tmp_path_factory.mktemp("run"))
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def desktop(backend: LocalBackend) -> AsyncIterator[LocalDesktop]:
    """A fresh small desktop."""
    booted = await backend.boot(SMALL)
    try:
        yield booted
    finally:
        await booted.close()


@pytest.fixture
async def hub(backend: LocalBackend) -> AsyncIterator[Hub]:
    """A hub of four desktops on the shared backend."""
    async with Hub(backend, capacity=4, close_backend=False) as made:
        yield made


@pytest.fixture
def runtime_dir(tmp_path: Path) -> Path:
    """A directory for a backend of the test's own."""
    return tmp_path / "run"


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
