"""The command line on a state directory of the test's own, with the machine's built images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.backends.local import LocalBackend
from sandbox.desks import close_desk, list_desks
from sandbox.image import ImageCache
from store import Home
from tests.support.command_line import CommandLine


@pytest.fixture
def frontdesk(
    backend: LocalBackend,
    images: ImageCache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[CommandLine]:
    """Runs `frontdesk` commands; every desk that a test leaves open is closed."""
    tmp_path.chmod(0o755)
    home = Home(tmp_path / "home")
    home.path.mkdir()
    home.images.symlink_to(images.root)
    yield CommandLine(home.path, monkeypatch, capsys)
    for desk in list_desks(home):
        if desk.alive:
            close_desk(home, desk.name)
