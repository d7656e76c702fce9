"""A desktop at its limits: processes, memory and disk. The probe outlives them and says what happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from sandbox import errors
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import Observation
from tests.support.live import FORK_BOMB, find_pid, sh, wait_for

pytestmark = pytest.mark.desktop


@pytest.mark.escape
async def test_a_fork_bomb_leaves_room_for_the_probe_and_others(tight: OwnedDesktop, shared: OwnedDesktop) -> None:
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


@pytest.mark.escape
async def test_a_memory_hog_is_ended_and_the_probe_is_not(tight: OwnedDesktop) -> None:
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


@pytest.mark.escape
async def test_files_in_shared_memory_count_as_memory(tight: OwnedDesktop) -> None:
    # Nothing that can be ended frees it: whatever happens to this desktop is typed, and the host keeps its memory.
    with contextlib.suppress(errors.DesktopError):
        await tight.exec(["bash", "-c", "head -c 500M /dev/zero > /dev/shm/hog"], deadline_s=20)
        await tight.observe(deadline_s=5)
    with contextlib.suppress(FileNotFoundError):  # it may be gone altogether
        assert tight.cgroup.memory_bytes() <= 320 << 20


@pytest.mark.escape
async def test_the_disk_has_its_size(tight: OwnedDesktop) -> None:
    result = await tight.exec(["bash", "-c", "head -c 200M /dev/zero > filler; stat -c %s filler"])
    assert b"No space left" in result.stderr
    assert int(result.stdout) <= 96 << 20
    assert (await tight.health()).alive


@pytest.mark.escape
async def test_when_root_takes_every_process_the_answer_says_so(tight: OwnedDesktop) -> None:
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


async def _looks(desktop: OwnedDesktop) -> bool:
    try:
        return (await desktop.observe()).frame is not None
    except errors.ProbeLost:
        return False


async def test_the_kernel_holds_the_desktop_to_its_cpu_limit(tight: OwnedDesktop) -> None:
    # Read rather than felt: on a busy machine nothing gets as much as half a core.
    files = [path for folder in tight.cgroup.directories for path in (folder / "cpu.max", folder / "cpu.cfs_quota_us")]
    (limit,) = [path for path in files if path.exists()]
    if limit.name == "cpu.max":
        quota, period = limit.read_text().split()
    else:
        quota, period = limit.read_text(), (limit.parent / "cpu.cfs_period_us").read_text()
    assert int(quota) / int(period) == tight.spec.cpus == 0.5
    before = tight.cgroup.cpu_seconds()
    await sh(tight, "for n in $(seq 20000); do :; done")
    assert tight.cgroup.cpu_seconds() > before
