"""The command line on a state directory of the test's own, without a desktop or an image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def frontdesk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs `frontdesk` commands."""
    return CommandLine(tmp_path / "home", monkeypatch, capsys)
