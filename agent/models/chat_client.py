"""One chat completion over HTTP, with retries inside a deadline and errors that say what to change.

::

    attempt -> 200, a completion ............... the reply
            -> 200, something else; other 4xx .. PolicyError at once: trying again would not help
            -> 408, 409, 425, 429, 5xx, ........ wait (Retry-After, or twice as long as before), try again;
               no connection, timeout            PolicyError once the wait would pass the deadline

The key goes into one header and nowhere else: it is cut out of every message, also where a server repeats it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from dataclasses import dataclass
from typing import Any

import aiohttp

from agent.errors import PolicyError, ReplyTimeout

__all__ = ["ChatClient", "Completion", "ContextOverflow"]

log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
_TRANSIENT = frozenset({408, 409, 425, 429})
_OVERFLOW_SIGNS = (
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum model length",
    "prompt is too long",
)


class ContextOverflow(Exception):
    """The server says that the messages do not fit the model's context."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What a server wrote."""

    text: str
    truncated: bool
    """Stopped by the token limit."""


class _TryAgain(Exception):
    def __init__(self, reason: str, *, wait_s: float | None = None, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.timed_out = timed_out


class ChatClient:
    """Talks to one OpenAI-compatible endpoint.

    Args:
        base_url: up to and including the version part, e.g. `http://localhost:8000/v1`.
        api_key: sent as a bearer token; None sends none.
        attempt_timeout_s: seconds after which one attempt is given up and made again.

    Raises:
        ValueError: the base URL is not one.
    """

    def __init__(self, base_url: str, *, api_key: str | None, attempt_timeout_s: float) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must start with http:// or https://, got {base_url!r}")
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._api_key = api_key
        self._attempt_timeout_s = attempt_timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def complete(self, body: dict[str, Any], *, deadline_s: float) -> Completion:
        """Ask for one completion.

        Raises:
            ContextOverflow: the messages are too long.
            ReplyTimeout: the first attempt was still running at the deadline.
            PolicyError: there is no answer within the deadline, or one that trying again would not change.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        wait_s = FIRST_WAIT_S
        attempt = 0
        while True:
            attempt += 1
            timeout_s = min(self._attempt_timeout_s, end - loop.time())
            try:
                return await self._attempt(body, timeout_s=max(timeout_s, 0.001))  # 0 would mean no timeout at all
            except _TryAgain as error:
                if error.timed_out and attempt == 1 and loop.time() >= end:
                    raise ReplyTimeout(f"{self._url} was still answering after {deadline_s:.1f} s") from error
                # The jitter keeps many episodes that were refused together from coming back together.
                pause_s = error.wait_s if error.wait_s is not None else wait_s * random.uniform(0.5, 1.0)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
                if loop.time() + pause_s >= end:
                    raise PolicyError(
                        f"{self._url} gave no answer within {deadline_s:.1f} s; attempt {attempt}: {error}"
                    ) from error
                log.warning("attempt %d at %s failed (%s); next in %.1f s", attempt, self._url, error, pause_s)
                await asyncio.sleep(pause_s)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _attempt(self, body: dict[str, Any], *, timeout_s: float) -> Completion:
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=True)
        headers = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key}"}
        try:
            async with self._session.post(
                self._url, json=body, headers=headers, timeout=aiohttp.ClientTimeout(total=timeout_s)
            ) as response:
                text = await response.text(errors="replace")
                if response.status == 200:
                    return self._read(text)
                raise self._refusal(response.status, text, body, retry_after=response.headers.get("Retry-After"))
        except TimeoutError:
            raise _TryAgain(f"no answer after {timeout_s:.1f} s", timed_out=True) from None
        except aiohttp.InvalidURL as error:
            raise PolicyError(f"{self._url} is not a URL; check base_url") from error
        except aiohttp.ClientError as error:
            raise _TryAgain(self._clean(f"no connection: {error or type(error).__name__}")) from None

    def _read(self, text: str) -> Completion:
        try:
            choice = json.loads(text)["choices"][0]
            content = choice["message"]["content"]
            if isinstance(content, list):
                content = "".join(part["text"] for part in content if part["type"] == "text")
            if content is None:
                content = ""  # a model that thinks apart and then says nothing
            if not isinstance(content, str):
                raise TypeError("message.content is not text")
            return Completion(text=content, truncated=choice.get("finish_reason") == "length")
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise PolicyError(
                f"{self._url} answered 200, but not with a chat completion ({type(error).__name__}: {error}): "
                f"{self._clean(text)!r}. Is base_url the address of an OpenAI-compatible API?"
            ) from error

    def _refusal(self, status: int, text: str, body: dict[str, Any], *, retry_after: str | None) -> Exception:
        said = self._clean(_error_message(text))
        if status in _TRANSIENT or status >= 500:
            return _TryAgain(f"HTTP {status}: {said}", wait_s=_seconds(retry_after))
        if status in (400, 413, 422) and any(sign in text.lower() for sign in _OVERFLOW_SIGNS):
            return ContextOverflow(said)
        if status in (401, 403):
            hint = "no key was sent; name its variable in api_key_env" if self._api_key is None else "check the key"
            return PolicyError(f"{self._url} refused the credentials (HTTP {status}: {said}): {hint}")
        if status == 404 and "model" in text.lower():
            return PolicyError(f"{self._url} does not serve the model {body['model']!r} (HTTP 404: {said})")
        if status in (404, 405):
            return PolicyError(
                f"there is no chat API at {self._url} (HTTP {status}: {said}); base_url usually ends in /v1"
            )
        return PolicyError(f"{self._url} refused the request (HTTP {status}: {said})")

    def _clean(self, text: str) -> str:
        text = text.replace(self._api_key, "[key]") if self._api_key else text
        return text if len(text) <= 300 else text[:300] + "..."


def _error_message(text: str) -> str:
    """What a server says went wrong: its error message, or the start of whatever it sent."""
    try:
        error = json.loads(text)
        error = error.get("error", error)
        return str(error.get("message", error)) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        return " ".join(text.split()) or "no text"


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After in seconds; its date form is left to the own back-off."""
    try:
        return None if retry_after is None else min(max(0.0, float(retry_after)), LONGEST_WAIT_S)
    except ValueError:
        return None
