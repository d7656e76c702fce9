"""Desktops for tests of any backend: one for those of a module that leave it as they found it, and one with little."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from tests.support.backends import DesktopBackend


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
