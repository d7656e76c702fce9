"""The hub and the tape on real desktops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandbox.actions import Click, Move, Point, TypeText
from sandbox.backends.local import LocalBackend
from sandbox.backends.recorded import RecordedBackend, RecordingDesktop
from sandbox.backends.tape import Tape
from sandbox.desktop import Desktop, DesktopSpec, Settle
from sandbox.errors import DesktopError, LeaseExpired
from sandbox.evidence import FileRequest
from sandbox.hub import Hub
from sandbox.hub.watch import FROZEN_AFTER

SMALL = DesktopSpec(width=640, height=480)

pytestmark = pytest.mark.desktop


async def test_leases_side_by_side_share_nothing_and_leave_nothing(backend: LocalBackend) -> None:
    async with Hub(backend, capacity=2, warm=1, close_backend=False) as hub:

        async def work(name: str) -> str:
            async with hub.lease(SMALL) as lease:
                await lease.desktop.put_file("/tmp/name", name.encode())
                await lease.desktop.step((Move(point=Point(x=5, y=5)),), request_id="1")
                assert await lease.desktop.get_file("/tmp/name") == name.encode()
                listed = await lease.desktop.exec(["ls", "/tmp"])
                assert listed.stdout.split().count(b"name") == 1
            with pytest.raises(LeaseExpired):
                await lease.desktop.observe()
            return lease.id

        ids = await asyncio.gather(*(work(f"worker {number}") for number in range(4)))
        assert len(set(ids)) == 4
        stats = hub.stats()
        assert stats.retired["released"] == 4
        assert stats.step_p95_s is not None
    assert await backend.reap() == []


async def test_a_desktop_that_dies_under_its_lease_is_replaced(backend: LocalBackend) -> None:
    async with Hub(backend, capacity=1, close_backend=False) as hub:
        async with hub.lease(SMALL) as lease:
            await backend.destroy(lease.id)
            with pytest.raises(DesktopError):
                await lease.desktop.step((TypeText(text="x"),), deadline_s=5)
            assert lease.over is not None
        async with hub.lease(SMALL) as second:
            assert (await second.desktop.observe()).frame is not None


async def test_a_living_screen_never_counts_as_frozen(hub: Hub) -> None:
    async with hub.lease(SMALL) as lease:
        seen = set()
        for number in range(3 * FROZEN_AFTER):
            point = Point(x=(number * 97) % SMALL.width, y=(number * 61) % SMALL.height)
            answer = await lease.desktop.step((Move(point=point),), settle=Settle(first_ms=1))
            assert answer.observation.frame is not None
            seen.add(answer.observation.frame.sha256)
        assert len(seen) == 3 * FROZEN_AFTER  # the pointer is in every frame
        assert lease.over is None


async def test_a_real_desktop_is_recorded_and_played_back(hub: Hub, tmp_path: Path) -> None:
    async def visit(desktop: Desktop) -> list[object]:
        await desktop.put_file("/home/user/note", "naïve".encode())
        return [
            await desktop.observe(("frame", "windows", "a11y")),
            await desktop.step((Click(point=Point(x=300, y=200), button="right"),), want=("frame", "windows")),
            await desktop.exec(["cat", "note"], cwd="/home/user"),
            await desktop.collect((FileRequest(name="note", path="note"), FileRequest(name="none", path="none"))),
        ]

    async with hub.lease(SMALL) as lease:
        with Tape.record(tmp_path / "tape") as tape:
            recorded = await visit(RecordingDesktop(lease.desktop, tape))
    backend = RecordedBackend(tmp_path / "tape")
    assert await visit(await backend.boot(SMALL)) == recorded
    await backend.close()
