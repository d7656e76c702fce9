"""Control groups, version 1 and 2: limits for a desktop, and what it has used.

Standard library only: the keeper uses it before anything else is imported. A group is made below the group of the
calling process, so that limits on the caller (a container's, say) go on to hold for its desktops.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HIERARCHY", "Cgroup", "CgroupUnavailable", "Hierarchy", "Limits", "find_hierarchy"]

CONTROLLERS = ("memory", "pids", "cpu")
HIERARCHY = "hierarchy.json"
"""File in a keeper's directory that says where its groups are."""
CPU_PERIOD_US = 50_000


class CgroupUnavailable(Exception):
    """No usable control groups; the message says what is missing and how to get it."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one group may use."""

    memory_bytes: int
    pids: int
    cpus: float


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Where groups can be made."""

    version: int
    """1 or 2."""
    parents: dict[str, Path]
    """Directory by controller below which groups are made (one and the same for version 2)."""
    accounting: Path | None
    """Version 1 only: parent in the cpuacct hierarchy."""

    def save(self, path: Path) -> None:
        """Write it down, for whoever must remove the groups and lives in another group itself."""
        parents = {name: str(parent) for name, parent in self.parents.items()}
        accounting = None if self.accounting is None else str(self.accounting)
        path.write_text(json.dumps({"version": self.version, "parents": parents, "accounting": accounting}))

    @classmethod
    def load(cls, path: Path) -> Hierarchy:
        """What `save` wrote.

        Raises:
            OSError, ValueError: there is none, or it is cut short.
        """
        data = json.loads(path.read_text())
        return cls(
            version=data["version"],
            parents={name: Path(parent) for name, parent in data["parents"].items()},
            accounting=None if data["accounting"] is None else Path(data["accounting"]),
        )


def _mounts(table: str) -> list[tuple[str, Path, set[str]]]:
    """(type, mount point, options) of the cgroup file systems."""
    found = []
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) > 3 and fields[2] in ("cgroup", "cgroup2"):
            found.append((fields[2], Path(fields[1]), set(fields[3].split(","))))
    return found


def _own_groups(table: str) -> dict[str, str]:
    """Path of the own group by controller; "" is version 2's."""
    own = {}
    for line in table.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    return own


def find_hierarchy(*, mounts: str | None = None, own: str | None = None) -> Hierarchy:
    """Find where groups can be made.

    Args:
        mounts, own: contents of /proc/self/mounts and /proc/self/cgroup, for tests.

    Raises:
        CgroupUnavailable: the controllers are not there or not delegated.
    """
    mount_list = _mounts(Path("/proc/self/mounts").read_text() if mounts is None else mounts)
    groups = _own_groups(Path("/proc/self/cgroup").read_text() if own is None else own)
    parents: dict[str, Path] = {}
    accounting = None
    for kind, point, options in mount_list:
        if kind != "cgroup":
            continue
        for controller in (*CONTROLLERS, "cpuacct"):
            if controller in options and controller in groups:
                parent = point / groups[controller].lstrip("/")
                parent = parent if parent.is_dir() else point
                if controller == "cpuacct":
                    accounting = parent
                else:
                    parents[controller] = parent
    if set(parents) == set(CONTROLLERS):
        return Hierarchy(version=1, parents=parents, accounting=accounting)
    for kind, point, _ in mount_list:
        if kind == "cgroup2":
            delegated = _delegated(point, groups.get("", "/"))
            if delegated is not None:
                return Hierarchy(version=2, parents=dict.fromkeys(CONTROLLERS, delegated), accounting=None)
    raise CgroupUnavailable("this machine offers no control groups with memory, pids and cpu that may be used here")


def _delegated(point: Path, own: str) -> Path | None:
    """A version-2 directory whose children can have all controllers: the own group, else the top."""
    for candidate in (point / own.lstrip("/"), point):
        try:
            available = set((candidate / "cgroup.controllers").read_text().split())
            if not available.issuperset(CONTROLLERS):
                continue
            enabled = set((candidate / "cgroup.subtree_control").read_text().split())
            if not enabled.issuperset(CONTROLLERS):
                wanted = " ".join(f"+{name}" for name in CONTROLLERS)
                (candidate / "cgroup.subtree_control").write_text(wanted)
            return candidate
        except OSError:
            continue
    return None


