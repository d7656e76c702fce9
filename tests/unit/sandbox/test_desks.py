from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox import errors
from sandbox.desk_holder import _describe, _until_over
from sandbox.desks import (
    Desk,
    _rebuild,
    close_desk,
    connect_desk,
    desk_file,
    find_desk,
    list_desks,
    open_desk,
    process_start,
    require_free,
    screenshot_file,
    write_desk,
)
from sandbox.desktop import DesktopSpec, Health
from sandbox.errors import BadRequest, DesktopLost, ImageError, MissingRequirement, ProbeLost, SandboxError
from store import Home
from tests.support.desktop import FakeDesktop


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path).ensure()
    (made.run / "desks").mkdir()
    return made


def make_desk(name: str = "desk", *, pid: int | None = None, **changes: Any) -> Desk:
    """A desk held by this process, unless told otherwise."""
    pid = os.getpid() if pid is None else pid
    start = process_start(pid)
    return Desk(
        name=name,
        spec=DesktopSpec(),
        backend="local",
        image_digest="d",
        desktop_id="x",
        socket=Path("/nowhere/probe.sock"),
        token="secret-token",
        epoch=1,
        holder_pid=pid,
        holder_start=-1 if start is None else start,
        opened_at=time.time(),
        idle_s=3600,
        **changes,
    )


def keep(home: Home, desk: Desk) -> Path:
    path = desk_file(home, desk.name)
    write_desk(path, desk)
    return path


