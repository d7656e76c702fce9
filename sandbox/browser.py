"""A desktop's Chromium from outside: started with its debugging port open, driven with Playwright, its pages seeded.

The port is open on the desktop's own loopback only, and reached through a forward. It is open to the agent's programs
as well, who could drive the browser by mouse and keys anyhow. Whoever answers there is trusted in nothing: Playwright
is given an address on the forward, never one that the desktop names.

Playwright is optional (`pip install 'frontdesk[browser]'`), and needs no browser of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from sandbox.cdp import BrowserSilent, NoBrowser, endpoint
from sandbox.desktop import Desktop
from sandbox.errors import BadRequest, MissingRequirement, Unavailable
from sandbox.forward import Forward

if TYPE_CHECKING:
    from playwright.async_api import Browser

__all__ = ["DEBUGGING_PORT", "SeedCookie", "SeedPage", "connect_browser", "launch_browser", "seed_pages"]

DEBUGGING_PORT = 9222
POLL_S = 0.1
GOODBYE_S = 5.0
_STORE = "entries => { for (const [key, value] of entries) localStorage.setItem(key, value); }"


class SeedCookie(BaseModel):
    """A cookie to be there before a page is opened."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    value: str
    url: str
    """Of a page that gets it: `http://127.0.0.1:8000/`."""


class SeedPage(BaseModel):
    """A tab to be open."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = "about:blank"
    """`file:///home/user/page.html`, or what a server in the desktop serves."""
    html: str | None = None
    """Takes the place of what was loaded; gone when the page is reloaded."""
    local_storage: dict[str, str] = {}
    """Of the page's origin; the page is loaded again with it."""
    cookies: tuple[SeedCookie, ...] = ()


async def launch_browser(
    desktop: Desktop, urls: Sequence[str] = (), *, port: int = DEBUGGING_PORT, deadline_s: float = 30.0
) -> int:
    """Start Chromium with its debugging port open and wait until it answers there. Returns its pid inside the desktop.

    A Chromium that runs already only opens the pages; it must have been started with the port.

    Raises:
        Unavailable: it does not answer in time.
        BadRequest: the desktop's image has no Chromium.
    """
    for url in urls:
        if url.startswith("-"):
            raise BadRequest(f"{url!r} is no page's address but an option")
    pid = await desktop.spawn(["chromium", f"--remote-debugging-port={port}", *urls])
    async with desktop.forward(port) as forward:
        await _await_browser(forward, port, deadline_s)
    return pid


@contextlib.asynccontextmanager
async def connect_browser(
    desktop: Desktop, *, port: int = DEBUGGING_PORT, deadline_s: float = 30.0
) -> AsyncIterator[Browser]:
    """A Playwright `Browser` on the desktop's Chromium, whose pages are `contexts[0].pages`.

    Chromium goes on when the block ends. Inside the block Playwright's own errors and deadlines apply.

    Raises:
        MissingRequirement: Playwright is not installed.
        Unavailable: no browser answers on the port in time.
    """
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError as error:
        fix = "pip install 'frontdesk[browser]' (no `playwright install` is needed)"
        raise MissingRequirement("Playwright is not installed", fix=fix) from error
    ends_at = asyncio.get_running_loop().time() + deadline_s
    async with desktop.forward(port) as forward, async_playwright() as playwright:
        address = await _await_browser(forward, port, deadline_s)
        left_s = max(0.1, ends_at - asyncio.get_running_loop().time())
        try:
            browser = await playwright.chromium.connect_over_cdp(address, timeout=left_s * 1000)
        except Error as error:
            raise Unavailable(f"the browser on port {port} takes no connection: {error.message}") from error
        try:
            yield browser
        finally:
            with contextlib.suppress(Error, TimeoutError):  # a browser that hangs or is gone is left all the same
                async with asyncio.timeout(GOODBYE_S):
                    await browser.close()


async def seed_pages(browser: Browser, pages: Sequence[SeedPage], *, deadline_s: float = 30.0) -> None:
    """Open tabs, in this order; the last is in front. A blank tab that is there already becomes the first.

    Raises:
        Unavailable: a page cannot be loaded in time, or has no storage; the message names it.
    """
    from playwright.async_api import Error

    context = browser.contexts[0]
    blank = [tab for tab in context.pages if tab.url in ("about:blank", "chrome://newtab/")][:1]
    for page in pages:
        try:
            async with asyncio.timeout(deadline_s):
                if page.cookies:
                    await context.add_cookies([{"name": c.name, "value": c.value, "url": c.url} for c in page.cookies])
                tab = blank.pop() if blank else await context.new_page()
                await tab.goto(page.url)
                if page.local_storage:
                    await tab.evaluate(_STORE, [list(entry) for entry in page.local_storage.items()])
                    await tab.reload()
                if page.html is not None:
                    await tab.set_content(page.html)
                await tab.bring_to_front()
        except Error as error:
            raise Unavailable(f"{page.url} cannot be seeded: {error.message.splitlines()[0]}", phase="setup") from error
        except TimeoutError as error:
            raise Unavailable(f"{page.url} was not seeded within {deadline_s:g} s", phase="setup") from error


async def _await_browser(forward: Forward, port: int, deadline_s: float) -> str:
    """The browser's address on the forward, once it answers."""
    why = "it does not answer"
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                try:
                    return await endpoint(forward)
                except (NoBrowser, BrowserSilent) as error:
                    why = str(error)
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise Unavailable(f"no browser on port {port} within {deadline_s:g} s: {why}") from error
