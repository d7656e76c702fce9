"""Parts of a desktop die: what is left, what is said, and that nothing is done twice."""

from __future__ import annotations

import asyncio

import pytest

from sandbox import errors
from sandbox.actions import Press, TypeText, Wait
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from tests.support.backends import DesktopBackend
from tests.support.live import act, kill, sh, start

pytestmark = pytest.mark.desktop

SMALL = DesktopSpec(width=320, height=240)


async def test_a_probe_that_dies_idle_is_started_again(desktop: OwnedDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    versions = {(await desktop.observe()).version}
    for number in (1, 2, 3):
        await kill(desktop, "probe")
        seen = await desktop.step([TypeText(text="x")], want=["frame", "windows"])
        assert seen.actions[0].ok
        assert [window.app for window in seen.observation.windows or ()] == ["mousepad"]  # it lived on
        assert seen.observation.version not in versions
        versions.add(seen.observation.version)
        health = await desktop.health()
        assert (health.alive, health.detail["probe_restarts"]) == (True, str(number))
        assert health.detail["probe_last_end"] == "signal 9"
    assert "mousepad" in {node.name for node in (await desktop.observe(want=["a11y"])).a11y or ()}


async def test_a_step_whose_probe_dies_is_unknown_and_not_done_again(desktop: OwnedDesktop) -> None:
    text = "0123456789" * 30
    await desktop.put_file("t.txt", b"")
    await start(desktop, ["mousepad", "t.txt"], "mousepad")
    step = asyncio.create_task(desktop.step([TypeText(text=text), Wait(seconds=5)]))
    await asyncio.sleep(0.5)
    await kill(desktop, "probe")
    with pytest.raises(errors.ProbeLost) as caught:
        await step
    assert caught.value.phase == "unknown"
    await act(desktop, {"kind": "press", "keys": ["ctrl", "s"]}, {"kind": "wait", "seconds": 0.3})
    typed = (await desktop.get_file("t.txt")).decode()
    assert typed
    assert len(typed) <= len(text)
    assert text.startswith(typed)


async def test_without_its_x_server_a_desktop_is_lost(desktop: OwnedDesktop) -> None:
    step = asyncio.create_task(desktop.step([Wait(seconds=1), Press(keys=("a",))]))
    await asyncio.sleep(0.2)
    await kill(desktop, "xserver")
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


@pytest.mark.escape
async def test_everything_of_the_users_killed(desktop: OwnedDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    result = await desktop.exec(["bash", "-c", "kill -9 -1"])
    assert result.exit_code in (-9, 0)
    assert (await desktop.observe()).frame is not None
    assert (await desktop.health()).detail["session"] == "gone (signal 9)"
    assert await sh(desktop, "echo on") == "on\n"


@pytest.mark.escape
async def test_python_killed_by_name_and_the_home_removed(desktop: OwnedDesktop) -> None:
    assert await desktop.observe(want=["a11y"])
    await desktop.exec(["pkill", "-9", "-f", "python3"])
    assert (await desktop.health()).detail["probe_restarts"] == "0"
    assert (await desktop.observe(want=["a11y", "frame"])).a11y is not None
    await sh(desktop, "rm -rf ~ 2>/dev/null; rm -rf /tmp/* /run/user/desktop/* 2>/dev/null; true")
    seen = await desktop.step([Press(keys=("a",))], want=["frame", "windows"])
    assert seen.observation.frame is not None
    await desktop.put_file("back", b"there")
    assert await desktop.get_file("back") == b"there"


async def test_when_its_first_process_dies_a_desktop_is_lost(backend: DesktopBackend) -> None:
    desktop = await backend.boot(SMALL)
    running = asyncio.create_task(desktop.exec(["sleep", "60"]))
    await asyncio.sleep(0.2)
    await kill(desktop, "spawner")
    with pytest.raises(errors.DesktopLost, match="first process ended with"):
        await running
    assert (await desktop.health()).alive is False
    with pytest.raises(errors.DesktopLost):
        await desktop.exec(["true"])
    await desktop.close()
