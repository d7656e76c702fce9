"""A build's way through the cache and its messages, without root and without mmdebstrap."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from sandbox.errors import ImageError, MissingRequirement
from sandbox.image import BuildProgress, Image, ImageCache, build, build_image, contained, load_profile
from sandbox.image.buildlog import BuildLog
from sandbox.image.progress import ProgressReader
from tests.support.images import make_image, write_profile

OUTPUT = """\
I: running apt-get update...
Get:1 http://mirror.example bookworm InRelease [151 kB]
I: downloading packages with apt...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://mirror.example bookworm/main amd64 libc6 [2759 kB]
Get:2 http://mirror.example bookworm/main amd64 dash [97 kB]
I: installing essential packages...
Unpacking libc6:amd64 (2.36) ...
Setting up libc6:amd64 (2.36) ...
Setting up dash (0.5) ...
I: installing remaining packages inside the chroot...
0 upgraded, 4 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://mirror.example bookworm/main amd64 a [1 kB]
Unpacking a (1) ...
Setting up a (1) ...
Unpacking b (1) ...
Unpacking c (1) ...
Unpacking d (1) ...
Setting up b (1) ...
Setting up c (1) ...
Unpacking late (1) ...
Setting up d (1) ...
""".splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "tiny")


def test_a_built_image_needs_neither_root_nor_tools(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(ImageCache(tmp_path / "images"), load_profile(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", "")
    assert build_image(load_profile(folder), tmp_path / "images") == image


def test_without_root_the_message_says_what_to_do(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingRequirement, match=r"needs root\. To fix it: run the command with sudo"):
        build_image(load_profile(folder), tmp_path / "images")
    assert not (tmp_path / "images").exists()


def test_without_mmdebstrap_the_message_says_what_to_install(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement, match="apt-get install mmdebstrap"):
        build_image(load_profile(folder), tmp_path / "images")


def test_without_namespaces_the_message_says_what_to_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mmdebstrap", "unshare", "setpriv"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(MissingRequirement, match=r"Operation not permitted.*--privileged"):
        contained.check_requirements()


@pytest.fixture
def no_tools_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "check_requirements", lambda: None)


@pytest.mark.usefixtures("no_tools_needed")
def test_two_builds_at_once_make_one_image(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ImageCache(tmp_path / "images")
    profile = load_profile(folder)
    runs: list[None] = []
    second_waits = threading.Event()

    def run(self: object) -> Image:
        runs.append(None)
        assert second_waits.wait(10)
        return make_image(cache, profile)

    def report(progress: BuildProgress) -> None:
        if progress.phase == "waiting":
            second_waits.set()

    monkeypatch.setattr(build._Build, "run", run)
    images: list[Image] = []
    builders = [
        threading.Thread(target=lambda: images.append(build_image(profile, cache.root, progress=report)))
        for _ in range(2)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(20)
    assert len(runs) == 1
    assert len(images) == 2
    assert images[0] == images[1]


@pytest.mark.usefixtures("no_tools_needed")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk of .* is full: free some space"),
        (PermissionError(errno.EACCES, "Permission denied"), "failed: .*Permission denied"),
        (ImageError("mmdebstrap ended with code 1"), "ended with code 1"),
    ],
)
def test_a_failed_build_leaves_nothing(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    cache = ImageCache(tmp_path / "images")
    earlier = tmp_path / "images/.building-killed/root"
    earlier.mkdir(parents=True)

    def run(self: build._Build) -> Image:
        (self._work / "root/etc").mkdir(parents=True)
        raise error

    monkeypatch.setattr(build._Build, "run", run)
    with pytest.raises(ImageError, match=message):
        build_image(load_profile(folder), cache.root)
    assert [path.name for path in cache.root.iterdir()] == [".lock"]
    assert cache.find(load_profile(folder)) is None


def test_a_build_does_not_begin_on_a_disk_that_is_nearly_full(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=3 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(build._Build, "run", lambda self: pytest.fail("it began"))
    with pytest.raises(ImageError, match="3 MB are free, an image takes 1 to 2 GB"):
        build_image(load_profile(folder), tmp_path / "images")
    assert [path.name for path in (tmp_path / "images").iterdir()] == [".lock"]


def test_progress_never_falls_and_passes_through_the_phases() -> None:
    reports: list[BuildProgress] = []
    reader = ProgressReader(reports.append)
    for line in OUTPUT:
        reader.line(line)
    reader.enter("files", "copying")
    reader.enter("finish", "done")
    percents = [report.percent for report in reports]
    assert percents == sorted(percents)
    assert max(report.percent for report in reports if report.phase == "unpack") == 65
    assert percents[-1] < 100
    phases = list(dict.fromkeys(report.phase for report in reports))
    assert phases == ["indexes", "base", "download", "unpack", "configure", "files", "finish"]


def test_progress_is_reported_by_the_percent_not_by_the_package() -> None:
    reports: list[BuildProgress] = []
    reader = ProgressReader(reports.append)
    reader.line("I: installing remaining packages inside the chroot...")
    reader.line("0 upgraded, 1000 newly installed, 0 to remove and 0 not upgraded.")
    for number in range(1000):
        reader.line(f"Unpacking p{number} (1) ...")
    assert 20 <= len(reports) <= 30


def test_progress_without_downloads_goes_on_to_unpacking() -> None:
    reports: list[BuildProgress] = []
    reader = ProgressReader(reports.append)
    for line in OUTPUT:
        if not line.startswith("Get:"):
            reader.line(line)
    assert reports[-1].phase == "configure"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("dpkg: cannot copy data: No space left on device", "disk is full"),
        ("E: Unable to locate package xvfbb", "this Debian release does not have: xvfbb"),
        ("E: Package 'oldthing' has no installation candidate", "does not have: oldthing"),
        ("E: Failed to fetch http://m.example/x  Could not connect to m.example:80", "mirror did not answer"),
        ("W: GPG error: http://m.example bookworm InRelease: NO_PUBKEY 0E98", "debian-archive-keyring"),
        ("E: Release file for http://m.example/InRelease is expired", "clock"),
    ],
)
def test_the_message_of_a_failure_has_cause_and_end_of_the_log(tmp_path: Path, line: str, advice: str) -> None:
    path = tmp_path / "log"
    with BuildLog(path) as log:
        for number in range(500):
            log.write(f"line {number}")
        log.write(line)
        log.write("E: apt-get failed")
        message = log.explain("building tiny failed")
    assert advice in message
    assert line in message
    assert "line 200" not in message
    assert str(path) in message
    assert path.read_text().startswith("line 0\n")


def test_a_full_disk_is_the_cause_of_what_follows_from_it(tmp_path: Path) -> None:
    with BuildLog(tmp_path / "log") as log:
        log.write("Error writing to output file - write (28: No space left on device)")
        log.write("E: Failed to fetch http://m.example/x  Error writing to output file")
        message = log.explain("building tiny failed")
    assert "disk is full" in message
    assert "mirror did not answer" not in message


def test_a_failure_of_unknown_cause_still_shows_the_log(tmp_path: Path) -> None:
    with BuildLog(tmp_path / "log") as log:
        log.write("something odd")
        assert "something odd" in log.explain("building tiny failed")
