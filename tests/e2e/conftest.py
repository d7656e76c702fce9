"""The command line on a state directory of the test's own, with the machine's built images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.backends.local import LocalBackend
from sandbox.image import ImageCache
from tests.support.command_line import CommandLine, command_line_with_images


@pytest.fixture
def frontdesk(
    backend: LocalBackend,
    images: ImageCache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[CommandLine]:
    """Runs `frontdesk` commands; every desk that a test leaves open is closed."""
    with command_line_with_images(images, tmp_path, monkeypatch, capsys) as made:
        yield made
