"""What this machine can run: each requirement tried for real where that is possible, with the exact fix when it fails.

Nothing is left behind: mounts are tried in a private namespace that ends with its process, and a trial control group is
removed at once. It works as any user; what only root can try is reported as waiting for root.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox.backends.cgroups import CONTROLLERS, Cgroup, CgroupUnavailable, Hierarchy, Limits, find_hierarchy
from sandbox.backends.docker_engine import DEFAULT_SOCKET
from sandbox.errors import MissingRequirement
from sandbox.image.definition import load_profile
from sandbox.image.sources import machine_sources

__all__ = ["Finding", "Status", "examine", "usable"]

Status = Literal["ok", "warn", "missing"]
"""`warn`: it works, but not as well as it could."""
TRIAL_TIMEOUT_S = 15.0
TRIAL_GROUP = "frontdesk-doctor-"
GB = 1 << 30

CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7, "SYS_ADMIN": 21}
"""Linux capabilities that making a desktop takes, by bit number."""

PROGRAMS = {
    "bwrap": ("bubblewrap", "desktops"),
    "mmdebstrap": ("mmdebstrap", "building desktop images"),
    "unshare": ("util-linux", "desktops"),
    "setpriv": ("util-linux", "desktops"),
    "mount": ("mount", "desktops"),
}
"""Program -> its Debian package and what needs it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    """What was found, in a few words."""
    required: bool
    """Desktops do not run without it; what is missing and not required is an option that nobody took."""
    fix: str | None = None
    """The command or setting that supplies it; None when nothing is to be done."""


def usable(findings: list[Finding]) -> bool:
    """Whether nothing that is required is missing."""
    return not any(finding.required and finding.status == "missing" for finding in findings)


def examine(home: Path) -> list[Finding]:
    """Look at everything that desktops, images and training need.

    Args:
        home: where Frontdesk keeps its state; its disk is measured.
    """
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _system,
        _privileges,
        _programs,
        _overlay,
        _namespaces,
        _control_groups,
        _package_sources,
        _size,
        lambda: _disk(home),
        _docker,
        _training,
    )
    return [finding for check in checks for finding in check()]


def _system() -> Iterator[Finding]:
    machine, kernel = platform.machine(), platform.release()
    fits = platform.system() == "Linux" and machine in ("x86_64", "aarch64")
    yield Finding(
        name="system",
        status="ok" if fits else "missing",
        detail=f"{platform.system()} {kernel} on {machine}",
        required=True,
        fix=None if fits else "use a Linux machine, x86_64 or aarch64",
    )


def _privileges() -> Iterator[Finding]:
    if os.geteuid() != 0:
        yield Finding(
            name="root",
            status="missing",
            detail=f"this is user {os.geteuid()}; desktops need root for mounts and for their own users",
            required=True,
            fix="run the same command as root (sudo frontdesk ...)",
        )
        return
    effective = _effective_capabilities()
    lacking = [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]
    yield Finding(
        name="root",
        status="missing" if lacking else "ok",
        detail=f"root, but without {', '.join(lacking)}" if lacking else "root, with every capability that is needed",
        required=True,
        fix=f"start this container with {' '.join(f'--cap-add {name}' for name in lacking)}" if lacking else None,
    )


def _programs() -> Iterator[Finding]:
    for program, (package, purpose) in PROGRAMS.items():
        path = _which(program)
        yield Finding(
            name=program,
            status="ok" if path else "missing",
            detail=path or f"not found; needed for {purpose}",
            required=True,
            fix=None if path else f"apt-get install {package}",
        )


def _overlay() -> Iterator[Finding]:
    """Mount a small overlay as a desktop's root is mounted."""
    script = (
        'mount -t tmpfs -o size=1m tmpfs "$1" && cd "$1" && mkdir lower upper work root && '
        "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root"
    )
    with tempfile.TemporaryDirectory(prefix="frontdesk-doctor-") as where:
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", where]
        yield _trial(
            "overlayfs",
            argv,
            needs=("unshare", "mount"),
            ok="mounted in a private namespace",
            fix="load the kernel module (modprobe overlay); in a container, start it with --privileged",
        )


def _namespaces() -> Iterator[Finding]:
    """Start a program in the namespaces that a desktop has."""
    isolation = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
    yield _trial(
        "namespaces",
        ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *isolation, "true"],
        needs=("bwrap",),
        ok="process, network, ipc and host-name namespaces",
        fix="allow namespaces (sysctl user.max_pid_namespaces, user.max_net_namespaces); in a container, --privileged",
    )


