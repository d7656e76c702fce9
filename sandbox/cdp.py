"""A browser's own word over its DevTools protocol, through a forwarded port, bounded in size and time.

Whoever answers on the port is a program of the desktop, perhaps not the browser, and is trusted in nothing: of the
address that it names only the path is used, messages have a limit, every call a deadline. What is asked of a page is
asked in a world of its own, where the page's scripts have changed nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp

from sandbox.forward import Forward

__all__ = ["BrowserSilent", "Cdp", "NoBrowser", "Page", "TooLarge", "endpoint"]

MAX_ANSWER = 1 << 18
MAX_MESSAGE = 32 << 20
CALL_S = 5.0
PAGE_S = 2.0
"""For what every page is asked, of which there may be many."""
PATH = "/devtools/browser/"
_SEEN = "() => ({visible: document.visibilityState === 'visible', focused: document.hasFocus()})"


class NoBrowser(Exception):
    """Nothing listens on the port."""


class BrowserSilent(Exception):
    """Something listens, and does not answer as a browser does."""


class TooLarge(Exception):
    """It answered more than a message may hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """An open tab."""

    target: str
    url: str
    title: str
    session: str
    visible: bool | None
    """In front in its window; None if the page does not answer."""
    focused: bool | None


async def endpoint(forward: Forward) -> str:
    """The WebSocket address of the browser behind a forward.

    Raises:
        NoBrowser, BrowserSilent: there is none.
    """
    described = await _get(forward, "/json/version")
    address = described.get("webSocketDebuggerUrl") if isinstance(described, dict) else None
    path = str(address).partition("://")[2].partition("/")[2]
    if not f"/{path}".startswith(PATH):
        raise BrowserSilent("what listens on the port is no browser")
    return f"ws://{forward.address}/{path}"


class Cdp:
    """A connection to a browser. Made by `open`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, forward: Forward) -> None:
        self._socket = socket
        self._forward = forward
        self._number = 0
        self._worlds: dict[str, int] = {}
        self._pages: list[Page] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, forward: Forward) -> AsyncIterator[Cdp]:
        """Connect to the browser behind a forward.

        Raises:
            NoBrowser, BrowserSilent: there is none.
        """
        address = await endpoint(forward)
        async with aiohttp.ClientSession() as session:
            try:
                async with asyncio.timeout(CALL_S):
                    socket = await session.ws_connect(address, max_msg_size=MAX_MESSAGE, autoping=True)
            except (aiohttp.ClientError, OSError) as error:
                raise BrowserSilent(f"the browser takes no connection: {type(error).__name__}") from error
            try:
                yield cls(socket, forward)
            finally:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with asyncio.timeout(1.0):
                        await socket.close()

    async def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        session: str | None = None,
        within_s: float | None = None,
    ) -> dict[str, Any]:
        """Make one call and return its result.

        Raises:
            BrowserSilent: no answer in time, or it is an error.
            TooLarge: the answer is larger than a message may be.
        """
        within_s = CALL_S if within_s is None else within_s
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        try:
            async with asyncio.timeout(within_s):
                await self._socket.send_str(json.dumps(message))
                while True:
                    answer = await self._receive()
                    if answer.get("id") == number:
                        break
        except TimeoutError as error:
            raise BrowserSilent(f"no answer to {method} within {within_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise BrowserSilent(f"the browser hung up during {method}") from error
        if not isinstance(answer.get("result"), dict):
            raise BrowserSilent(f"{method} failed: {str(answer.get('error'))[:200]}")
        result: dict[str, Any] = answer["result"]
        return result

    async def _receive(self) -> dict[str, Any]:
        message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            if self._socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
                raise TooLarge(f"the browser's answer has more than {MAX_MESSAGE} bytes")
            raise aiohttp.ClientConnectionError
        try:
            answer = json.loads(message.data)
        except (ValueError, RecursionError) as error:
            raise BrowserSilent("what listens on the port is no browser") from error
        return answer if isinstance(answer, dict) else {}

    async def pages(self) -> list[Page]:
        """The tabs that were open when this was first asked, the one used last first."""
        if self._pages is None:
            self._pages = await self._look()
        return self._pages

    async def _look(self) -> list[Page]:
        listed = await _get(self._forward, "/json/list")
        order = [entry.get("id") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        targets = (await self.call("Target.getTargets")).get("targetInfos", [])
        found = [
            target
            for target in targets
            if target.get("type") == "page" and not str(target.get("url")).startswith("devtools://")
        ]
        found.sort(key=lambda target: order.index(target["targetId"]) if target["targetId"] in order else len(order))
        pages = []
        for target in found:
            attached = await self.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
            seen: Any = None
            with contextlib.suppress(BrowserSilent):  # a page that hangs is a tab all the same
                seen = await self.ask(attached["sessionId"], _SEEN, within_s=PAGE_S)
            pages.append(
                Page(
                    target=target["targetId"],
                    url=str(target["url"]),
                    title=str(target["title"]),
                    session=attached["sessionId"],
                    visible=seen["visible"] if isinstance(seen, dict) else None,
                    focused=seen["focused"] if isinstance(seen, dict) else None,
                )
            )
        return pages

    async def ask(self, session: str, function: str, *arguments: Any, within_s: float | None = None) -> Any:
        """What a function gives in a page, in a world apart from the page's own scripts.

        Raises:
            BrowserSilent: the page does not answer, or the function fails there; the message says how.
        """
        if session not in self._worlds:
            tree = await self.call("Page.getFrameTree", session=session, within_s=within_s)
            world = await self.call(
                "Page.createIsolatedWorld",
                {"frameId": tree["frameTree"]["frame"]["id"]},
                session=session,
                within_s=within_s,
            )
            self._worlds[session] = world["executionContextId"]
        asked = {
            "functionDeclaration": function,
            "executionContextId": self._worlds[session],
            "arguments": [{"value": argument} for argument in arguments],
            "returnByValue": True,
        }
        answer = await self.call("Runtime.callFunctionOn", asked, session=session, within_s=within_s)
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"].get("exception", {})
            raise BrowserSilent(str(thrown.get("description", "the page threw something")).partition("\n")[0][:200])
        return answer.get("result", {}).get("value")


async def _get(forward: Forward, path: str) -> Any:
    """The JSON at a path of the browser's own web server."""
    forward.last_error = None
    try:
        async with (
            asyncio.timeout(CALL_S),
            aiohttp.ClientSession() as session,
            session.get(f"http://{forward.address}{path}", allow_redirects=False) as answer,
        ):
            data = bytearray()
            async for piece in answer.content.iter_chunked(1 << 16):
                data += piece
                if len(data) > MAX_ANSWER:
                    raise BrowserSilent("what listens on the port is no browser")
        return json.loads(data)
    except TimeoutError as error:
        raise BrowserSilent(f"the browser does not answer within {CALL_S:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        if forward.last_error is not None:
            raise NoBrowser(str(forward.last_error)) from error
        raise BrowserSilent("the browser hung up") from error
    except (ValueError, RecursionError) as error:
        raise BrowserSilent("what listens on the port is no browser") from error
