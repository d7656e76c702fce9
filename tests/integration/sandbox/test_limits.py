"""A desktop at its limits: processes, memory, disk and its log. The probe outlives them and says what happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec, Observation
from tests.support.live import find_pid, python, sh, wait_for

pytestmark = pytest.mark.desktop


@pytest.fixture
async def tight(backend: LocalBackend) -> AsyncIterator[LocalDesktop]:
    """A desktop with little of everything."""
    booted = await backend.boot(DesktopSpec(width=320, height=240, memory_mb=320, pids=64, disk_mb=96, cpus=0.5))
    try:
        yield booted
    finally:
        await booted.close()


FORK_BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        time.sleep(0.001)
"""


async def test_a_fork_bomb_leaves_room_for_the_probe_and_others(tight: LocalDesktop, shared: LocalDesktop) -> None:
    await tight.spawn(["python3", "-c", FORK_BOMB])

    async def full() -> bool:
        return (await tight.exec(["python3", "-c", "import os; os.fork()"])).exit_code == 1

    await wait_for("the user to have no process left", full)
    looks = await asyncio.gather(*(tight.observe() for _ in range(8)))
    assert all(look.frame is not None for look in looks)
    assert await tight.get_file("/etc/hostname") == b"desktop\n"
    assert (await tight.health()).alive
    await sh(tight, "pkill -9 -u user python3", user="root")
    assert await sh(tight, "true & wait; echo room") == "room\n"
    assert await sh(shared, "for n in $(seq 100); do sleep 1 & done; jobs | wc -l; kill $(jobs -p)") == "100\n"


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


async def test_a_memory_hog_is_ended_and_the_probe_is_not(tight: LocalDesktop) -> None:
    await tight.spawn(["sleep", "1000"])
    hog = "block = []\nwhile True: block.append(bytearray(4 << 20))"
    result = await tight.exec(["python3", "-c", hog], deadline_s=30)
    assert result.exit_code == -9
    assert not result.timed_out
    health = await tight.health()
    assert health.alive
    assert int(health.detail["oom_kills"]) >= 1
    assert health.detail["probe_restarts"] == "0"
    assert (await tight.observe()).frame is not None
    assert await sh(tight, "echo fine") == "fine\n"


async def test_files_in_shared_memory_count_as_memory(tight: LocalDesktop) -> None:
    # Nothing that can be ended frees it: whatever happens to this desktop is typed, and the host keeps its memory.
    with contextlib.suppress(errors.DesktopError):
        await tight.exec(["bash", "-c", "head -c 500M /dev/zero > /dev/shm/hog"], deadline_s=20)
        await tight.observe(deadline_s=5)
    with contextlib.suppress(FileNotFoundError):  # it may be gone altogether
        assert tight.cgroup.memory_bytes() <= 320 << 20


async def test_the_disk_has_its_size(tight: LocalDesktop) -> None:
    result = await tight.exec(["bash", "-c", "head -c 200M /dev/zero > filler; stat -c %s filler"])
    assert b"No space left" in result.stderr
    assert int(result.stdout) <= 96 << 20
    assert (await tight.health()).alive


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
