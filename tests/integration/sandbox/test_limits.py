"""A desktop at its limits: processes, memory, disk and its log. The probe outlives them and says what happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends.local import LocalDesktop
from sandbox.desktop import Observation
from tests.support.live import FORK_BOMB, find_pid, python, wait_for

pytestmark = pytest.mark.desktop


async def test_when_root_takes_every_process_the_answer_says_so(tight: LocalDesktop) -> None:
    own = tight.cgroup.processes()
    await tight.spawn(["python3", "-c", FORK_BOMB], user="root")

    async def full() -> bool:
        try:
            await tight.exec(["true"])
        except errors.Unavailable as error:
            return "no room for another process" in str(error)
        return False

    await wait_for("the desktop to be full", full)
    assert len(tight.cgroup.processes()) <= 64
    # Calls side by side need connections of their own, and those a thread each.
    looks = await asyncio.gather(*(tight.observe() for _ in range(8)), return_exceptions=True)
    assert isinstance(looks[0], Observation)
    assert all(isinstance(look, Observation | errors.Unavailable) for look in looks)
    with pytest.raises(errors.Unavailable):
        await tight.get_file("/etc/hostname")
    health = await tight.health()
    assert (health.alive, health.detail["probe_restarts"]) == (True, "0")
    # Now there is no room for the probe itself either, until the bomb is gone.
    bombs = tight.cgroup.processes() - own
    os.kill(find_pid(tight, "probe"), signal.SIGKILL)
    with pytest.raises(errors.ProbeLost):
        await tight.observe()
    for pid in bombs:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await wait_for("the probe to be started", lambda: _looks(tight))


async def _looks(desktop: LocalDesktop) -> bool:
    try:
        return (await desktop.observe()).frame is not None
    except errors.ProbeLost:
        return False


async def test_files_in_shared_memory_count_as_memory(tight: LocalDesktop) -> None:
    # Nothing that can be ended frees it: whatever happens to this desktop is typed, and the host keeps its memory.
    with contextlib.suppress(errors.DesktopError):
        await tight.exec(["bash", "-c", "head -c 500M /dev/zero > /dev/shm/hog"], deadline_s=20)
        await tight.observe(deadline_s=5)
    with contextlib.suppress(FileNotFoundError):  # it may be gone altogether
        assert tight.cgroup.memory_bytes() <= 320 << 20


PRINT = """
# What a program of the session prints goes where the window manager's does: take that descriptor and print.
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for entry in os.listdir("/proc"):
    try:
        if entry.isdigit() and open(f"/proc/{entry}/comm").read() == "icewm\\n":
            fd = libc.syscall(438, os.pidfd_open(int(entry)), 1, 0)
            break
    except OSError:
        pass
assert fd >= 0, ctypes.get_errno()
for _ in range(200):
    os.write(fd, b"x" * 65536)
print(os.readlink(f"/proc/self/fd/{fd}"))
"""


async def test_what_a_desktop_prints_does_not_fill_the_hosts_disk(tight: LocalDesktop) -> None:
    printed_to = await python(tight, PRINT)
    assert printed_to.startswith("pipe:")
    log = tight.address.socket.parent.parent / "log"

    async def written() -> bool:
        return log.stat().st_size > 1 << 16

    await wait_for("the log to have what it keeps", written)
    assert log.stat().st_size <= 300_000
    assert (await tight.health()).alive


async def test_the_cpu_limit_holds(tight: LocalDesktop) -> None:
    for _ in range(8):
        await tight.spawn(["bash", "-c", "while :; do :; done"])

    async def throttled() -> bool:
        stats = [_read(path / "cpu.stat") for path in tight.cgroup.directories]
        return any("nr_throttled" in stat and "nr_throttled 0\n" not in stat for stat in stats)

    await wait_for("the desktop to be slowed down", throttled)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
