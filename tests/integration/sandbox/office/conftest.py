"""A desktop of the office image for the tests of a module. `make test-office` builds the image and runs them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sandbox.backends.local import LocalBackend
from sandbox.desktop import Desktop
from sandbox.errors import ImageError
from sandbox.image import ImageCache
from tests.support.backends import cannot_run
from tests.support.office import office_desktop


@pytest.fixture(scope="module")
async def office(images: ImageCache, backend: LocalBackend) -> AsyncIterator[Desktop]:
    try:
        images.require("office")
    except ImageError as error:
        cannot_run(str(error))
    async with office_desktop(backend) as desktop:
        yield desktop