def _trial(name: str, argv: list[str], *, needs: tuple[str, ...], ok: str, fix: str) -> Finding:
    """Run a command that succeeds exactly when a requirement is met."""
    absent = [program for program in needs if _which(program) is None]
    if absent:
        return Finding(
            name=name,
            status="missing",
            detail=f"not tried without {absent[0]}",
            required=True,
            fix=f"install {absent[0]}",
        )
    if os.geteuid() != 0:
        return Finding(name=name, status="warn", detail="only root can try it", required=True)
    try:
        done = subprocess.run(
            [_which(argv[0]) or argv[0], *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TRIAL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding(
            name=name, status="missing", detail=f"no answer in {TRIAL_TIMEOUT_S:.0f} s", required=True, fix=fix
        )
    if done.returncode == 0:
        return Finding(name=name, status="ok", detail=ok, required=True)
    reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return Finding(name=name, status="missing", detail=reason, required=True, fix=fix)


def _control_groups() -> Iterator[Finding]:
    """Make a control group with limits, and remove it."""
    if os.geteuid() != 0:
        yield Finding(name="cgroups", status="warn", detail="only root can try them", required=True)
        return
    try:
        hierarchy = find_hierarchy()
        _sweep_trials(hierarchy)
        trial = Cgroup(hierarchy, f"{TRIAL_GROUP}{os.getpid()}")
        trial.create(Limits(memory_bytes=64 << 20, pids=8, cpus=1.0))
        trial.remove()
    except CgroupUnavailable as error:
        yield Finding(
            name="cgroups",
            status="missing",
            detail=str(error),
            required=True,
            fix="mount the memory, pids and cpu controllers; in a container, --privileged --cgroupns host",
        )
    else:
        detail = f"version {hierarchy.version}, limits on {', '.join(CONTROLLERS)}"
        yield Finding(name="cgroups", status="ok", detail=detail, required=True)


def _sweep_trials(hierarchy: Hierarchy) -> None:
    """Remove the groups of trials that were killed between making and removing theirs."""
    for parent in {*hierarchy.parents.values(), *([hierarchy.accounting] if hierarchy.accounting else [])}:
        for group in parent.glob(f"{TRIAL_GROUP}*"):
            if not Path("/proc", group.name.removeprefix(TRIAL_GROUP)).exists():
                Cgroup(hierarchy, group.name).remove()


def _package_sources() -> Iterator[Finding]:
    """Whether an image can be built from this machine's own package sources."""
    suite = load_profile().suite
    try:
        machine_sources(suite)
    except MissingRequirement as error:
        yield Finding(name="package sources", status="warn", detail=error.what, required=False, fix=error.fix)
    else:
        yield Finding(name="package sources", status="ok", detail=f"{suite}, from /etc/apt", required=False)


def _size() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    yield Finding(
        name="cores",
        status="ok" if cores >= 2 else "warn",
        detail=f"{cores} usable",
        required=False,
        fix=None if cores >= 2 else "two cores or more keep several desktops quick",
    )
    free = _meminfo("MemAvailable")
    yield Finding(
        name="memory",
        status="ok" if free >= 2 * GB else "warn",
        detail=f"{free / GB:.1f} GB available",
        required=False,
        fix=None if free >= 2 * GB else "free some memory: a light desktop takes about 0.15 GB, its apps more",
    )


def _disk(home: Path) -> Iterator[Finding]:
    place = home
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    enough = free >= 3 * GB
    yield Finding(
        name="disk",
        status="ok" if enough else "warn",
        detail=f"{free / GB:.1f} GB free for {home}",
        required=False,
        fix=None if enough else "free 3 GB, or set FRONTDESK_HOME to a folder on a larger disk",
    )


def _docker() -> Iterator[Finding]:
    url = os.environ.get("DOCKER_HOST") or DEFAULT_SOCKET
    here = url.startswith("unix://")
    running = here and Path(url.removeprefix("unix://")).is_socket()
    if running:
        detail = f"daemon at {url.removeprefix('unix://')}"
    elif here:
        detail = "no daemon; the local backend does not need one"
    else:
        detail = f"the daemon at {url} is not one of this machine, and desktops share a directory with theirs"
    yield Finding(
        name="docker",
        status="ok" if running else "missing",
        detail=detail,
        required=False,
        fix=None if here else f"run Frontdesk on the daemon's machine with DOCKER_HOST={DEFAULT_SOCKET}",
    )


def _training() -> Iterator[Finding]:
    for package, extra in (("torch", "train"), ("vllm", "vllm")):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(
                name=package,
                status="missing",
                detail="not installed",
                required=False,
                fix=f".venv/bin/pip install -c constraints.txt -e '.[{extra}]'",
            )
        else:
            yield Finding(name=package, status="ok", detail=version, required=False)


def _which(program: str) -> str | None:
    """A program's path; system folders count even where a user's PATH leaves them out."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _meminfo(field: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0
