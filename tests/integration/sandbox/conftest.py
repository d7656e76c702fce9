"""One desktop for the tests of a module that leave it as they found it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec


@pytest.fixture(scope="module")
async def shared(backend: LocalBackend) -> AsyncIterator[LocalDesktop]:
    """A small desktop that lives as long as the module's tests."""
    booted = await backend.boot(DesktopSpec(width=800, height=600))
    try:
        yield booted
    finally:
        await booted.close()
