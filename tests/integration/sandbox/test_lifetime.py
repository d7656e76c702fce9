"""How desktops begin and end: many at once, anywhere, and nothing is left behind however their owner ends."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from sandbox.image import Image, ImageCache, Profile
from tests.support.live import sh, wait_for

pytestmark = pytest.mark.desktop

TINY = DesktopSpec(width=200, height=150)


@dataclass(frozen=True, kw_only=True)
class Traces:
    """What desktops of one runtime directory leave on the host."""

    processes: list[str]
    groups: list[str]
    mounts: list[str]
    files: list[str]
    sockets: int

    @property
    def none(self) -> bool:
        return not (self.processes or self.groups or self.mounts or self.files or self.sockets)


def traces(runtime_dir: Path, names: set[str]) -> Traces:
    """Look for everything that belongs to the backends that were seen (`names`) in a runtime directory."""
    processes, sockets = [], 0
    inodes = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines() if "@frontdesk-uids-" in line}
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name == str(os.getpid()):
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            group = (entry / "cgroup").read_text()
            mounts = (entry / "mountinfo").read_text()
            links = [str(link.readlink()) for link in (entry / "fd").iterdir()]
        except OSError:
            continue
        if str(runtime_dir) in command + mounts or any(name in group for name in names):
            processes.append(command)
            sockets += sum(link.removeprefix("socket:[").rstrip("]") in inodes for link in links)
    groups = [path for path in _group_directories() if any(name in path for name in names)]
    own_mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(runtime_dir) in line]
    files = [str(path) for path in runtime_dir.rglob("*")] if runtime_dir.exists() else []
    return Traces(processes=processes, groups=groups, mounts=own_mounts, files=files, sockets=sockets)


def _command(path: Path) -> str:
    """A process's command line; none if it has ended meanwhile."""
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _group_directories() -> Iterator[str]:
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{folder}/{name}" for name in names if "frontdesk" in name)


def until_none(look: Callable[[], Traces], timeout_s: float = 15.0) -> Traces:
    """Wait until nothing is left; the last look."""
    until = time.monotonic() + timeout_s
    while not (found := look()).none and time.monotonic() < until:
        time.sleep(0.05)
    return found


def backend_names(runtime_dir: Path) -> set[str]:
    return {path.name for path in runtime_dir.glob("frontdesk-*")}


async def test_nothing_is_left_after_close(images: ImageCache, runtime_dir: Path, backend: LocalBackend) -> None:
    own = LocalBackend(images, runtime_dir)
    desktop = await own.boot(TINY)
    await desktop.spawn(["bash", "-c", "trap '' TERM INT HUP; setsid sleep 600 & sleep 600"])
    names = backend_names(runtime_dir)
    before = traces(runtime_dir, names)
    # Everything that is looked for is found while the desktop lives.
    assert any("Xvfb" in command for command in before.processes)
    assert before.groups
    assert before.files
    assert before.sockets
    await desktop.close()
    assert not any("Xvfb" in command or "sleep" in command for command in traces(runtime_dir, names).processes)
    assert traces(runtime_dir, names).groups == []
    await desktop.close()
    await own.close()
    await own.close()
    assert until_none(lambda: traces(runtime_dir, names)).none
    with pytest.raises(errors.DesktopError, match="closed"):
        await own.boot(TINY)


async def test_every_process_of_a_desktop_is_reaped(images: ImageCache, runtime_dir: Path) -> None:
    become_reaper = 36  # PR_SET_CHILD_SUBREAPER: what the keeper leaves unreaped falls to this process, which does not
    libc = ctypes.CDLL(None)
    own = LocalBackend(images, runtime_dir)
    libc.prctl(become_reaper, 1, 0, 0, 0)
    try:
        desktop = await own.boot(TINY)
        await desktop.spawn(["bash", "-c", "setsid sleep 600 & sleep 600"])
        pids = sorted(desktop.cgroup.processes())
        await desktop.close()
        await wait_for("the keeper to have reaped all", lambda: asyncio.to_thread(lambda: not _alive(pids)))
    finally:
        libc.prctl(become_reaper, 0, 0, 0, 0)
        await own.close()