def children() -> set[str]:
    """The ids of this process's children, those that have ended and wait included."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def dead_pid() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_a_desk_is_found_with_its_token_for_its_owners_eyes_only(home: Home) -> None:
    path = keep(home, make_desk())
    assert find_desk(home) == make_desk().model_copy(update={"opened_at": find_desk(home).opened_at})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret-token" not in repr(find_desk(home))
    assert list(path.parent.glob("*.tmp")) == []


async def test_connecting_keeps_a_desk_from_being_idle(home: Home) -> None:
    path = keep(home, make_desk())
    os.utime(path, (1, 1))
    desktop = connect_desk(home)
    assert time.time() - path.stat().st_mtime < 60
    assert (desktop.id, desktop.address.token, str(desktop.address.socket)) == (
        "x",
        "secret-token",
        "/nowhere/probe.sock",
    )
    await desktop.close()


def test_what_is_not_open_says_what_is_and_how_to_open_it(home: Home) -> None:
    with pytest.raises(BadRequest, match=r"desk 'desk' is not open \(none is\)\. To open it: frontdesk desk open$"):
        find_desk(home)
    keep(home, make_desk("other"))
    with pytest.raises(BadRequest, match=r"\(open are: other\)\. To open it: frontdesk desk open --name big$"):
        find_desk(home, "big")


def test_a_killed_holder_is_told_once_and_leaves_no_file(home: Home) -> None:
    pid = dead_pid()
    path = keep(home, make_desk(pid=pid))
    for suffix in (".log", ".png"):
        path.with_suffix(suffix).write_bytes(b"x")
    with pytest.raises(DesktopLost, match=rf"its holder \(process {pid}\) was killed\. Nothing is left of it"):
        find_desk(home)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(BadRequest, match="is not open"):
        find_desk(home)


def test_a_reused_process_id_is_not_taken_for_the_holder(home: Home) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        keep(home, make_desk(pid=stranger.pid).model_copy(update={"holder_start": 1}))
        try:
            with pytest.raises(DesktopLost, match="was killed"):
                close_desk(home)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_the_reason_that_a_holder_left_is_told(home: Home) -> None:
    keep(home, make_desk(ended="nobody used it for 60 minutes"))
    (told,) = list_desks(home)
    assert (told.alive, told.why_ended) == (False, "nobody used it for 60 minutes")
    assert list_desks(home) == []


def test_the_list_shows_every_open_desk(home: Home) -> None:
    keep(home, make_desk("b"))
    keep(home, make_desk("a"))
    assert [(desk.name, desk.alive) for desk in list_desks(home)] == [("a", True), ("b", True)]
    assert [desk.name for desk in list_desks(home)] == ["a", "b"]


def test_a_home_without_desks_has_none(tmp_path: Path) -> None:
    assert list_desks(Home(tmp_path / "absent")) == []


@pytest.mark.parametrize("name", ["", "A", "-a", "a/b", "..", "a" * 32, "a b", "a.json"])
def test_a_name_must_be_one(home: Home, name: str) -> None:
    with pytest.raises(BadRequest, match="is no desk's name"):
        require_free(home, name)


def test_a_name_in_use_is_refused_and_a_dead_ones_is_free(home: Home) -> None:
    keep(home, make_desk())
    with pytest.raises(BadRequest, match="is open already"):
        require_free(home, "desk")
    keep(home, make_desk(pid=dead_pid()))
    require_free(home, "desk")


def test_a_damaged_file_is_named(home: Home) -> None:
    desk_file(home, "desk").write_text("{")
    with pytest.raises(SandboxError, match=r"desk\.json is damaged; remove it"):
        find_desk(home)


def test_closing_waits_for_the_holder_and_kills_one_that_stays(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.desks.CLOSE_TIMEOUT_S", 0.3)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    for code in ("import time; print(flush=True); time.sleep(60)", deaf):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            keep(home, make_desk(pid=holder.pid))
            close_desk(home)
            assert holder.wait(timeout=10) < 0
        assert list((home.run / "desks").iterdir()) == []


def test_a_start_that_fails_says_why_and_leaves_nothing(home: Home) -> None:
    with pytest.raises(ImageError, match="frontdesk image build light"):
        open_desk(home)
    assert list(home.run.glob("*/*.json")) == []
    assert not list(home.run.glob("frontdesk-*"))
    assert not desk_file(home, "desk").exists()


def test_the_holder_is_not_a_child_that_somebody_must_reap(home: Home) -> None:
    before = children()
    with pytest.raises(ImageError):
        open_desk(home)
    assert children() == before


@pytest.mark.parametrize(
    "error",
    [
        MissingRequirement("no bubblewrap", fix="apt-get install bubblewrap"),
        ImageError("no image"),
        BadRequest("no sense"),
        errors.BootFailed("no start", state={"oom_kills": "1"}),
        ProbeLost("no answer", phase="infra"),
    ],
)
def test_an_error_arrives_as_it_left(error: SandboxError) -> None:
    arrived = _rebuild(_describe(error))
    assert type(arrived) is type(error)
    assert _describe(arrived) == _describe(error)


async def over(path: Path, desktop: FakeDesktop, *, idle_s: float = 3600.0, stop: asyncio.Event | None = None) -> Any:
    """How holding ends, with a bound on the test."""
    async with asyncio.timeout(20):
        return await _until_over(stop or asyncio.Event(), desktop, path, idle_s)  # type: ignore[arg-type]


async def test_a_desk_ends_by_idleness_removal_death_or_a_signal(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep(home, make_desk())
    os.utime(path, (1, 1))
    assert await over(path, FakeDesktop()) == "nobody used it for 60 minutes"
    os.utime(path)
    stop = asyncio.Event()
    stop.set()
    assert await over(path, FakeDesktop(), stop=stop) is None

    dying = FakeDesktop()
    dying.fail("health", DesktopLost("the X server ended"))
    assert await over(path, dying) == "the X server ended"

    class Dead(FakeDesktop):
        async def health(self) -> Health:
            return Health(alive=False, detail={"x_server": "gone"})

    assert await over(path, Dead()) == "its desktop died (x_server: gone)"
    path.unlink()
    assert await over(path, FakeDesktop()) is None


def test_a_screenshot_lies_beside_the_desks_file(home: Home) -> None:
    assert screenshot_file(home, "big") == home.run / "desks" / "big.png"


def test_no_process_has_the_start_time_of_none() -> None:
    assert process_start(dead_pid()) is None
    assert process_start(os.getpid()) == process_start(os.getpid()) is not None
