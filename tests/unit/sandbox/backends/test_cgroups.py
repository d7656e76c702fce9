"""Control groups of both versions, found and used in trees that look like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.backends.cgroups import Cgroup, CgroupUnavailable, Hierarchy, Limits, find_hierarchy

LIMITS = Limits(memory_bytes=512 << 20, pids=100, cpus=1.5)


def _v1(tmp_path: Path, *, own: str = "/", controllers: tuple[str, ...] = ("memory", "pids", "cpu,cpuacct")) -> str:
    """A version 1 tree; returns what /proc/self/mounts says of it."""
    lines = ["tmpfs / tmpfs rw 0 0", "cgroup2 /unified cgroup2 rw 0 0"]
    for name in controllers:
        (tmp_path / name / own.lstrip("/")).mkdir(parents=True, exist_ok=True)
        lines.append(f"cgroup {tmp_path / name} cgroup rw,relatime,{name} 0 0")
    return "\n".join(lines) + "\n"


def _v2(tmp_path: Path, *, own: str = "/", available: str = "cpu io memory pids", enabled: str = "") -> str:
    """A version 2 tree whose own group offers controllers; returns what /proc/self/mounts says of it."""
    for group in {tmp_path, tmp_path / own.lstrip("/")}:
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.controllers").write_text(available + "\n")
        (group / "cgroup.subtree_control").write_text(enabled + "\n")
    return f"tmpfs / tmpfs rw 0 0\ncgroup2 {tmp_path} cgroup2 rw,nosuid 0 0\n"


def test_version_1_is_found_below_the_own_group(tmp_path: Path) -> None:
    mounts = _v1(tmp_path, own="/jobs/7")
    own = "5:memory:/jobs/7\n4:pids:/jobs/7\n3:cpu,cpuacct:/jobs/7\n1:name=systemd:/\n0::/\n"
    found = find_hierarchy(mounts=mounts, own=own)
    assert found.version == 1
    assert found.parents == {
        "memory": tmp_path / "memory/jobs/7",
        "pids": tmp_path / "pids/jobs/7",
        "cpu": tmp_path / "cpu,cpuacct/jobs/7",
    }
    assert found.accounting == tmp_path / "cpu,cpuacct/jobs/7"


def test_version_1_whose_own_group_is_not_mounted_here_is_taken_at_its_top(tmp_path: Path) -> None:
    mounts = _v1(tmp_path)
    own = "5:memory:/outside/x\n4:pids:/outside/x\n3:cpu,cpuacct:/\n"
    assert find_hierarchy(mounts=mounts, own=own).parents["memory"] == tmp_path / "memory"


def test_version_1_without_a_controller_falls_back_to_version_2(tmp_path: Path) -> None:
    mounts = _v1(tmp_path / "old", controllers=("memory", "cpu,cpuacct")) + _v2(tmp_path / "new")
    own = "5:memory:/\n3:cpu,cpuacct:/\n0::/\n"
    found = find_hierarchy(mounts=mounts, own=own)
    assert (found.version, set(found.parents.values())) == (2, {tmp_path / "new"})


def test_version_2_enables_the_controllers_below_the_own_group(tmp_path: Path) -> None:
    found = find_hierarchy(mounts=_v2(tmp_path, own="/user.slice/me"), own="0::/user.slice/me\n")
    own = tmp_path / "user.slice/me"
    assert (found.version, found.parents, found.accounting) == (2, dict.fromkeys(("memory", "pids", "cpu"), own), None)
    assert set((own / "cgroup.subtree_control").read_text().split()) == {"+memory", "+pids", "+cpu"}


def test_version_2_that_has_the_controllers_enabled_is_left_as_it_is(tmp_path: Path) -> None:
    mounts = _v2(tmp_path, enabled="cpu memory pids")
    find_hierarchy(mounts=mounts, own="0::/\n")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "cpu memory pids\n"


def test_version_2_goes_to_the_top_where_the_own_group_cannot_have_children(tmp_path: Path) -> None:
    mounts = _v2(tmp_path, own="/full")
    (tmp_path / "full/cgroup.subtree_control").unlink()
    (tmp_path / "full/cgroup.subtree_control").mkdir()  # as unwritable as a group with processes
    assert find_hierarchy(mounts=mounts, own="0::/full\n").parents["memory"] == tmp_path


@pytest.mark.parametrize("available", ["cpu io", "memory pids", ""])
def test_without_the_controllers_it_says_what_is_missing(tmp_path: Path, available: str) -> None:
    with pytest.raises(CgroupUnavailable, match="no control groups with memory, pids and cpu"):
        find_hierarchy(mounts=_v2(tmp_path, available=available), own="0::/\n")


def _hierarchy(tmp_path: Path, version: int) -> Hierarchy:
    if version == 1:
        own = "5:memory:/\n4:pids:/\n3:cpu,cpuacct:/\n"
        return find_hierarchy(mounts=_v1(tmp_path), own=own)
    return find_hierarchy(mounts=_v2(tmp_path), own="0::/\n")


def test_version_1_gets_its_limits(tmp_path: Path) -> None:
    Cgroup(_hierarchy(tmp_path, 1), "desk").create(LIMITS)
    read = {
        name: (tmp_path / path).read_text()
        for name, path in {
            "memory": "memory/desk/memory.limit_in_bytes",
            "pids": "pids/desk/pids.max",
            "period": "cpu,cpuacct/desk/cpu.cfs_period_us",
            "quota": "cpu,cpuacct/desk/cpu.cfs_quota_us",
        }.items()
    }
    assert read == {"memory": str(512 << 20), "pids": "100", "period": "50000", "quota": "75000"}


def test_version_2_gets_its_limits(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir(parents=True)
    (tmp_path / "desk/memory.swap.max").write_text("max")
    Cgroup(_hierarchy(tmp_path, 2), "desk").create(LIMITS)
    names = ("memory.max", "memory.swap.max", "pids.max", "cpu.max")
    read = [(tmp_path / "desk" / name).read_text() for name in names]
    assert read == [str(512 << 20), "0", "100", "75000 50000"]


@pytest.mark.parametrize("version", [1, 2])
def test_the_smallest_cpu_share_is_one_that_the_kernel_takes(tmp_path: Path, version: int) -> None:
    group = Cgroup(_hierarchy(tmp_path, version), "desk")
    group.create(Limits(memory_bytes=1, pids=1, cpus=0.0001))
    name = "cpu.cfs_quota_us" if version == 1 else "cpu.max"
    (quota,) = [path / name for path in group.directories if (path / name).exists()]
    assert quota.read_text().split()[0] == "1000"


def test_a_group_is_one_directory_per_hierarchy(tmp_path: Path) -> None:
    v1, v2 = Cgroup(_hierarchy(tmp_path / "1", 1), "desk"), Cgroup(_hierarchy(tmp_path / "2", 2), "desk")
    assert sorted(path.parent.name for path in v1.directories) == ["cpu,cpuacct", "memory", "pids"]
    assert [path.name for path in v2.directories] == ["desk"]


@pytest.mark.parametrize("version", [1, 2])
def test_processes_enter_and_are_listed(tmp_path: Path, version: int) -> None:
    group = Cgroup(_hierarchy(tmp_path, version), "desk")
    group.create(LIMITS)
    group.enter()
    assert all((path / "cgroup.procs").read_text() == "0" for path in group.directories)
    for number, path in enumerate(group.directories):
        (path / "cgroup.procs").write_text(f"12\n{13 + number}\n")
    assert group.processes() == {12, *range(13, 13 + len(group.directories))}


def test_usage_is_read_in_version_1(tmp_path: Path) -> None:
    group = Cgroup(_hierarchy(tmp_path, 1), "desk")
    group.create(LIMITS)
    (tmp_path / "memory/desk/memory.usage_in_bytes").write_text("123456\n")
    (tmp_path / "cpu,cpuacct/desk/cpuacct.usage").write_text("2500000000\n")
    (tmp_path / "memory/desk/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert (group.memory_bytes(), group.cpu_seconds(), group.oom_kills()) == (123456, 2.5, 3)


def test_usage_is_read_in_version_2(tmp_path: Path) -> None:
    group = Cgroup(_hierarchy(tmp_path, 2), "desk")
    group.create(LIMITS)
    (tmp_path / "desk/memory.current").write_text("123456\n")
    (tmp_path / "desk/cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "desk/memory.events").write_text("low 0\noom 5\noom_kill 3\noom_group_kill 0\n")
    assert (group.memory_bytes(), group.cpu_seconds(), group.oom_kills()) == (123456, 2.5, 3)


def test_a_group_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    hierarchy = _hierarchy(tmp_path, 1)
    (tmp_path / "pids").rmdir()
    with pytest.raises(CgroupUnavailable, match="cannot make the control group desk"):
        Cgroup(hierarchy, "desk").create(LIMITS)
    assert not (tmp_path / "memory/desk").exists()


def test_removing_tells_whether_it_is_gone(tmp_path: Path) -> None:
    group = Cgroup(_hierarchy(tmp_path, 2), "desk")
    assert group.remove()  # there is none
    (tmp_path / "desk").mkdir()
    (tmp_path / "desk/busy").mkdir()
    assert not group.remove()
    (tmp_path / "desk/busy").rmdir()
    assert group.remove()
    assert not (tmp_path / "desk").exists()
    assert (group.processes(), group.oom_kills()) == (set(), 0)