class Owner:
    """A process that owns a backend with two desktops. Killed at the latest when its `with` ends."""

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def __init__(self, runtime_dir: Path, end: str) -> None:
        command = [sys.executable, "-m", "tests.support.backend_process", str(runtime_dir), end]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            pytest.fail(self.process.stderr.read().decode())
        told = json.loads(line)
        self.pids: list[int] = told["pids"]
        self.groups: list[str] = told["groups"]
        self.ids: list[str] = told["ids"]

    def end(self) -> int:
        _, problem = self.process.communicate(timeout=30)
        assert b"Traceback" not in problem or b"KeyboardInterrupt" in problem, problem.decode()
        return self.process.returncode


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("end", ["close", "forget", "interrupt", "terminate", "kill"])
def test_nothing_is_left_however_the_owner_ends(images: ImageCache, runtime_dir: Path, end: str) -> None:
    with Owner(runtime_dir, end if end in ("close", "forget") else "wait") as owner:
        names = backend_names(runtime_dir) | {Path(group).name for group in owner.groups}
        if end not in ("close", "forget"):
            assert len(_alive(owner.pids)) == len(owner.pids)
            assert all(Path(group).exists() for group in owner.groups)
            if end == "interrupt":  # as Ctrl-C does: the whole group, twice
                os.killpg(owner.process.pid, signal.SIGINT)
                time.sleep(0.05)
                os.killpg(owner.process.pid, signal.SIGINT)
            else:
                owner.process.send_signal(signal.SIGTERM if end == "terminate" else signal.SIGKILL)
        owner.end()
        left = until_none(lambda: traces(runtime_dir, names))
        assert left.none, left
        assert _alive(owner.pids) == []


def test_control_c_reaches_no_desktop(images: ImageCache, runtime_dir: Path) -> None:
    with Owner(runtime_dir, "deaf") as owner:
        os.killpg(owner.process.pid, signal.SIGINT)
        time.sleep(0.3)
        assert len(_alive(owner.pids)) == len(owner.pids)
        owner.process.kill()
        owner.end()
        names = backend_names(runtime_dir) | {Path(group).name for group in owner.groups}
        assert until_none(lambda: traces(runtime_dir, names)).none


async def test_what_a_killed_keeper_leaves_is_reaped(images: ImageCache, runtime_dir: Path) -> None:
    with Owner(runtime_dir, "wait") as owner:
        names = backend_names(runtime_dir) | {Path(group).name for group in owner.groups}
        keeper = next(
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if "backends.keeper" in (command := _command(path)) and str(runtime_dir) in command
        )
        other = LocalBackend(images, runtime_dir)
        try:
            assert await other.reap() == []  # its keeper lives
            assert len(_alive(owner.pids)) == len(owner.pids)
            os.kill(keeper, signal.SIGKILL)
            owner.process.kill()
            owner.end()
            until = time.monotonic() + 10
            while _alive(owner.pids) and time.monotonic() < until:
                await asyncio.sleep(0.05)
            assert _alive(owner.pids) == []  # even before anybody reaps
            assert traces(runtime_dir, names).groups
            assert sorted(await other.reap()) == sorted(owner.ids)
            assert await other.reap() == []
        finally:
            await other.close()
        left = until_none(lambda: traces(runtime_dir, names))
        assert left.none, left


async def test_eight_desktops_at_once_each_answer(images: ImageCache, runtime_dir: Path) -> None:
    backend = LocalBackend(images, runtime_dir)
    try:
        desktops = await asyncio.gather(*(backend.boot(TINY) for _ in range(8)))
        said = await asyncio.gather(*(sh(desktop, "id -u; hostname") for desktop in desktops))
        assert len(set(said)) == 8
        looks = await asyncio.gather(*(desktop.observe(["frame", "windows", "a11y"]) for desktop in desktops))
        assert len({look.frame.sha256 for look in looks if look.frame}) == 1  # two of one kind start alike
        await desktops[3].close()
        assert (await desktops[4].health()).alive
        assert not (await desktops[3].health()).alive
    finally:
        await backend.close()


async def test_two_backends_hand_out_different_uids(images: ImageCache, tmp_path: Path) -> None:
    first, second = (LocalBackend(images, tmp_path / name) for name in ("a", "b"))
    try:
        desktops: list[LocalDesktop] = []
        for backend in (first, second, first, second):
            desktops.append(await backend.boot(TINY))
        uids = {await sh(desktop, "id -u") for desktop in desktops}
        assert len(uids) == 4
        ids = {desktop.id for desktop in desktops}
        assert len(ids) == 4
    finally:
        await asyncio.gather(first.close(), second.close())


@pytest.mark.parametrize("folder", ["/".join(["long" * 50] * 4), "odd, name: with=signs\\ and 'quotes'"])
async def test_any_runtime_directory_serves(images: ImageCache, tmp_path: Path, folder: str) -> None:
    backend = LocalBackend(images, tmp_path / folder)
    try:
        desktop = await backend.boot(TINY)
        assert await sh(desktop, "echo here") == "here\n"
        assert tmp_path.name not in await sh(desktop, "cat /proc/mounts")
    finally:
        await backend.close()


# -- boots that fail --------------------------------------------------------------------------------------------------


class OtherRoot(ImageCache):
    """The machine's images, with another root filesystem in place of theirs."""

    def __init__(self, images: ImageCache, root: Path) -> None:
        super().__init__(images.root)
        self._other = root

    def find(self, profile: Profile) -> Image | None:
        found = super().find(profile)
        return None if found is None else replace(found, root=self._other)


@pytest.fixture
def light(images: ImageCache) -> Path:
    (root,) = [image.root for image in images.list()[:1]]
    return root


