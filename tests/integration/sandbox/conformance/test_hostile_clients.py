"""X clients that mean harm: they can spoil their own screen, not the probe."""

from __future__ import annotations

import asyncio
import time

import pytest

from sandbox import errors
from sandbox.actions import Click, Point, Press, TypeText
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import Settle
from tests.support.live import act, edit, python, run_json, sh, start, wait_for

pytestmark = pytest.mark.desktop

KILL_ALL = """
# Kills every client that owns a resource, by guessing resource ids; prints how many of its own victims died.
import json, time
from Xlib import display, X, error
from Xlib.protocol import request
victims = []
for _ in range(3):
    victim = display.Display()
    victims.append((victim, victim.screen().root.create_window(0, 0, 1, 1, 0, X.CopyFromParent)))
    victim.sync()
d = display.Display()
d.set_error_handler(lambda *_: None)
own = d.display.info.resource_id_base
step = d.display.info.resource_id_mask + 1
bases = {n * step for n in range(1, 64)} - {own}
killed = 0
for base in sorted(bases):
    for low in range(0, 24):
        request.KillClient(display=d.display, onerror=lambda *_: None, resource=base | low)
    # What the server makes for a client itself (event selections, damage) has ids with this bit.
    for low in range(0, 24):
        request.KillClient(display=d.display, onerror=lambda *_: None, resource=base | (1 << 30) | low)
d.sync()
for victim, _ in victims:
    try:
        victim.sync()
    except (error.ConnectionClosedError, OSError):
        killed += 1
print(json.dumps(killed))
"""


@pytest.mark.escape
async def test_killing_every_client_leaves_the_probe_its_eyes_and_hands(desktop: OwnedDesktop) -> None:
    assert await run_json(desktop, KILL_ALL) == 3
    # The window manager died as a client as well; the probe looks, settles and acts on.
    first = await desktop.step([Click(point=Point(x=5, y=5))], settle=Settle(cap_ms=300))
    assert first.actions[0].ok
    health = await desktop.health()
    assert health.alive
    assert int(health.detail["damage_reconnects"]) >= 1

    async def still() -> bool:
        return not (await desktop.step([Press(keys=("f9",))], want=())).settle.changed

    await wait_for("what the dying clients left to be drawn", still)
    draw = (
        "from Xlib import display; import time; d = display.Display(); s = d.screen();"
        "w = s.root.create_window(10, 10, 50, 50, 0, s.root_depth, override_redirect=1, background_pixel=0xff0000);"
        "w.map(); d.sync(); time.sleep(60)"
    )
    before = (await desktop.observe()).frame
    waiting = asyncio.create_task(
        desktop.step([Press(keys=("f9",))], settle=Settle(first_ms=4000, quiet_ms=50, cap_ms=5000))
    )
    await asyncio.sleep(0.2)
    await desktop.spawn(["python3", "-c", draw])
    seen = await waiting
    assert (seen.settle.changed, seen.settle.settled) == (True, True)
    assert seen.settle.waited_ms < 4000
    assert seen.observation.frame != before


GRAB_SERVER = "from Xlib import display; import time; d = display.Display(); d.grab_server(); d.sync(); time.sleep(60)"


@pytest.mark.escape
async def test_a_grabbed_server_is_a_deadline_and_never_a_hang(desktop: OwnedDesktop) -> None:
    pid = await desktop.spawn(["python3", "-c", GRAB_SERVER])
    await asyncio.sleep(0.4)
    start_s = time.monotonic()
    with pytest.raises(errors.DeadlineExceeded) as caught:
        await desktop.step([TypeText(text="x")], deadline_s=1.0)
    assert time.monotonic() - start_s < 5
    assert caught.value.phase == "unknown"
    # What needs no X server answers, and so tells what is wrong.
    assert await sh(desktop, "echo here") == "here\n"
    health = await desktop.health()
    assert health.detail["window_manager"] == "unknown: the X server is busy"
    await sh(desktop, f"kill {pid}")

    async def looks() -> bool:
        try:
            return (await desktop.observe(deadline_s=1.0)).frame is not None
        except errors.DeadlineExceeded:
            return False

    await wait_for("the desktop to answer again", looks)


GRAB_INPUT = """
from Xlib import display, X
import time
d = display.Display()
w = d.screen().root
w.grab_keyboard(True, X.GrabModeSync, X.GrabModeSync, X.CurrentTime)
w.grab_pointer(True, X.ButtonPressMask, X.GrabModeSync, X.GrabModeSync, 0, 0, X.CurrentTime)
d.sync()
time.sleep(60)
"""


@pytest.mark.escape
async def test_grabbed_and_frozen_input_hangs_nothing(desktop: OwnedDesktop) -> None:
    pid = await desktop.spawn(["python3", "-c", GRAB_INPUT])
    await asyncio.sleep(0.4)
    done = await desktop.step([Click(point=Point(x=10, y=10)), TypeText(text="abc é")], deadline_s=5)
    assert all(action.ok for action in done.actions)
    await sh(desktop, f"kill {pid}")
    assert await edit(desktop, {"kind": "type", "text": "fine"}) == "fine"


