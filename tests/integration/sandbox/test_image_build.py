"""A real image of a tiny profile: what is in it, what a killed build leaves, and what a failing one says."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.errors import ImageError
from sandbox.image import Image, ImageCache, build_image, check_drift, load_profile
from sandbox.image import build as build_module
from sandbox.image.sources import AptSources
from tests.support.images import write_profile

pytestmark = pytest.mark.desktop

BAKE = """
set -eu
cat /etc/greeting >/etc/baked
ls /dev >/etc/devices
ls /sys/class/net >/etc/interfaces 2>/dev/null || cat /proc/net/dev >/etc/interfaces
[ "$(id -u)" = 0 ]
"""
ESCAPE = f"frontdesk-escape-{uuid.uuid4().hex}"
BUILDER = """
import sys
from pathlib import Path
from sandbox.image import build_image, load_profile
profile, images = load_profile(Path(sys.argv[1])), Path(sys.argv[2])
build_image(profile, images, progress=lambda p: print(p.phase, p.percent, flush=True))
"""


def _skip_or_fail(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"image tests cannot run in CI: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() != 0:
        _skip_or_fail("needs root")
    if shutil.which("mmdebstrap") is None:
        _skip_or_fail("needs mmdebstrap")
    # /var/run is an absolute link to /run in every Debian root.
    files = {"etc/greeting": "hello\n", f"var/run/{ESCAPE}": "x\n", "usr/bin/greet": "#!/bin/sh\necho hi\n"}
    made = write_profile(tmp_path_factory.mktemp("profile"), bake=BAKE, files=files)
    (made / "files/usr/bin/greet").chmod(0o700)
    return made


@pytest.fixture(scope="module")
def images(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def image(folder: Path, images: Path) -> Image:
    """The image, after a first build was killed in the middle."""
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(folder), str(images)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert builder.stdout is not None
    for line in builder.stdout:
        phase, percent = line.split()
        if phase == "base" and float(percent) > 10:
            break
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    builder.stdout.close()
    cache = ImageCache(images)
    assert cache.list() == ()
    assert list(images.glob(".building-*")), "the kill came too late to test anything"
    _wait_until_gone(images)
    assert not [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(images) in line]
    return build_image(load_profile(folder), images)


def _wait_until_gone(images: Path) -> None:
    """Until no process has its root, its working folder or a mount below the images."""
    deadline = time.monotonic() + 20
    while users := _users(images):
        assert time.monotonic() < deadline, f"processes outlived the build: {users}"
        time.sleep(0.05)


def _users(images: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [str((process / name).readlink()) for name in ("root", "cwd")]
            mounts, command = (process / "mountinfo").read_text(), (process / "cmdline").read_text()
        except OSError:
            continue  # it ended while we looked
        if str(images) in mounts + command or any(link.startswith(str(images)) for link in links):
            found.append(command.replace("\0", " "))
    return found


def _listing(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Mode, owner, group and size of everything."""
    found = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder) / name
            entry = path.lstat()
            size = entry.st_size if path.is_file() and not path.is_symlink() else 0
            found[str(path.relative_to(root))] = (entry.st_mode, entry.st_uid, entry.st_gid, size)
    return found


def test_a_build_after_a_kill_is_whole_and_leaves_only_its_cache(image: Image, images: Path) -> None:
    expected = {image.root.parent.name, ".downloads", ".last-build.log", ".lock"}
    assert {path.name for path in images.iterdir()} == expected
    assert (image.root.stat().st_mode & 0o777, image.root.parent.stat().st_mode & 0o777) == (0o755, 0o755)
    assert _users(images) == []


def test_packages_that_a_killed_build_had_are_not_fetched_again(image: Image, images: Path) -> None:
    log = (images / ".last-build.log").read_text()
    fetched = [line for line in log.splitlines() if line.startswith("Get:") and " amd64 libc6 " in line]
    assert fetched == []
    assert list((images / ".downloads").glob("libc6_*.deb"))