def _skeleton(root: Path) -> Path:
    (root / "etc").mkdir(parents=True)
    for name in ("passwd", "group"):
        (root / "etc" / name).write_text("")
    return root


@pytest.fixture
def changed(light: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the light image's root that a test may break: an overlay of it."""
    for name in ("upper", "work", "root"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={light},upperdir={tmp_path / 'upper'},workdir={tmp_path / 'work'}"
    mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(tmp_path / "root")], check=False)
    if mounted.returncode:
        pytest.skip("this machine mounts no overlay here")
    yield tmp_path / "root"
    subprocess.run(["umount", str(tmp_path / "root")], check=True)


async def _fails(images: ImageCache, runtime_dir: Path, root: Path, *, deadline_s: float = 20.0) -> errors.BootFailed:
    backend = LocalBackend(OtherRoot(images, root), runtime_dir)
    try:
        with pytest.raises(errors.BootFailed) as caught:
            await backend.boot(TINY, deadline_s=deadline_s)
        names = backend_names(runtime_dir)
        left = traces(runtime_dir, names)
        assert left.groups == []
        assert not any("Xvfb" in command or "bwrap" in command for command in left.processes), left
        assert caught.value.phase == "setup"
        return caught.value
    finally:
        await backend.close()
        assert until_none(lambda: traces(runtime_dir, names)).none


async def test_an_image_without_programs_fails_with_what_it_printed(
    images: ImageCache, runtime_dir: Path, tmp_path: Path
) -> None:
    failure = await _fails(images, runtime_dir, _skeleton(tmp_path / "empty"))
    assert "bwrap: " in str(failure)


async def test_an_image_without_users_fails_and_names_the_file(
    images: ImageCache, runtime_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    failure = await _fails(images, runtime_dir, tmp_path / "none")
    assert "etc/passwd" in str(failure)


async def test_an_image_whose_x_server_fails_says_what_it_printed(
    images: ImageCache, runtime_dir: Path, changed: Path
) -> None:
    (changed / "usr/bin/Xvfb").write_text("#!/bin/sh\necho this X server is broken >&2\nexit 3\n")
    failure = await _fails(images, runtime_dir, changed)
    assert "this X server is broken" in str(failure)


async def test_an_image_whose_session_fails_says_so(images: ImageCache, runtime_dir: Path, changed: Path) -> None:
    (changed / "usr/lib/frontdesk/session").write_text("#!/bin/sh\necho this session is broken >&2\nexit 4\n")
    failure = await _fails(images, runtime_dir, changed)
    assert "not ready: window manager" in str(failure)
    assert "this session is broken" in str(failure)
    assert failure.state["session"] == "gone (exit code 4)"


async def test_an_image_whose_session_cannot_be_started(images: ImageCache, runtime_dir: Path, changed: Path) -> None:
    (changed / "usr/lib/frontdesk/session").unlink()
    failure = await _fails(images, runtime_dir, changed)
    assert "No such file" in str(failure)


async def test_a_boot_that_hangs_ends_at_its_deadline(images: ImageCache, runtime_dir: Path, changed: Path) -> None:
    (changed / "usr/lib/frontdesk/session").write_text("#!/bin/sh\necho waiting >&2\nexec sleep 100\n")
    start = time.monotonic()
    failure = await _fails(images, runtime_dir, changed, deadline_s=1.0)
    assert time.monotonic() - start < 10
    assert "window manager" in str(failure)
    assert "waiting" in str(failure)


async def test_a_deadline_too_short_leaves_nothing_and_the_backend_goes_on(
    images: ImageCache, runtime_dir: Path
) -> None:
    backend = LocalBackend(images, runtime_dir)
    try:
        for deadline_s in (0.0, 0.01, 0.02):
            with pytest.raises(errors.BootFailed):
                await backend.boot(TINY, deadline_s=deadline_s)
        booting = asyncio.create_task(backend.boot(TINY))
        await asyncio.sleep(0.02)
        booting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await booting
        names = backend_names(runtime_dir)
        left = traces(runtime_dir, names)
        assert left.groups == []
        desktop = await backend.boot(TINY)
        assert await sh(desktop, "echo on") == "on\n"
    finally:
        await backend.close()


async def test_a_missing_image_names_the_command_that_builds_it(images: ImageCache, runtime_dir: Path) -> None:
    backend = LocalBackend(ImageCache(runtime_dir / "no-images"), runtime_dir)
    with pytest.raises(errors.ImageError, match="frontdesk image build light"):
        await backend.boot(TINY)
    await backend.close()
    assert not backend_names(runtime_dir)


async def test_a_missing_program_is_named_with_its_fix(
    images: ImageCache, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = LocalBackend(images, runtime_dir)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(errors.MissingRequirement, match="apt-get install bubblewrap"):
        await backend.boot(TINY)
    await backend.close()
