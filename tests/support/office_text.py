"""Text typed into the office image's applications, and read back from what they saved.

Nothing helps the text along: it is typed into a new, empty document and saved, and the file is the answer. Writer
saves flat OpenDocument, whose paragraphs are the lines.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from xml.etree import ElementTree

from sandbox.actions import Action, Press, TypeText
from sandbox.desktop import Desktop
from tests.support.office import FIELD_PAGE, open_window

__all__ = ["APPS", "CASES", "TypedApp", "type_into"]

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

_FLAT_DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
  xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.3"
  office:mimetype="application/vnd.oasis.opendocument.text">
  <office:body><office:text><text:p></text:p></office:text></office:body>
</office:document>
"""
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
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
        argv=("chromium", f"file:///home/user/{FIELD_PAGE}?{{name}}"),
        window="chromium",
        save=(Press(keys=("f8",)),),
        leave=(Press(keys=("ctrl", "w")),),
        folder="Downloads/",
        blank=None,
    ),
}


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
