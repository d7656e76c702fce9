"""What a desktop's container is allowed, and the files that differ between desktops.

The same desktop as the local backend's: the spawner is the first process and keeps SETUID, SETGID and KILL, the users
have uids of their own, and what the desktop's user can write lies in memory, each place of it bounded by the spec's
disk size and all of them by its memory limit. Only root's own changes go to the container's layer on the disk.
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import json
import os
import socket
import struct
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sandbox.backends.launch import CODE, HOME, RUNTIME_DIR, START, Uids, accounts
from sandbox.backends.seccomp import docker_profile
from sandbox.desktop import DesktopSpec

__all__ = ["COMMAND", "desktop_files", "host_config", "lower_loopback"]

COMMAND = ["/usr/bin/python3", "-I", "-S", "-c", START]
CPU_PERIOD_US = 50_000
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, SIOCSIFADDR = 0x8914, 0x8916


def host_config(spec: DesktopSpec, uids: Uids, *, control: Path, code: Path) -> dict[str, Any]:
    """The HostConfig of a desktop's container, in the words of Docker's API.

    Args:
        control: the directory that both sides see, where the probe listens.
        code: the staged probe.
    """
    memory = spec.memory_mb << 20
    return {
        "AutoRemove": True,
        "CapAdd": ["SETUID", "SETGID", "KILL"],
        "CapDrop": ["ALL"],
        "CgroupnsMode": "private",
        "CpuPeriod": CPU_PERIOD_US,
        "CpuQuota": max(1000, int(spec.cpus * CPU_PERIOD_US)),
        "IpcMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "MaskedPaths": list(MASKED),
        "Memory": memory,
        "MemorySwap": memory,
        "Mounts": [
            {"Type": "bind", "Source": str(control), "Target": "/run/frontdesk/ctl"},
            {"Type": "bind", "Source": str(code), "Target": CODE, "ReadOnly": True},
        ],
        "NetworkMode": "none",
        "PidsLimit": spec.pids,
        "ReadonlyPaths": list(READ_ONLY),
        "SecurityOpt": ["no-new-privileges", f"seccomp={json.dumps(docker_profile())}"],
        "ShmSize": memory,
        "Tmpfs": _writable(spec, uids),
        "UsernsMode": "host",
    }


def _writable(spec: DesktopSpec, uids: Uids) -> dict[str, str]:
    """Everything that the desktop's user can write, as tmpfs mounts."""
    size = f"exec,size={spec.disk_mb}m"
    user = f"uid={uids.user},gid={uids.user},mode=0700"
    return {
        HOME: f"{size},{user}",
        RUNTIME_DIR: f"{size},{user}",
        "/run/frontdesk/fb": f"uid={uids.xserver},gid={uids.xserver},mode=0700",
        "/run/lock": f"{size},mode=1777",
        "/tmp": f"{size},mode=1777",
        "/tmp/.X11-unix": f"{size},mode=1777",
        "/var/tmp": f"{size},mode=1777",
    }


def desktop_files(image_root: Path, uids: Uids) -> bytes:
    """A tar of what differs between desktops and is not in memory: the users."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in accounts(image_root, uids).items():
            data = text.encode()
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def lower_loopback(pid: int) -> None:
    """Take down the one interface that a container without networks still has.

    Args:
        pid: a process of the container.

    Raises:
        OSError: it cannot be done.
    """
    # A thread of its own: it enters the container's network for the rest of its life.
    with ThreadPoolExecutor(1) as threads:
        threads.submit(_lower_loopback, pid).result()


def _lower_loopback(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{pid}/ns/net").open() as network:
        if libc.setns(network.fileno(), CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"entering the container's network: {os.strerror(code)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as request:
        # Without its address as well, whoever connects is told at once that there is no network.
        fcntl.ioctl(request, SIOCSIFADDR, struct.pack("16sHH4s16x", b"lo", socket.AF_INET, 0, bytes(4)))
        fcntl.ioctl(request, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", 0))