class Cgroup:
    """One group.

    Args:
        hierarchy: where it lives.
        name: directory name, unique on this host.
    """

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self._hierarchy = hierarchy
        self.name = name
        self._directories = {controller: parent / name for controller, parent in hierarchy.parents.items()}
        if hierarchy.accounting is not None:
            self._directories["cpuacct"] = hierarchy.accounting / name

    @classmethod
    def of_process(cls, pid: int) -> Cgroup:
        """The group that a process is in, made by somebody else: to look at, not to create or remove.

        Raises:
            OSError: there is no such process.
            CgroupUnavailable: its group is not to be seen from here.
        """
        mount_list = _mounts(Path("/proc/self/mounts").read_text())
        groups = _own_groups(Path(f"/proc/{pid}/cgroup").read_text())
        found: dict[str, Path] = {}
        for kind, point, options in mount_list:
            for controller in (*CONTROLLERS, "cpuacct"):
                if kind == "cgroup" and controller in options and controller in groups:
                    found[controller] = point / groups[controller].lstrip("/")
        version = 1 if found.keys() >= set(CONTROLLERS) else 2
        if version == 2:
            points = [point for kind, point, _ in mount_list if kind == "cgroup2"]
            found = dict.fromkeys(CONTROLLERS, points[0] / groups[""].lstrip("/")) if points and "" in groups else {}
        names = {path.name for path in found.values()}
        if len(names) != 1 or not all(path.is_dir() for path in found.values()):
            raise CgroupUnavailable(f"the control group of process {pid} is not to be seen from here")
        accounting = found.pop("cpuacct", None)
        parents = {controller: path.parent for controller, path in found.items()}
        return cls(
            Hierarchy(version=version, parents=parents, accounting=None if accounting is None else accounting.parent),
            names.pop(),
        )

    @property
    def directories(self) -> list[Path]:
        """Every directory of the group, each once."""
        return list(dict.fromkeys(self._directories.values()))

    def create(self, limits: Limits) -> None:
        """Make the group with its limits.

        Raises:
            CgroupUnavailable: it cannot be made; nothing is left of it.
        """
        try:
            for directory in self.directories:
                directory.mkdir(exist_ok=True)
            memory, pids, cpu = (self._directories[name] for name in CONTROLLERS)
            quota = max(1000, int(limits.cpus * CPU_PERIOD_US))
            if self._hierarchy.version == 1:
                (memory / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
                (cpu / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
                (cpu / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (memory / "memory.max").write_text(str(limits.memory_bytes))
                if (memory / "memory.swap.max").exists():
                    (memory / "memory.swap.max").write_text("0")
                (cpu / "cpu.max").write_text(f"{quota} {CPU_PERIOD_US}")
            (pids / "pids.max").write_text(str(limits.pids))
        except OSError as error:
            self.remove()
            raise CgroupUnavailable(f"cannot make the control group {self.name}: {error}") from error

    def enter(self) -> None:
        """Move the calling process in."""
        for directory in self.directories:
            (directory / "cgroup.procs").write_text("0")

    def processes(self) -> set[int]:
        """Pids in the group, zombies included."""
        found: set[int] = set()
        for directory in self.directories:
            try:
                found.update(int(pid) for pid in (directory / "cgroup.procs").read_text().split())
            except OSError:
                continue
        return found

    def kill(self) -> None:
        """SIGKILL every process in it."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def remove(self) -> bool:
        """Remove the group; False while a process is still in it."""
        gone = True
        for directory in self.directories:
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone

    def memory_bytes(self) -> int:
        """Memory in use now."""
        name = "memory.usage_in_bytes" if self._hierarchy.version == 1 else "memory.current"
        return int((self._directories["memory"] / name).read_text())

    def cpu_seconds(self) -> float:
        """CPU time used so far."""
        if self._hierarchy.version == 1:
            directory = self._directories.get("cpuacct")
            return 0.0 if directory is None else int((directory / "cpuacct.usage").read_text()) / 1e9
        for line in (self._directories["cpu"] / "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        return 0.0

    def oom_kills(self) -> int:
        """Processes that were ended because the memory limit was reached."""
        name = "memory.oom_control" if self._hierarchy.version == 1 else "memory.events"
        try:
            for line in (self._directories["memory"] / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        except OSError:
            pass
        return 0