FORGE_WINDOWS = """
from Xlib import display, X, Xatom
import time, sys
d = display.Display()
root = d.screen().root
w = root.create_window(50, 50, 100, 100, 0, X.CopyFromParent)
name, cls = d.intern_atom("_NET_WM_NAME"), d.intern_atom("WM_CLASS")
w.change_property(name, d.intern_atom("UTF8_STRING"), 8, b"\\xff\\xfe not utf-8 \\x00 end")
w.change_property(cls, Xatom.STRING, 8, b"no terminator")
w.change_property(d.intern_atom("_NET_WM_WINDOW_TYPE"), Xatom.STRING, 8, b"text")
w.map()
odd = root.create_window(50, 50, 100, 100, 0, X.CopyFromParent)
odd.change_property(name, Xatom.CARDINAL, 32, [1, 2, 3])
odd.change_property(cls, Xatom.CARDINAL, 32, [1, 2, 3])
odd.change_property(d.intern_atom("WM_TRANSIENT_FOR"), Xatom.STRING, 8, b"")
odd.map()
d.sync()
time.sleep(0.5)
for prop in ("_NET_CLIENT_LIST_STACKING", "_NET_CLIENT_LIST"):
    if sys.argv[1] == "list":
        root.change_property(d.intern_atom(prop), Xatom.WINDOW, 32, [w.id, odd.id, 0, 1, 0xFFFFFFFF, root.id])
    if sys.argv[1] == "bytes":
        root.change_property(d.intern_atom(prop), Xatom.STRING, 8, b"abc")
if sys.argv[1] == "bytes":
    root.change_property(d.intern_atom("_NET_ACTIVE_WINDOW"), Xatom.STRING, 8, b"")
    root.change_property(d.intern_atom("_NET_SUPPORTING_WM_CHECK"), Xatom.STRING, 8, b"x")
d.sync()
print("done", flush=True)
time.sleep(60)
"""


@pytest.mark.escape
@pytest.mark.parametrize("forgery", ["properties", "list", "bytes"])
async def test_forged_window_properties_are_read_as_far_as_they_go(desktop: OwnedDesktop, forgery: str) -> None:
    await sh(
        desktop, f"python3 -c '{FORGE_WINDOWS}' {forgery} > forged & until grep -q done forged; do sleep 0.05; done"
    )
    windows = (await desktop.observe(want=["windows", "frame"])).windows
    assert windows is not None
    if forgery == "list":
        assert len(windows) >= 2
    assert all(isinstance(window.title, str) and isinstance(window.app, str) for window in windows)
    assert (await desktop.health()).alive
    evidence = await desktop.observe(want=["frame"])
    assert evidence.frame is not None


@pytest.mark.escape
async def test_a_changed_screen_keeps_its_size_for_the_probe(desktop: OwnedDesktop) -> None:
    resize = (
        "from Xlib import display; from Xlib.ext import randr; d = display.Display(); r = d.screen().root;"
        "r.xrandr_set_screen_size(400, 300, 100, 80) if hasattr(r, 'xrandr_set_screen_size') else None; d.sync()"
    )
    await desktop.exec(["python3", "-c", resize])
    await desktop.exec(["xrandr", "-s", "640x480"]) if await sh(desktop, "which xrandr || true") else None
    seen = await desktop.step([Click(point=Point(x=700, y=500))])
    assert seen.observation.frame is not None
    assert (seen.observation.frame.width, seen.observation.frame.height) == (800, 600)


CHURN = """
# Clients that come and go, windows by the hundred, and keyboard maps that change all the time.
from Xlib import display, X
import os, time
while not os.path.exists("enough"):
    d = display.Display()
    for n in range(20):
        w = d.screen().root.create_window(n * 9, n * 9, 60, 60, 1, X.CopyFromParent)
        w.map()
    d.change_keyboard_mapping(100, [[0x61 + int(time.time() * 100) % 26] * 4])
    d.sync()
    d.close()
"""


@pytest.mark.escape
async def test_churn_on_the_screen_spoils_no_step(desktop: OwnedDesktop) -> None:
    await start(desktop, ["mousepad", "x.txt"], "mousepad")
    churn = asyncio.create_task(python(desktop, CHURN))
    for _ in range(5):
        assert not churn.done()
        seen = await desktop.step(
            [Press(keys=("f7",))], settle=Settle(cap_ms=100), want=["frame", "windows"], deadline_s=10
        )
        assert seen.actions[0].ok
    await desktop.put_file("enough", b"")
    await churn
    await act(desktop, {"kind": "press", "keys": ["ctrl", "q"]})
    assert (await desktop.health()).detail["probe_restarts"] == "0"
