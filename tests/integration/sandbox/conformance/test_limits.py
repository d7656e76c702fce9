"""A desktop at its limits: processes, memory and disk. The probe outlives them and says what happened."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.backends.owned import OwnedDesktop
from tests.support.live import FORK_BOMB, sh, wait_for

pytestmark = pytest.mark.desktop


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


async def test_the_disk_has_its_size(tight: OwnedDesktop) -> None:
    result = await tight.exec(["bash", "-c", "head -c 200M /dev/zero > filler; stat -c %s filler"])
    assert b"No space left" in result.stderr
    assert int(result.stdout) <= 96 << 20
    assert (await tight.health()).alive
