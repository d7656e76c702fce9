"""What a desktop leaves on the machine when something goes wrong: processes, mounts, control groups, files."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["remains", "wait_until_gone"]


def remains(home: Path) -> list[str]:
    """Everything on this machine that belongs to a desktop of this state directory."""
    marker = str(home)
    found = [f"process {pid}" for pid in _processes_naming(marker)]
    found += [f"mount {line.split()[1]}" for line in _lines("/proc/self/mounts") if marker in line]
    for backend in home.glob("run/frontdesk-*"):
        found.append(f"directory {backend}")
        found += [f"control group {group}" for group in _control_groups(backend.name)]
    return found


def wait_until_gone(home: Path, *, within_s: float = 20.0) -> list[str]:
    """Wait until nothing is left; return what still is after so many seconds."""
    ends_at = time.monotonic() + within_s
    while (left := remains(home)) and time.monotonic() < ends_at:
        time.sleep(0.05)
    return left


def _processes_naming(marker: str) -> list[str]:
    """Processes whose command line or mount table names the directory."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mounts = (folder / "mountinfo").read_text(errors="replace")
        except OSError:
            continue
        if marker in command or marker in mounts:
            found.append(f"{folder.name} ({command[:60]})")
    return found


def _control_groups(prefix: str) -> list[str]:
    """Control groups of one backend. Walked, not globbed: groups vanish while one looks, and a walk goes on."""
    return [
        f"{folder}/{name}"
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith(prefix)
    ]


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
