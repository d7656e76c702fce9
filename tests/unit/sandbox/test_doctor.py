from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

from sandbox import doctor
from sandbox.backends.cgroups import Cgroup, CgroupUnavailable, Limits, find_hierarchy
from sandbox.doctor import PROGRAMS, Finding, examine, usable
from sandbox.errors import MissingRequirement


def by_name(home: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(home)}


def finding(status: doctor.Status, *, required: bool) -> Finding:
    return Finding(name="x", status=status, detail="x", required=required)


def test_only_what_is_required_and_missing_makes_a_machine_unusable() -> None:
    fine = [finding("ok", required=True), finding("warn", required=True), finding("missing", required=False)]
    assert usable(fine)
    assert not usable([*fine, finding("missing", required=True)])


def test_without_programs_each_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_which", lambda program: None)
    found = by_name(tmp_path)
    for program, (package, _) in PROGRAMS.items():
        assert (found[program].status, found[program].fix) == ("missing", f"apt-get install {package}")
        assert found[program].required
    assert (found["overlayfs"].status, found["overlayfs"].detail) == ("missing", "not tried without unshare")
    assert (found["namespaces"].status, found["namespaces"].detail) == ("missing", "not tried without bwrap")


def test_programs_are_found_on_the_path_and_in_system_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor._which("bwrap") == str(program)
    assert doctor._which("no-such-program") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root tries them")
def test_a_trial_that_fails_gives_the_programs_own_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho first >&2\necho 'bwrap: no namespaces here' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(doctor, "_which", lambda program: str(broken))
    found = by_name(tmp_path)["namespaces"]
    assert (found.status, found.detail) == ("missing", "bwrap: no namespaces here")
    assert found.fix is not None
    hanging = tmp_path / "unshare"
    hanging.write_text("#!/bin/sh\nexec sleep 10\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(doctor, "_which", lambda program: str(hanging) if program in ("unshare", "mount") else None)
    monkeypatch.setattr(doctor, "TRIAL_TIMEOUT_S", 0.1)
    assert by_name(tmp_path)["overlayfs"].detail == "no answer in 0 s"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root tries them")
def test_control_groups_that_cannot_be_had_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise CgroupUnavailable("no controllers here")

    monkeypatch.setattr(doctor, "find_hierarchy", none)
    found = by_name(tmp_path)["cgroups"]
    assert (found.status, found.detail, found.required) == ("missing", "no controllers here", True)


def test_a_root_without_capabilities_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "_effective_capabilities", lambda: ~(1 << 21))
    (found,) = doctor._privileges()
    assert (found.status, found.fix) == ("missing", "start this container with --cap-add SYS_ADMIN")
    monkeypatch.setattr(doctor, "_effective_capabilities", lambda: ~0)
    (found,) = doctor._privileges()
    assert found.status == "ok"


def test_as_another_user_nothing_is_tried_that_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = by_name(tmp_path)
    assert found["root"].status == "missing"
    assert found["root"].fix is not None
    assert "sudo" in found["root"].fix
    for name in ("overlayfs", "namespaces", "cgroups"):
        assert (found[name].status, found[name].detail.startswith("only root")) == ("warn", True)


def test_missing_package_sources_only_warn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(suite: str) -> None:
        raise MissingRequirement(f"no source for {suite}", fix="add one")

    monkeypatch.setattr(doctor, "machine_sources", none)
    found = by_name(tmp_path)["package sources"]
    assert (found.status, found.detail, found.fix, found.required) == (
        "warn",
        "no source for bookworm",
        "add one",
        False,
    )


def test_little_memory_and_disk_warn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "GB", 1 << 60)
    found = by_name(tmp_path / "not" / "there")
    assert (found["memory"].status, found["disk"].status) == ("warn", "warn")
    assert found["disk"].fix is not None
    assert "FRONTDESK_HOME" in found["disk"].fix
    assert not (tmp_path / "not").exists()


def test_options_that_nobody_took_are_not_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    found = by_name(tmp_path)
    for name in ("docker", "torch", "vllm"):
        assert (found[name].status, found[name].required) == ("missing", False)
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "9.9")
    assert (by_name(tmp_path)["torch"].status, by_name(tmp_path)["torch"].detail) == ("ok", "9.9")


def test_a_docker_daemon_elsewhere_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    found = by_name(tmp_path)["docker"]
    assert (found.status, found.required) == ("missing", False)
    assert "tcp://192.0.2.1:2375 is not one of this machine" in found.detail
    assert found.fix == "run Frontdesk on the daemon's machine with DOCKER_HOST=unix:///var/run/docker.sock"


def test_looking_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    own = f"frontdesk-doctor-{os.getpid()}"
    mounts = Path("/proc/self/mounts").read_text()
    examine(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert Path("/proc/self/mounts").read_text() == mounts
    assert list(Path("/sys/fs/cgroup").rglob(own)) == []


@pytest.mark.desktop
def test_groups_of_trials_that_were_killed_are_removed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    ended = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    hierarchy = find_hierarchy()
    limits = Limits(memory_bytes=64 << 20, pids=8, cpus=1.0)
    left, alive = (Cgroup(hierarchy, f"frontdesk-doctor-{pid}") for pid in (ended, os.getppid()))
    left.create(limits)
    alive.create(limits)
    try:
        examine(tmp_path)
        assert not any(path.exists() for path in left.directories)
        assert all(path.exists() for path in alive.directories), "a trial under way is not touched"
    finally:
        alive.remove()
