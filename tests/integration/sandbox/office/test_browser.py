"""Chromium through a forward: driven with Playwright, seeded, and its state as evidence, whatever happens to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox import errors
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.browser import SeedCookie, SeedPage, connect_browser, launch_browser, seed_pages
from sandbox.desktop import DesktopSpec
from sandbox.errors import ImageError
from sandbox.evidence import BrowserRequest, Evidence, EvidenceItem, FileRequest
from sandbox.image import ImageCache
from tests.support.backends import cannot_run
from tests.support.live import act, run_json, sh, wait_for

pytestmark = pytest.mark.office

SITE = "http://127.0.0.1:8000"
PAGE = """<!doctype html><meta charset="utf-8"><title>Order &amp; 注文</title>
<h1 class="head">  Order form  </h1>
<form><input id="name" value="first"><input id="gift" type="checkbox">
<select id="size"><option>S<option>L</select></form>
<p hidden id="secret">unseen</p>
<script>
  // What a page does to itself changes nothing of what is collected.
  document.querySelectorAll = () => { throw new Error("forged"); };
  Object.entries = () => [["forged", "entry"]];
</script>"""
SPEC = DesktopSpec(profile="office", width=1024, height=700, memory_mb=3072, pids=1024)


@pytest.fixture(scope="module")
async def browsing(images: ImageCache, backend: LocalBackend) -> AsyncIterator[LocalDesktop]:
    """A desktop with a site on its loopback and Chromium with its debugging port open."""
    try:
        images.require(SPEC.profile)
    except ImageError as error:
        cannot_run(str(error))
    desktop = await backend.boot(SPEC)
    try:
        await desktop.put_file("site/index.html", PAGE.encode())
        await desktop.put_file("site/other.html", b"<title>Other</title><p>other")
        await desktop.put_file("page.html", b"<title>Local</title><p id=p>a local file")
        await desktop.spawn(["python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "site", "8000"])
        await launch_browser(desktop, ["about:blank"], deadline_s=60)
        yield desktop
    finally:
        await desktop.close()


async def _ask(desktop: LocalDesktop, deadline_s: float = 30.0, **request: Any) -> EvidenceItem:
    collected = await desktop.collect([BrowserRequest(name="it", **request)], deadline_s=deadline_s)
    return collected.items["it"]


async def _data(desktop: LocalDesktop, **request: Any) -> Any:
    item = await _ask(desktop, **request)
    assert (item.status, item.reason) == ("ok", "")
    return item.data


async def test_pages_are_seeded_and_their_state_is_evidence(browsing: LocalDesktop) -> None:
    pages = [
        SeedPage(
            url=f"{SITE}/index.html",
            local_storage={"cart": "[1, 2]", "ключ": "値"},
            cookies=(SeedCookie(name="session", value="abc", url=SITE),),
        ),
        SeedPage(url="file:///home/user/page.html"),
        SeedPage(html="<title>Made</title><p>set content"),
    ]
    async with connect_browser(browsing, deadline_s=60) as browser:
        await seed_pages(browser, pages, deadline_s=60)
        page = browser.contexts[0].pages[0]
        await page.fill("#name", "Ünï 日本 😀")
        await page.check("#gift")
        await page.select_option("#size", "L")
    tabs = await _data(browsing, what="tabs")
    assert sorted((tab["url"], tab["title"]) for tab in tabs) == [
        ("about:blank", "Made"),
        ("file:///home/user/page.html", "Local"),
        (f"{SITE}/index.html", "Order & 注文"),
    ]
    assert [tab["title"] for tab in tabs if tab["active"]] == ["Made"]
    fields = await _data(browsing, what="elements", tab=SITE, selector="form *:not(option)")
    assert [(field["tag"], field["value"], field["checked"]) for field in fields] == [
        ("input", "Ünï 日本 😀", False),
        ("input", "on", True),
        ("select", "L", None),
    ]
    (head,) = await _data(browsing, what="elements", tab=SITE, selector="h1")
    assert (head["text"].strip(), head["attributes"]) == ("Order form", {"class": "head"})
    (secret,) = await _data(browsing, what="elements", tab=SITE, selector="#secret")
    assert (secret["text"], secret["visible"]) == ("unseen", False)
    assert await _data(browsing, what="elements", tab=SITE, selector=".none") == []
    storage = await _data(browsing, what="local_storage", tab=SITE)
    assert storage == [
        {"origin": SITE, "key": "cart", "value": "[1, 2]"},
        {"origin": SITE, "key": "ключ", "value": "値"},
    ]
    (cookie,) = await _data(browsing, what="cookies")
    assert {key: cookie[key] for key in ("name", "value", "domain", "path", "expires", "http_only")} == {
        "name": "session",
        "value": "abc",
        "domain": "127.0.0.1",
        "path": "/",
        "expires": None,
        "http_only": False,
    }
    (shown,) = await _data(browsing, what="elements", selector="p")  # of the active tab
    assert shown["text"] == "set content"


async def test_the_active_tab_is_the_one_that_keys_chose(browsing: LocalDesktop) -> None:
    async def active() -> str:
        return str(next(tab["title"] for tab in await _data(browsing, what="tabs") if tab["active"]))

    seen = set()
    for _ in range(3):
        before = await active()
        await act(browsing, {"kind": "press", "keys": ["ctrl", "Tab"]})

        async def moved(before: str = before) -> bool:
            return await active() != before

        await wait_for("another tab", moved)
        seen.add(await active())
    assert len(seen) == 3


async def test_a_bookmark_that_was_made_by_keys_is_in_the_profile(browsing: LocalDesktop) -> None:
    async with connect_browser(browsing, deadline_s=60) as browser:
        await seed_pages(browser, [SeedPage(url=f"{SITE}/other.html")], deadline_s=60)
    await act(browsing, {"kind": "press", "keys": ["ctrl", "d"]}, {"kind": "wait", "seconds": 1})
    await act(browsing, {"kind": "press", "keys": ["Return"]})

    async def kept() -> list[tuple[str, str]]:
        item = await _ask(browsing, what="bookmarks")
        return [(mark["name"], mark["url"]) for mark in item.data or ()]

    assert await wait_for("the bookmark", kept) == [("Other", f"{SITE}/other.html")]
    assert (await _data(browsing, what="bookmarks"))[0]["folder"] in ("Bookmarks bar", "Other bookmarks")


async def test_what_is_not_there_is_told(browsing: LocalDesktop) -> None:
    answers = {
        "no tab": (await _ask(browsing, what="elements", tab="http://nowhere", selector="p")),
        "no storage": (await _ask(browsing, what="local_storage", tab="about:blank")),
        "no browser": (await _ask(browsing, what="tabs", port=9333)),
        "no profile": (await _ask(browsing, what="bookmarks", profile=".config/nothing")),
        "many": (await _ask(browsing, what="tabs", max_items=1)),
        "long": (await _ask(browsing, what="elements", tab=SITE, selector="*", max_bytes=100)),
        "no selector": (await _ask(browsing, what="elements", selector="p[")),
        "no web server": (await _ask(browsing, what="tabs", port=8000)),
    }
    assert {name: item.status for name, item in answers.items()} == {
        "no tab": "missing",
        "no storage": "missing",
        "no browser": "missing",
        "no profile": "missing",
        "many": "too_large",
        "long": "too_large",
        "no selector": "error",
        "no web server": "error",
    }
    assert "nothing listens on port 9333" in answers["no browser"].reason
    assert "not a valid selector" in answers["no selector"].reason


async def test_browser_and_other_evidence_come_together(browsing: LocalDesktop) -> None:
    evidence: Evidence = await browsing.collect(
        [
            FileRequest(name="file", path="page.html"),
            BrowserRequest(name="tabs", what="tabs"),
            FileRequest(name="gone", path="gone"),
        ]
    )
    assert [(name, item.status) for name, item in evidence.items.items()] == [
        ("file", "ok"),
        ("tabs", "ok"),
        ("gone", "missing"),
    ]


async def test_its_own_sandbox_is_on(browsing: LocalDesktop) -> None:
    look = """
