"""A desktop of the office image for tests: its windows, its accessibility trees, and two pages for Chromium.

One page has a text field and saves the field's value as a download; a tab, which would leave the field, is inserted by
the page. The other fills the screen and saves what it was told of mouse and keys.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sandbox.actions import Action, Press
from sandbox.desktop import A11yNode, Backend, Desktop, DesktopSpec, Settle, Window

__all__ = ["FIELD_PAGE", "OFFICE", "TREES", "Seen", "TreeApp", "office_desktop", "open_window", "shown", "tree_of"]

OFFICE = DesktopSpec(profile="office", memory_mb=3072, pids=1024, network="none")
"""1280x720, with room for LibreOffice and Chromium at once."""

_FIELD = """<!doctype html>
<meta charset="utf-8">
<title>loading</title>
<textarea aria-label="Text" autofocus autocomplete="off" spellcheck="false" rows="20" cols="80"></textarea>
<script>
  const field = document.querySelector("textarea");
  const name = location.search.slice(1);
  document.title = name;
  field.addEventListener("keydown", (event) => {
    if (event.key === "Tab") {
      event.preventDefault();
      document.execCommand("insertText", false, "\\t");
    } else if (event.key === "F8") {
      event.preventDefault();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([field.value]));
      link.download = name;
      link.click();
    }
  });
</script>
"""
FIELD_PAGE, _PAD_PATH = "field.html", "pad.html"
_PAD = """<!doctype html>
<meta charset="utf-8">
<title>pad</title>
<body style="margin: 0; width: 5000px; height: 5000px; user-select: none">
<script>
  let seen = { clicks: [], pressed: [], keys: [] };
  let number = 0;
  addEventListener("click", (e) => seen.clicks.push([e.screenX, e.screenY, e.detail, e.ctrlKey, e.shiftKey]));
  addEventListener("pointermove", (e) => {
    // One event stands for all moves of a frame.
    if (e.buttons & 1) seen.pressed.push(...e.getCoalescedEvents().map((moved) => [moved.screenX, moved.screenY]));
  });
  addEventListener("keydown", (e) => {
    if (e.key !== "F8") {
      seen.keys.push([e.key, e.ctrlKey, e.shiftKey]);
      return;
    }
    e.preventDefault();
    const link = document.createElement("a");
    seen.scrolled = [scrollX, scrollY];
    link.href = URL.createObjectURL(new Blob([JSON.stringify(seen)]));
    link.download = `seen-${++number}.json`;
    link.click();
    seen = { clicks: [], pressed: [], keys: [] };
  });
</script>
"""
_OPENED = Settle(first_ms=300, quiet_ms=200, cap_ms=4000)
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeApp:
    """An application whose accessibility tree is read."""

    argv: tuple[str, ...]
    window: str
    """Its windows' class."""
    root: str
    """Its accessible name."""
    has: tuple[tuple[str, str], ...]
    """Roles and names of some of its nodes."""
    process: str


TREES: dict[str, TreeApp] = {
    "calc": TreeApp(
        argv=("localc",),
        window="libreoffice-calc",
        root="soffice",
        has=(("menu", "File"), ("table", "Sheet Sheet1"), ("table cell", "A1")),
        process="soffice.bin",
    ),
    "chromium": TreeApp(
        argv=("chromium", f"file:///home/user/{FIELD_PAGE}?tree"),
        window="chromium",
        root="Chromium",
        has=(("push button", "New Tab"), ("entry", "Address and search bar"), ("entry", "Text")),
        process="chromium",
    ),
    "featherpad (Qt)": TreeApp(
        argv=("featherpad",),
        window="featherpad",
        root="FeatherPad",
        has=(("push button", "Save"), ("menu item", "File"), ("page tab", "Untitled")),
        process="featherpad",
    ),
    "gedit (GTK)": TreeApp(
        argv=("gedit",),
        window="gedit",
        root="gedit",
        has=(("push button", "Save"), ("frame", "Untitled Document 1 - gedit")),
        process="gedit",
    ),
}


