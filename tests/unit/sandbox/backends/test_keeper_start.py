"""A keeper that cannot start says why and leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends import local
from sandbox.backends.cgroups import Hierarchy
from sandbox.image import ImageCache

HOUSE = Path(__file__).resolve().parents[4]


def test_a_keeper_that_cannot_stage_the_probe_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "frontdesk-1-x"
    directory.mkdir()
    (directory / "code").write_text("in the way")
    argv = [sys.executable, "-I", "-S", "-c", local.KEEPER, str(directory), str(HOUSE)]
    ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert set(json.loads(ran.stdout)) == {"error"}
    assert not directory.exists()


@pytest.mark.parametrize("blocked", [False, True])
def test_a_keeper_whose_owner_is_gone_before_it_is_ready_leaves_nothing(blocked: bool, tmp_path: Path) -> None:
    directory = tmp_path / "frontdesk-1-x"
    directory.mkdir()
    if blocked:
        (directory / "code").write_text("in the way")
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-I", "-S", "-c", local.KEEPER, str(directory), str(HOUSE)]
    ran = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=30, check=False
    )
    os.close(writer)
    assert ran.stderr == ""
    assert not directory.exists()


@pytest.mark.parametrize(
    ("keeper", "why"),
    [
        ("""print('{"error": "[Errno 28] No space left on device"}')""", "No space left on device"),
        ("pass", "ended at once"),
    ],
)
async def test_its_backend_tells_why_and_leaves_nothing(
    keeper: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "KEEPER", keeper)
    monkeypatch.setattr(local, "find_hierarchy", lambda: Hierarchy)
    backend = local.LocalBackend(ImageCache(tmp_path / "images"), tmp_path / "run")
    with pytest.raises(errors.DesktopError, match=f"cannot hold desktops in .*{why}"):
        await backend._start_keeper()
    assert list((tmp_path / "run").iterdir()) == []
    await backend.close()
