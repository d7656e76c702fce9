"""Parts of a desktop die: what is left, what is said, and that nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.actions import Press, TypeText, Wait
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from sandbox.image import ImageCache
from tests.support.live import act, edit, kill, sh, start, wait_for

pytestmark = pytest.mark.desktop

SMALL = DesktopSpec(width=320, height=240)


async def _ended(pid: int) -> None:
    async def gone() -> bool:
        return not Path(f"/proc/{pid}").exists()

    await wait_for("the process to end", gone)


async def test_a_probe_that_keeps_dying_ends_the_desktop(backend: LocalBackend) -> None:
    desktop = await backend.boot(SMALL)

    async def killed_for_good() -> bool:
        try:
            await kill(desktop, "probe")
            await desktop.observe()
        except (errors.DesktopLost, AssertionError):
            return not (await desktop.health()).alive
        return False

    await wait_for("the desktop to give up", killed_for_good)
    with pytest.raises(errors.DesktopLost):
        await desktop.observe()
    await desktop.close()


async def test_a_command_whose_probe_dies_is_unknown_and_ends(desktop: LocalDesktop) -> None:
    running = asyncio.create_task(desktop.exec(["bash", "-c", "echo x >> ran; sleep 4714"]))
    await wait_for("the command to run", lambda: sh(desktop, "cat ran 2>/dev/null || true"))
    await kill(desktop, "probe")
    with pytest.raises(errors.ProbeLost) as caught:
        await running
    assert caught.value.phase == "unknown"
    assert await sh(desktop, "cat ran; pgrep -f 'sleep 471[4]' || true") == "x\n"


async def test_a_step_that_cannot_end_in_time_is_not_begun(desktop: LocalDesktop) -> None:
    for slow in (Wait(seconds=6), Press(keys=("a",), hold_s=6), TypeText(text="x" * 6000)):
        with pytest.raises(errors.BadRequest, match=r"take (6|12)\.0 s or more; the deadline is in"):
            await desktop.step([Press(keys=("b",)), slow], deadline_s=4)
    start_s = time.monotonic()
    assert (await desktop.step([Press(keys=("c",))], deadline_s=4)).actions[0].ok
    assert time.monotonic() - start_s < 4


async def test_keys_held_by_a_dead_probe_can_be_released(desktop: LocalDesktop) -> None:
    await act(desktop, {"kind": "key_down", "key": "shift"})
    await kill(desktop, "probe")
    await act(desktop, {"kind": "key_up", "key": "shift"})
    assert await edit(desktop, {"kind": "type", "text": "lower é"}) == "lower é"


async def test_an_application_that_is_killed_is_just_gone(desktop: LocalDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    await sh(desktop, "pkill -9 mousepad")

    async def gone() -> bool:
        return not (await desktop.observe(want=["windows", "a11y"])).windows

    await wait_for("its window to go", gone)
    assert (await desktop.health()).alive
    await start(desktop, ["galculator"], "galculator")


async def test_without_its_window_manager_a_desktop_is_seen_and_says_so(desktop: LocalDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    await sh(desktop, "pkill -9 icewm")
    seen = await desktop.step([TypeText(text="x")], want=["frame", "windows", "a11y"])
    assert seen.observation.frame is not None
    assert seen.observation.windows is not None

    async def told() -> bool:
        detail = (await desktop.health()).detail
        return detail["window_manager"] == "gone" and detail.get("session") == "gone (signal 9)"

    await wait_for("health to tell of it", told)


async def test_when_the_keeper_dies_its_desktops_are_lost_and_reaped(images: ImageCache, backend: LocalBackend) -> None:
    runtime_dir = backend._runtime_dir
    doomed = LocalBackend(images, runtime_dir)
    try:
        desktop = await doomed.boot(SMALL)
        assert doomed._keeper is not None
        pids = desktop.cgroup.processes()
        os.kill(doomed._keeper.pid, signal.SIGKILL)
        with pytest.raises(errors.DesktopLost):
            await desktop.exec(["sleep", "5"])
        assert (await desktop.health()).alive is False
        with pytest.raises(errors.DesktopError, match="keeper"):
            await doomed.boot(SMALL)
        for pid in pids:
            await _ended(pid)
        assert desktop.id in await backend.reap()
        assert not any(path.exists() for path in desktop.cgroup.directories)
        assert await backend.reap() == []
    finally:
        await doomed.close()


async def test_a_desktop_out_of_memory_says_so_in_its_end(backend: LocalBackend) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240, memory_mb=160))
    hog = "block = []\nwhile True: block.append(bytearray(1 << 20))"
    start_s = time.monotonic()
    await desktop.exec(["python3", "-c", hog], user="root", deadline_s=20)
    assert time.monotonic() - start_s < 20
    health = await desktop.health()
    assert int(health.detail["oom_kills"]) >= 1 or "lack of memory" in health.detail["box"]
    await desktop.close()
