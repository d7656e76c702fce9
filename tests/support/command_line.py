"""Running the command line inside the test's process."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.main import run
from cli.output import Output
from sandbox.desks import close_desk, list_desks
from sandbox.image import ImageCache
from store import Home

__all__ = ["CommandLine", "Ran", "command_line_with_images"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output, which must be one JSON document."""
        return json.loads(self.out)


class CommandLine:
    """Runs `frontdesk` commands on a state directory of the test's own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("FRONTDESK_HOME", str(home))
        monkeypatch.delenv("FRONTDESK_CATALOG", raising=False)
        monkeypatch.setenv("COLUMNS", "200")

    def __call__(self, line: str) -> Ran:
        """Run one command line, without the leading `frontdesk`."""
        self._monkeypatch.setattr(sys, "argv", ["frontdesk", *shlex.split(line)])
        self._monkeypatch.setattr(Output, "current", None)
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = self._capsys.readouterr()
        return Ran(code=int(ended.value.code or 0), out=captured.out, err=captured.err)


@contextmanager
def command_line_with_images(
    images: ImageCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """A command line whose state directory sees the built images; at the end every desk in it is closed."""
    home = Home(tmp_path / "home")
    home.path.mkdir()
    home.images.symlink_to(images.root)
    try:
        yield CommandLine(home.path, monkeypatch, capsys)
    finally:
        for desk in list_desks(home):
            if desk.alive:
                close_desk(home, desk.name)