def test_an_interrupted_and_an_uninterrupted_build_are_the_same(
    image: Image, images: Path, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(images / ".downloads", tmp_path / ".downloads")
    straight = build_image(load_profile(folder), tmp_path)
    assert (straight.digest, straight.packages) == (image.digest, image.packages)
    assert _listing(straight.root) == _listing(image.root)


def test_files_and_bake_script_did_their_work(image: Image) -> None:
    greeting, greet = image.root / "etc/greeting", image.root / "usr/bin/greet"
    assert greeting.read_text() == (image.root / "etc/baked").read_text() == "hello\n"
    assert [path.stat().st_mode & 0o777 for path in (greeting, greet)] == [0o644, 0o755]
    assert {path.stat().st_uid for path in (greeting, greet)} == {0}


def test_nothing_leaves_the_root_through_a_link(image: Image) -> None:
    assert (image.root / "run" / ESCAPE).exists()
    assert not (Path("/run") / ESCAPE).exists()


def test_a_bake_script_has_no_network_and_no_devices(image: Image) -> None:
    devices = (image.root / "etc/devices").read_text().split()
    assert devices == ["full", "null", "random", "urandom", "zero"]
    interfaces = (image.root / "etc/interfaces").read_text()
    assert "lo" in interfaces
    assert "eth" not in interfaces


def test_nothing_of_the_build_machine_is_in_it(image: Image) -> None:
    assert not list((image.root / "etc/apt/sources.list.d").glob("*"))
    for name in ("etc/apt/sources.list", "etc/apt/apt.conf.d/99mmdebstrap", "etc/resolv.conf"):
        assert not (image.root / name).exists()
    assert list((image.root / "tmp").iterdir()) == []
    assert image.packages["libc6:amd64"] if os.uname().machine == "x86_64" else image.packages
    assert 50e6 < image.size_bytes < 500e6


def test_drift_without_a_mirror_is_said_and_not_raised(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = AptSources(deb822="", lines="deb [trusted=yes] http://127.0.0.1:9/debian bookworm main\n")
    monkeypatch.setattr("sandbox.image.drift.machine_sources", lambda suite: nowhere)
    offline = check_drift(image)
    assert (offline.checked, offline.changed) == (False, {})
    assert "127.0.0.1" in offline.reason


def test_an_old_package_is_drift(image: Image, tmp_path: Path) -> None:
    old = tmp_path / "root"
    for name in ("usr/lib/os-release", "var/lib/dpkg/status", "var/lib/apt/extended_states"):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text((image.root / name).read_text() if (image.root / name).exists() else "")
    version = next(version for name, version in image.packages.items() if name.startswith("tzdata:"))
    status = old / "var/lib/dpkg/status"
    status.write_text(status.read_text().replace(f"Version: {version}", "Version: 2000a-1"))
    drift = check_drift(dataclasses.replace(image, root=old))
    if not drift.checked:
        pytest.skip(drift.reason)
    assert drift.changed == {"tzdata": ("2000a-1", version)}


def test_a_mirror_that_does_not_answer(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = AptSources(deb822="", lines="deb [trusted=yes] http://127.0.0.1:9/debian bookworm main\n")
    monkeypatch.setattr(build_module, "machine_sources", lambda suite: nowhere)
    monkeypatch.setattr(build_module, "_APT_OPTIONS", ('Acquire::Retries "0"',))
    with pytest.raises(ImageError, match=r"(?s)mirror did not answer.*The log ends with.*127\.0\.0\.1"):
        build_image(load_profile(folder), tmp_path / "images")
    assert not list((tmp_path / "images").glob(".building-*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_up(folder: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "_LEAST_FREE_BYTES", 0)
    with pytest.raises(ImageError, match="disk is full"):
        build_image(load_profile(folder), small_disk)
    assert not list(small_disk.glob(".building-*"))
    assert not [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{small_disk}/" in line]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: (f / "bake.sh").write_text("echo about to fail; exit 3\n"),
            r"(?s)bake.sh ended with code 3.*about to fail",
        ),
        (lambda f: (f / "files/etc").write_text("not a folder\n"), "copying files ended with code 2"),
    ],
)
def test_a_definition_that_does_not_work(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object, message: str
) -> None:
    folder = write_profile(tmp_path / "p")
    (folder / "files").mkdir()
    assert callable(change)
    change(folder)

    def copy_root(self: build_module._Build) -> None:
        subprocess.run(["cp", "-al", str(image.root), str(self._root)], check=True)

    monkeypatch.setattr(build_module._Build, "_bootstrap", copy_root)
    with pytest.raises(ImageError, match=message):
        build_image(load_profile(folder), tmp_path / "images")
    assert ImageCache(tmp_path / "images").list() == ()
    assert not list((tmp_path / "images").glob(".building-*"))
