"""What a local backend is before its first desktop: its image, and a start of its keeper given up in the middle."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends import local
from sandbox.backends.cgroups import Hierarchy
from sandbox.image import ImageCache, load_profile
from tests.support.images import make_image

HANGS = "import os, sys, time; open(sys.argv[1] + '/pid', 'w').write(str(os.getpid())); time.sleep(600)"
STARTS = """print('{"ready": true}', flush=True); import sys; sys.stdin.read()"""


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> local.LocalBackend:
    """A backend whose keeper hangs before it is ready."""
    monkeypatch.setattr(local, "KEEPER", HANGS)
    monkeypatch.setattr(local, "find_hierarchy", lambda: Hierarchy)
    return local.LocalBackend(ImageCache(tmp_path / "images"), tmp_path / "run")


async def started(run: Path) -> int:
    """The keeper's process, once it runs."""
    async with asyncio.timeout(30):
        while not (pids := [path.read_text() for path in run.glob("*/pid")]) or not pids[0]:
            await asyncio.sleep(0.01)
    return int(pids[0])


async def test_a_boot_that_is_given_up_while_the_keeper_starts_leaves_a_backend_that_works(
    backend: local.LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asyncio.create_task(backend._start_keeper())
    pid = await started(tmp_path / "run")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    monkeypatch.setattr(local, "KEEPER", STARTS)
    keeper = await backend._start_keeper()
    assert backend._reader is not None
    await backend.close()
    assert keeper.returncode == 0


async def test_a_keeper_that_hangs_at_its_start_is_given_up(
    backend: local.LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "START_TIMEOUT_S", 0.2)
    with pytest.raises(errors.DesktopError, match="not ready within"):
        await backend._start_keeper()
    assert list((tmp_path / "run").iterdir()) == []
    await backend.close()


async def test_a_keeper_that_says_no_more_counts_as_ended_before_its_exit_code_is_known(
    backend: local.LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "KEEPER", STARTS.replace("import sys;", "import os, sys; os.close(1);"))
    keeper = await backend._start_keeper()
    assert backend._reader is not None
    async with asyncio.timeout(30):
        await backend._reader
    assert keeper.returncode is None
    with pytest.raises(errors.DesktopError, match="keeper of this backend has ended"):
        await backend._start_keeper()
    await backend.close()


def test_a_backend_of_one_image_boots_it_whatever_the_definition_is_by_now(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path / "images")
    light = load_profile("light")
    old, new = make_image(cache, light, versions={"zip:amd64": "1"}), make_image(cache, light)
    assert local.LocalBackend(cache, tmp_path / "run").image("light").digest == new.digest
    assert local.LocalBackend(cache, tmp_path / "run", image=old).image("light") is old