import json, os
found = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        argv = open(f"/proc/{pid}/cmdline").read()  # one text with blanks, as Chromium rewrites it
        if "--type=renderer" in argv and int(pid) != os.getpid():
            status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if ":" in line)
            found.append([len(status["NSpid"].split()), int(status["Seccomp_filters"]), "--no-sandbox" in argv])
    except OSError: pass
print(json.dumps(found))
"""
    renderers = await run_json(browsing, look)
    assert renderers
    # A process namespace and a filter of system calls of its own, besides the desktop's.
    assert all(namespaces >= 2 and filters >= 2 and not off for namespaces, filters, off in renderers), renderers


async def test_a_page_that_hangs_is_an_error_and_the_others_still_answer(browsing: LocalDesktop) -> None:
    async with connect_browser(browsing, deadline_s=60) as browser:
        await seed_pages(browser, [SeedPage(url=f"{SITE}/other.html?hangs")], deadline_s=60)
        page = browser.contexts[0].pages[-1]
        await page.evaluate("setTimeout(() => { for (;;); }, 0)")
        item = await _ask(browsing, what="elements", tab=f"{SITE}/other.html?hangs", selector="p")
        assert item.status == "error"
        assert "no answer" in item.reason
        assert f"{SITE}/other.html?hangs" in [tab["url"] for tab in await _data(browsing, what="tabs")]
        (head,) = await _data(browsing, what="elements", tab=f"{SITE}/index.html", selector="h1")
        assert head["text"].strip() == "Order form"
    # A page of one site shares a process with others of it: end it.
    await browsing.exec(["pkill", "-KILL", "-f", "type=renderer"])


async def test_a_browser_that_hangs_is_an_error_in_time(browsing: LocalDesktop) -> None:
    await sh(browsing, "pkill -STOP chromium")
    try:
        item = await asyncio.wait_for(_ask(browsing, what="tabs", deadline_s=8), 12)
        assert item.status == "error"
        with pytest.raises(errors.Unavailable, match="no browser on port 9222 within 2 s"):
            async with connect_browser(browsing, deadline_s=2):
                pass
    finally:
        await sh(browsing, "pkill -CONT chromium")
    assert (await _ask(browsing, what="tabs")).status == "ok"


async def test_a_browser_that_is_killed_is_missing(browsing: LocalDesktop) -> None:
    async with connect_browser(browsing, deadline_s=60) as browser:
        await sh(browsing, "pkill -KILL chromium")

        async def gone() -> bool:
            return not browser.is_connected()

        await wait_for("the browser to be gone", gone)
    item = await _ask(browsing, what="tabs")
    assert (item.status, "no browser runs" in item.reason) == ("missing", True)
    with pytest.raises(errors.Unavailable, match="nothing listens"):
        async with connect_browser(browsing, deadline_s=10):
            pass
    with pytest.raises(errors.Unavailable, match="cannot be seeded"):
        await _seed_refused(browsing)


async def _seed_refused(desktop: LocalDesktop) -> None:
    await launch_browser(desktop, deadline_s=60)
    async with connect_browser(desktop, deadline_s=60) as browser:
        await seed_pages(browser, [SeedPage(url="http://127.0.0.1:8999/")])


async def test_bookmarks_that_are_damaged_are_missing(browsing: LocalDesktop) -> None:
    mark = {"type": "url", "name": "A", "url": "http://a/"}
    roots = {"bookmark_bar": {"name": "Bar", "children": [{"name": "In", "children": [mark]}, mark]}, "sync": 1}
    await browsing.put_file("profile/Default/Bookmarks", json.dumps({"roots": roots}).encode())
    assert [entry["folder"] for entry in await _data(browsing, what="bookmarks", profile="profile")] == [
        "Bar/In",
        "Bar",
    ]
    for damaged in (b"", b"{}", b"[]", b"\xff", b'{"roots": 5}', b'{"roots": {"a": {}}}', b"[" * 100_000):
        await browsing.put_file("profile/Default/Bookmarks", damaged)
        item = await _ask(browsing, what="bookmarks", profile="profile")
        assert (item.status, "is no bookmarks file" in item.reason) == ("missing", True), damaged[:20]
