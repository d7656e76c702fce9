"""The backends that make real desktops, as tests that serve for any of them see one."""

from __future__ import annotations

import os
import shutil
from typing import Protocol

import pytest

from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from sandbox.image import ImageCache, load_profile

__all__ = ["DesktopBackend", "cannot_run", "missing_for_desktops"]


class DesktopBackend(Protocol):
    """A backend whose desktops run on this machine."""

    name: str

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> OwnedDesktop: ...

    async def reap(self) -> list[str]: ...

    async def close(self) -> None: ...


def missing_for_desktops(images: ImageCache) -> str | None:
    """What this machine lacks to run desktops of the local backend."""
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("bwrap") is None:
        return "needs bubblewrap"
    if images.find(load_profile("light")) is None:
        return "needs the light image: frontdesk image build light"
    return None


def cannot_run(reason: str) -> None:
    """Skip the test for a reason; in CI it fails."""
    if os.environ.get("CI"):
        pytest.fail(f"desktop tests cannot run in CI: {reason}")
    pytest.skip(reason)
