"""Text typed into the office image's applications, and read back from what they saved.

Nothing helps the text along: it is typed into a new, empty document and saved, and the file is the answer. Writer
saves flat OpenDocument, whose paragraphs are the lines. Chromium has a page with one text field, which saves the
field's value as a download; a tab, which would leave the field, is inserted by the page.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from sandbox.actions import Action, Press, TypeText
from sandbox.desktop import A11yNode, Backend, Desktop, DesktopSpec, Settle, Window

__all__ = [
    "APPS",
    "CASES",
    "OFFICE",
    "TREES",
    "Seen",
    "TreeApp",
    "TypedApp",
    "office_desktop",
    "open_window",
    "shown",
    "tree_of",
    "type_into",
]

OFFICE = DesktopSpec(profile="office", memory_mb=3072, pids=1024, network="none")
"""1280x720, with room for LibreOffice and Chromium at once."""

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F))
CASES: dict[str, str] = {
    "every printable ASCII character": PRINTABLE,
    "2,000 characters": "\n".join(f"{line:03d} {PRINTABLE[line % 15 :][:35]}" for line in range(50)) + ".",
    "accents": "é à ß ñ Ø å ü Ž ł ½ § ¿ €",
    "Chinese and Japanese": "中文 日本 日本語の文 汉字 한국어",
    "emoji": "😀 🎉 a😀b 👍",
    "quotes": "\"double\" 'single' `back` it's “curly” ‘too’ «angle» ''",
    "tabs": "a\tb\t\tc\n\tone\n\t\ttwo\nend",
    "newlines": "one\n\n\nfour\nfive",
    "a leading dash": "-n --help - -- \n- item\n-x",
    "code": "def f(x):\n    if x:\n        return {'a': [1, (2)]}\n<p class=\"x\">y\n/* c */ {\n}",
    "what is corrected elsewhere": (
        "i dont know. teh cat -- 1st 1/2 (c) -> TWo :smile: *bold* _under_ http://example.org/ a  b\n1. x\n* y\n---\nz"
    ),
}
"""Name -> text. None ends in a newline, so that an application that adds one is caught."""

_PAGE = """<!doctype html>
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
_PAGE_PATH, _PAD_PATH = "field.html", "pad.html"
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
_FLAT_DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
  xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.3"
  office:mimetype="application/vnd.oasis.opendocument.text">
  <office:body><office:text><text:p></text:p></office:text></office:body>
</office:document>
"""
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_OPENED = Settle(first_ms=300, quiet_ms=200, cap_ms=4000)
_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class TypedApp:
    """How an application is started on an empty document, told to save it, and ended."""

    argv: tuple[str, ...]
    """`{name}` stands for the document's file name."""
    window: str
    """Its windows' class."""
    save: tuple[Action, ...]
    leave: tuple[Action, ...] = (Press(keys=("ctrl", "q")),)
    folder: str = ""
    """Where the document is saved, below the home, with a slash."""
    ending: str = ".txt"
    blank: str | None = ""
    """The empty document that is put there first; None for none."""


_SAVE = (Press(keys=("ctrl", "s")),)
APPS: dict[str, TypedApp] = {
    "mousepad": TypedApp(argv=("mousepad", "{name}"), window="mousepad", save=_SAVE),
    "gedit": TypedApp(argv=("gedit", "{name}"), window="gedit", save=_SAVE),
    "geany": TypedApp(argv=("geany", "{name}"), window="geany", save=_SAVE),
    "terminal": TypedApp(
        argv=("xfce4-terminal", "--title", "{name}", "--command", "dd of={name} status=none"),
        window="xfce4-terminal",
        # The first sends the line that was begun, the second ends the input.
        save=(Press(keys=("ctrl", "d")), Press(keys=("ctrl", "d"))),
        leave=(),
        blank=None,
    ),
    "writer": TypedApp(
        argv=("lowriter", "{name}"), window="libreoffice-writer", save=_SAVE, ending=".fodt", blank=_FLAT_DOCUMENT
    ),
    "chromium": TypedApp(
        argv=("chromium", f"file:///home/user/{_PAGE_PATH}?{{name}}"),
        window="chromium",
        save=(Press(keys=("f8",)),),
        leave=(Press(keys=("ctrl", "w")),),
        folder="Downloads/",
        blank=None,
    ),
}


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
        argv=("chromium", f"file:///home/user/{_PAGE_PATH}?tree"),
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
        await desktop.put_file(_PAGE_PATH, _PAGE.encode())
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


async def type_into(
    desktop: Desktop, app: TypedApp, text: str, stem: str, *, timeout_s: float = 30.0, expected: str | None = None
) -> str:
    """Type a text into a new document and return what the saved file has.

    Args:
        stem: the document's file name without its ending, new on this desktop.
        timeout_s: how long the file may take to have what is expected; then what it has is returned.
        expected: None for the text.
    """
    expected = text if expected is None else expected
    name = stem + app.ending
    path = f"{app.folder}{name}"
    if app.blank is not None:
        await desktop.put_file(path, app.blank.encode())
    await desktop.spawn([part.format(name=name) for part in app.argv])
    await open_window(desktop, app.window, name)
    await desktop.step([TypeText(text=text)], want=(), deadline_s=150)
    await desktop.step(app.save, want=())
    until = time.monotonic() + timeout_s
    while (saved := await _content(desktop, path)) != expected and time.monotonic() < until:
        await asyncio.sleep(_POLL_S)
    await desktop.step(app.leave, want=())
    while any(name in window.title for window in (await desktop.observe(want=["windows"])).windows or ()):
        if time.monotonic() > until + timeout_s:
            raise TimeoutError(f"the window of {name} does not close")
        await asyncio.sleep(_POLL_S)
    return saved


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


async def _content(desktop: Desktop, path: str) -> str:
    data = (await desktop.exec(["cat", path])).stdout
    return _paragraphs(data) if path.endswith(".fodt") else data.decode(errors="replace")


def _paragraphs(document: bytes) -> str:
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError:  # it is just being written
        return ""
    return "\n".join(_characters(paragraph) for paragraph in root.iter(f"{_TEXT}p"))


def _characters(element: ElementTree.Element) -> str:
    """The text of a paragraph; tabs and repeated spaces are elements of their own."""
    found = element.text or ""
    for child in element:
        if child.tag == f"{_TEXT}tab":
            found += "\t"
        elif child.tag == f"{_TEXT}s":
            found += " " * int(child.get(f"{_TEXT}c", "1"))
        else:
            found += _characters(child)
        found += child.tail or ""
    return found
