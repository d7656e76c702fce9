"""The same desktops from every backend: each test of this folder runs on all of them, unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox.backends.docker import DockerBackend
from sandbox.backends.local import LocalBackend
from sandbox.image import ImageCache
from tests.support.backends import DesktopBackend, cannot_run, missing_for_desktops


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put into the report what `frontdesk bench conformance` counts: the backend, and what is an attempt to escape."""
    for item in items:
        if Path(__file__).parent in item.path.parents and isinstance(item, pytest.Function):
            backend = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
            if backend is not None:
                kind = "escape" if item.get_closest_marker("escape") else "other"
                item.user_properties += [("backend", backend), ("kind", kind)]


@pytest.fixture(scope="session", params=["local", "docker"])
async def backend(
    request: pytest.FixtureRequest, images: ImageCache, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DesktopBackend]:
    """Each kind of backend in its turn."""
    missing = missing_for_desktops(images)
    if missing is not None:
        cannot_run(missing)
    run = tmp_path_factory.mktemp("run")
    made: DesktopBackend
    if request.param == "docker":
        made = DockerBackend(images, run, base_url=request.getfixturevalue("dockerd"))
    else:
        made = LocalBackend(images, run)
    try:
        yield made
    finally:
        await made.close()
