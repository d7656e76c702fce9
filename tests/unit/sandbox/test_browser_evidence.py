"""Browser evidence from what is no honest browser: each lie and each silence is an answer, in time."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from sandbox import cdp
from sandbox.browser import connect_browser, launch_browser
from sandbox.browser_evidence import collect_browser
from sandbox.errors import BadRequest, MissingRequirement, Unavailable
from sandbox.evidence import BrowserRequest
from tests.support.desktop import FakeDesktop

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def listening(**handlers: Handler) -> AsyncIterator[int]:
    """A web server that answers /json/version (`version`), /json/list (`list`) and the socket (`browser`)."""
    app = web.Application()
    paths = {"version": "/json/version", "list": "/json/list", "browser": "/devtools/browser/x"}
    for name, handler in handlers.items():
        app.router.add_get(paths[name], handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    try:
        yield site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    finally:
        await runner.cleanup()


def says(answer: Any) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(body=answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    return handle


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


def browser(answer: Callable[[dict[str, Any]], Any]) -> Handler:
    """A socket on which each call is answered by `answer`; None hangs up, ... never answers."""

    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                break
            reply = answer(json.loads(message.data))
            if reply is None:
                break
            if reply is not ...:
                await socket.send_str(reply if isinstance(reply, str) else json.dumps(reply))
        return socket

    return handle


VERSION = says({"webSocketDebuggerUrl": "ws://192.0.2.1:1/devtools/browser/x"})
"""The address names another machine: what is used of it is the path only."""


async def ask(port: int, what: str = "cookies", **options: Any) -> tuple[str, str]:
    request = BrowserRequest.model_validate({"name": "it", "what": what, "port": port, **options})
    async with asyncio.timeout(15):
        answers = await collect_browser(FakeDesktop(), [request], deadline_s=5)
    return answers["it"].status, answers["it"].reason


def result(call: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {"id": call["id"], "result": values}


async def test_an_honest_answer_is_read_whatever_address_the_browser_names() -> None:
    cookie = {"name": "n", "value": "v", "domain": "d", "path": "/", "session": True, "extra": 1}
    async with listening(version=VERSION, browser=browser(lambda call: result(call, cookies=[cookie]))) as port:
        assert await ask(port) == ("ok", "")


@pytest.mark.parametrize(
    "version",
    [
        b"",
        b"no json",
        b"[" * 100_000,
        b"5",
        b"[]",
        {},
        {"webSocketDebuggerUrl": 5},
        {"webSocketDebuggerUrl": "ws://127.0.0.1/other"},
        {"webSocketDebuggerUrl": "ws://127.0.0.1:80/"},
        {"webSocketDebuggerUrl": "ws://127.0.0.1/devtools/browser/x", "padding": "x" * (1 << 20)},
    ],
    ids=range(10),
)
async def test_what_is_no_browser_is_an_error(version: Any) -> None:
    async with listening(version=says(version), browser=browser(lambda call: result(call, cookies=[]))) as port:
        assert await ask(port) == ("error", "what listens on the port is no browser")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "no json",
        "[" * 100_000,
        {"id": 1},
        {"id": 1, "error": {"message": "no"}},
        {"id": 1, "result": 5},
        {"id": 1, "result": {}},
        {"id": 1, "result": {"cookies": 5}},
        {"id": 1, "result": {"cookies": [5]}},
        {"id": 1, "result": {"cookies": [{}]}},
    ],
    ids=range(10),
)
async def test_an_answer_that_is_none_is_an_error(answer: Any) -> None:
    async with listening(version=VERSION, browser=browser(lambda call: answer)) as port:
        assert (await ask(port))[0] == "error"


async def test_silence_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdp, "CALL_S", 0.3)
    async with listening(version=never) as port:
        assert await ask(port) == ("error", "the browser does not answer within 0.3 s")
    async with listening(version=VERSION, browser=never) as port:
        assert (await ask(port))[0] == "error"
    async with listening(version=VERSION, browser=browser(lambda call: ...)) as port:
        assert (await ask(port))[0] == "error"


async def test_talk_without_an_answer_is_an_error_in_time() -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        while not socket.closed:
            try:
                await socket.send_str('{"method": "Some.event"}')
            except ConnectionError:
                break
        return socket

    async with listening(version=VERSION, browser=flood) as port:
        request = BrowserRequest(name="it", what="cookies", port=port)
        async with asyncio.timeout(10):
            answers = await collect_browser(FakeDesktop(), [request], deadline_s=0.5)
    assert answers["it"].status == "error"


async def test_too_much_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = {"name": "n", "value": "v" * 1000, "domain": "d", "path": "/"}
    async with listening(version=VERSION, browser=browser(lambda call: result(call, cookies=[cookie] * 9))) as port:
        assert await ask(port, max_items=8) == ("too_large", "there are more than 8 cookies")
        assert (await ask(port, max_bytes=2000))[0] == "too_large"
        assert (await ask(port, max_items=9))[0] == "ok"
        monkeypatch.setattr(cdp, "MAX_MESSAGE", 5000)
        assert await ask(port) == ("too_large", "the browser's answer has more than 5000 bytes")


async def test_where_nothing_listens_an_item_is_missing() -> None:
    async with listening() as port:
        pass
    status, reason = await ask(port)
    assert (status, reason.startswith("no browser runs")) == ("missing", True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"what": "elements"},
        {"what": "tabs", "selector": "p"},
        {"what": "cookies", "tab": "http://x"},
        {"what": "history"},
        {"what": "tabs", "port": 0},
        {"what": "tabs", "port": 65536},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BrowserRequest.model_validate({"name": "it", **wrong})


async def test_without_playwright_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    with pytest.raises(MissingRequirement, match=r"pip install 'frontdesk\[browser\]'"):
        async with connect_browser(FakeDesktop()):
            pass


async def test_an_option_is_no_address_and_no_browser_is_told() -> None:
    desktop = FakeDesktop()
    with pytest.raises(BadRequest, match="is no page's address"):
        await launch_browser(desktop, ["--no-sandbox"])
    assert not desktop.calls("spawn")
    async with listening() as port:
        pass
    with pytest.raises(Unavailable, match=rf"no browser on port {port} within 0\.3 s"):
        await launch_browser(desktop, ["about:blank"], port=port, deadline_s=0.3)
    assert desktop.calls("spawn")[0]["argv"] == ("chromium", f"--remote-debugging-port={port}", "about:blank")
