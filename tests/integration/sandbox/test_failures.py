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
from tests.support.live import act, edit, find_pid, sh, start, wait_for

pytestmark = pytest.mark.desktop

SMALL = DesktopSpec(width=320, height=240)


async def _ended(pid: int) -> None:
    async def gone() -> bool:
        return not Path(f"/proc/{pid}").exists()

    await wait_for("the process to end", gone)


async def _kill(desktop: LocalDesktop, role: str) -> None:
    pid = find_pid(desktop, role)
    os.kill(pid, signal.SIGKILL)
    await _ended(pid)


async def test_a_probe_that_dies_idle_is_started_again(desktop: LocalDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    versions = {(await desktop.observe()).version}
    for number in (1, 2, 3):
        await _kill(desktop, "probe")
        seen = await desktop.step([TypeText(text="x")], want=["frame", "windows"])
        assert seen.actions[0].ok
        assert [window.app for window in seen.observation.windows or ()] == ["mousepad"]  # it lived on
        assert seen.observation.version not in versions
        versions.add(seen.observation.version)
        health = await desktop.health()
        assert (health.alive, health.detail["probe_restarts"]) == (True, str(number))
        assert health.detail["probe_last_end"] == "signal 9"
    assert "mousepad" in {node.name for node in (await desktop.observe(want=["a11y"])).a11y or ()}


async def test_a_probe_that_keeps_dying_ends_the_desktop(backend: LocalBackend) -> None:
    desktop = await backend.boot(SMALL)

    async def killed_for_good() -> bool:
        try:
            await _kill(desktop, "probe")
            await desktop.observe()
        except (errors.DesktopLost, AssertionError):
            return not (await desktop.health()).alive
        return False

    await wait_for("the desktop to give up", killed_for_good)
    with pytest.raises(errors.DesktopLost):
        await desktop.observe()
    await desktop.close()


async def test_a_step_whose_probe_dies_is_unknown_and_not_done_again(desktop: LocalDesktop) -> None:
    text = "0123456789" * 30
    await desktop.put_file("t.txt", b"")
    await start(desktop, ["mousepad", "t.txt"], "mousepad")
    step = asyncio.create_task(desktop.step([TypeText(text=text), Wait(seconds=5)]))
    await asyncio.sleep(0.5)
    await _kill(desktop, "probe")
    with pytest.raises(errors.ProbeLost) as caught:
        await step
    assert caught.value.phase == "unknown"
    await act(desktop, {"kind": "press", "keys": ["ctrl", "s"]}, {"kind": "wait", "seconds": 0.3})
    typed = (await desktop.get_file("t.txt")).decode()
    assert typed
    assert len(typed) <= len(text)
    assert text.startswith(typed)


async def test_a_command_whose_probe_dies_is_unknown_and_ends(desktop: LocalDesktop) -> None:
    running = asyncio.create_task(desktop.exec(["bash", "-c", "echo x >> ran; sleep 4714"]))
    await wait_for("the command to run", lambda: sh(desktop, "cat ran 2>/dev/null || true"))
    await _kill(desktop, "probe")
    with pytest.raises(errors.ProbeLost) as caught:
        await running
    assert caught.value.phase == "unknown"
    assert await sh(desktop, "cat ran; pgrep -f 'sleep 471[4]' || true") == "x\n"


async def test_keys_held_by_a_dead_probe_can_be_released(desktop: LocalDesktop) -> None:
    await act(desktop, {"kind": "key_down", "key": "shift"})
    await _kill(desktop, "probe")
    await act(desktop, {"kind": "key_up", "key": "shift"})
    assert await edit(desktop, {"kind": "type", "text": "lower é"}) == "lower é"


async def test_without_its_x_server_a_desktop_is_lost(desktop: LocalDesktop) -> None:
    step = asyncio.create_task(desktop.step([Wait(seconds=1), Press(keys=("a",))]))
    await asyncio.sleep(0.2)
    await _kill(desktop, "xserver")
    with pytest.raises(errors.DesktopLost):
        await step
    for _ in range(2):
        with pytest.raises(errors.DesktopLost, match=r"gone \(signal 9\)"):
            await desktop.observe(want=["frame", "windows"])
        with pytest.raises(errors.DesktopLost):
            await desktop.step([Press(keys=("a",))])
    health = await desktop.health()
    assert not health.alive
    assert health.detail["xserver"] == "gone (signal 9)"
    assert await sh(desktop, "echo files can still be taken out") != ""


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


async def test_everything_of_the_users_killed(desktop: LocalDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    result = await desktop.exec(["bash", "-c", "kill -9 -1"])
    assert result.exit_code in (-9, 0)
    assert (await desktop.observe()).frame is not None
    assert (await desktop.health()).detail["session"] == "gone (signal 9)"
    assert await sh(desktop, "echo on") == "on\n"


async def test_python_killed_by_name_and_the_home_removed(desktop: LocalDesktop) -> None:
    assert await desktop.observe(want=["a11y"])
    await desktop.exec(["pkill", "-9", "-f", "python3"])
    assert (await desktop.health()).detail["probe_restarts"] == "0"
    assert (await desktop.observe(want=["a11y", "frame"])).a11y is not None
    await sh(desktop, "rm -rf ~ 2>/dev/null; rm -rf /tmp/* /run/user/desktop/* 2>/dev/null; true")
    seen = await desktop.step([Press(keys=("a",))], want=["frame", "windows"])
    assert seen.observation.frame is not None
    await desktop.put_file("back", b"there")
    assert await desktop.get_file("back") == b"there"


async def test_when_its_first_process_dies_a_desktop_is_lost(backend: LocalBackend) -> None:
    desktop = await backend.boot(SMALL)
    running = asyncio.create_task(desktop.exec(["sleep", "60"]))
    await asyncio.sleep(0.2)
    await _kill(desktop, "spawner")
    with pytest.raises(errors.DesktopLost, match="first process ended with"):
        await running
    assert (await desktop.health()).alive is False
    with pytest.raises(errors.DesktopLost):
        await desktop.exec(["true"])
    await desktop.close()


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