@asynccontextmanager
async def shown(desktop: Desktop, app: TreeApp) -> AsyncIterator[None]:
    """The application with a new document, open and ready for the keyboard for the length of a block."""
    await desktop.spawn(app.argv)
    try:
        await open_window(desktop, app.window)
        yield
    finally:
        await desktop.exec(["pkill", "-KILL", "-f", app.process])
        while any(window.app == app.window for window in (await desktop.observe(want=["windows"])).windows or ()):
            await asyncio.sleep(_POLL_S)


async def tree_of(desktop: Desktop, app: TreeApp, *, deadline_s: float = 10.0) -> A11yNode:
    """The application's root in one look at all accessibility trees."""
    roots = (await desktop.observe(want=["a11y"], deadline_s=deadline_s)).a11y or ()
    return next(root for root in roots if root.name == app.root)


class Seen:
    """What a page that fills Chromium's whole screen was told of mouse and keys."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop
        self._number = 0

    async def open(self) -> None:
        """Show the page."""
        await self._desktop.spawn(["chromium", "--kiosk", f"file:///home/user/{_PAD_PATH}"])
        await open_window(self._desktop, "chromium", "pad")

    async def __call__(self, *actions: Action, timeout_s: float = 30.0) -> dict[str, Any]:
        """Execute actions, and return the page's `clicks`, points `pressed`, `keys` and how far it is `scrolled`.

        A click is [x, y, how many in a row, ctrl, shift]; a key [name, ctrl, shift].
        """
        await self._desktop.step(actions, want=(), settle=_OPENED)
        await self._desktop.step([Press(keys=("f8",))], want=())
        self._number += 1
        until = time.monotonic() + timeout_s
        while True:
            read = await self._desktop.exec(["cat", f"Downloads/seen-{self._number}.json"])
            if read.stdout:
                told: dict[str, Any] = json.loads(read.stdout)
                return told
            if time.monotonic() > until:
                raise TimeoutError("the page does not say what it saw")
            await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def office_desktop(backend: Backend) -> AsyncIterator[Desktop]:
    """A desktop of the office image with the pages that Chromium is shown."""
    desktop = await backend.boot(OFFICE)
    try:
        await desktop.put_file(FIELD_PAGE, _FIELD.encode())
        await desktop.put_file(_PAD_PATH, _PAD.encode())
        yield desktop
    finally:
        await desktop.close()


async def open_window(desktop: Desktop, app: str, title: str = "", *, timeout_s: float = 60.0) -> Window:
    """Wait until the active window is one of this class and title, is drawn, and something in it has the keyboard.

    Raises:
        TimeoutError: that does not come; the message names the windows that are there.
    """
    until = time.monotonic() + timeout_s
    while True:
        windows = (await desktop.observe(want=["windows"])).windows or ()
        for window in windows:
            if window.active and window.app == app and title in window.title and await _has_focus(desktop, window):
                await desktop.step([], settle=_OPENED, want=())
                return window
        if time.monotonic() > until:
            raise TimeoutError(f"no window of {app} with {title!r} in its title took the keyboard: {windows}")
        await asyncio.sleep(_POLL_S)


async def _has_focus(desktop: Desktop, window: Window) -> bool:
    nodes = list((await desktop.observe(want=["a11y"])).a11y or ())
    while nodes:
        node = nodes.pop()
        if "focused" in node.states and node.bounds is not None and _meet(node, window):
            return True
        nodes.extend(node.children)
    return False


def _meet(node: A11yNode, window: Window) -> bool:
    assert node.bounds is not None
    x, y = node.bounds.x - window.bounds.x, node.bounds.y - window.bounds.y
    return -node.bounds.width < x < window.bounds.width and -node.bounds.height < y < window.bounds.height
