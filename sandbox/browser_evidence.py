"""Browser evidence, request by request: what a browser shows and keeps, asked over its DevTools protocol.

It is the browser's own word, and so the desktop's; bookmarks are read from the profile's file. That nothing listens on
the port makes an item `missing`, a browser that does not answer makes it an `error`, as with accessibility.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sandbox.cdp import BrowserSilent, Cdp, NoBrowser, Page, TooLarge
from sandbox.errors import FileRefused
from sandbox.evidence import BrowserRequest, EvidenceItem

if TYPE_CHECKING:
    from sandbox.desktop import Desktop

__all__ = ["collect_browser"]

MAX_BOOKMARKS_FILE = 16 << 20
_ELEMENTS = """(selector, limit) => [...document.querySelectorAll(selector)].slice(0, limit).map(element => ({
    tag: element.localName,
    text: String(element.innerText ?? element.textContent ?? ""),
    value: "value" in element ? String(element.value) : null,
    checked: "checked" in element ? Boolean(element.checked) : null,
    attributes: Object.fromEntries([...element.attributes].map(attribute => [attribute.name, attribute.value])),
    visible: element.getClientRects().length > 0,
}))"""
_STORAGE = """() => {
    try { return Object.entries(localStorage).map(([key, value]) => ({origin: location.origin, key, value})); }
    catch (error) { return null; }
}"""


class _Missing(Exception):
    """What was asked for is not there."""


async def collect_browser(
    desktop: Desktop, requests: Sequence[BrowserRequest], *, deadline_s: float
) -> dict[str, EvidenceItem]:
    """Answer requests by name, all of them before the deadline whatever the browser does.

    Raises:
        DesktopError: the desktop failed, not its browser.
    """
    ends_at = asyncio.get_running_loop().time() + deadline_s
    answers: dict[str, EvidenceItem] = {}
    for request in requests:
        if request.what == "bookmarks":
            answers[request.name] = await _bookmarks(desktop, request, deadline_s)
    for port in sorted({request.port for request in requests if request.what != "bookmarks"}):
        asked = [request for request in requests if request.what != "bookmarks" and request.port == port]
        try:
            async with asyncio.timeout_at(ends_at), desktop.forward(port) as forward, Cdp.open(forward) as browser:
                for request in asked:
                    answers[request.name] = await _answer(browser, request)
        except NoBrowser as error:
            problem = _not_ok("missing", f"no browser runs: {error}")
        except BrowserSilent as error:
            problem = _not_ok("error", str(error))
        except TimeoutError:
            problem = _not_ok("error", f"the browser did not answer everything within {deadline_s:g} s")
        else:
            continue
        for request in asked:
            answers.setdefault(request.name, problem)
    return answers


async def _answer(browser: Cdp, request: BrowserRequest) -> EvidenceItem:
    try:
        records = await _records(browser, request)
    except _Missing as error:
        return _not_ok("missing", str(error))
    except (BrowserSilent, KeyError, TypeError, AttributeError) as error:
        return _not_ok("error", str(error) if isinstance(error, BrowserSilent) else "that is no browser's answer")
    except TooLarge as error:
        return _not_ok("too_large", str(error))
    return _bounded(request, records)


async def _records(browser: Cdp, request: BrowserRequest) -> list[dict[str, Any]]:
    if request.what == "cookies":
        return [_cookie(cookie) for cookie in (await browser.call("Storage.getCookies"))["cookies"]]
    pages = await browser.pages()
    active = _active(pages)
    if request.what == "tabs":
        return [{"url": page.url, "title": page.title, "active": page is active} for page in pages]
    wanted = pages if request.tab is None else [page for page in pages if page.url.startswith(request.tab)]
    if request.tab is None and active is not None:
        wanted = [active]
    if not wanted:
        raise _Missing("no tab is open" if request.tab is None else f"no tab shows {request.tab}")
    page = active if active in wanted else wanted[0]
    assert page is not None
    if request.what == "elements":
        found = await browser.ask(page.session, _ELEMENTS, request.selector, request.max_items + 1)
    else:
        found = await browser.ask(page.session, _STORAGE)
        if found is None:
            raise _Missing(f"{page.url} can have no local storage")
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise TypeError(found)
    return found


def _active(pages: Sequence[Page]) -> Page | None:
    """The tab in front: with the keyboard's focus, else visible, else the one used last."""
    for test in (lambda page: page.focused, lambda page: page.visible, lambda page: page.visible is None):
        for page in pages:
            if test(page):
                return page
    return None


def _cookie(cookie: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": cookie["name"],
        "value": cookie["value"],
        "domain": cookie["domain"],
        "path": cookie["path"],
        "expires": None if cookie.get("session") else cookie.get("expires"),
        "http_only": bool(cookie.get("httpOnly")),
        "secure": bool(cookie.get("secure")),
        "same_site": cookie.get("sameSite"),
    }


async def _bookmarks(desktop: Desktop, request: BrowserRequest, deadline_s: float) -> EvidenceItem:
    path = f"{request.profile}/Default/Bookmarks"
    try:
        data = await desktop.get_file(path, max_bytes=MAX_BOOKMARKS_FILE, deadline_s=deadline_s)
        records: list[dict[str, Any]] = []
        for root in json.loads(data)["roots"].values():
            if isinstance(root, dict):
                _walk(root, (), records)
    except FileNotFoundError as error:
        return _not_ok("missing", str(error))
    except FileRefused as error:
        return _not_ok("too_large" if error.kind == "too_large" else "missing", str(error))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _not_ok("missing", f"{path} is no bookmarks file")
    return _bounded(request, records)


def _walk(node: dict[str, Any], above: tuple[str, ...], records: list[dict[str, Any]]) -> None:
    if node.get("type") == "url":
        records.append({"name": str(node["name"]), "url": str(node["url"]), "folder": "/".join(above)})
        return
    for child in node["children"]:
        _walk(child, (*above, str(node["name"])), records)


def _bounded(request: BrowserRequest, records: list[dict[str, Any]]) -> EvidenceItem:
    if len(records) > request.max_items:
        return _not_ok("too_large", f"there are more than {request.max_items} {request.what}")
    size = len(json.dumps(records))
    if size > request.max_bytes:
        return _not_ok("too_large", f"the {request.what} take {size} bytes; the limit is {request.max_bytes}")
    return EvidenceItem(status="ok", data=records)


def _not_ok(status: Any, reason: str) -> EvidenceItem:
    return EvidenceItem(status=status, reason=reason)
