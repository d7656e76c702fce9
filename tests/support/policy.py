"""A policy that says what a test tells it to, and records what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from agent.policy import PolicyReply, PolicyRequest
from sandbox.desktop import Want

__all__ = ["HANG", "FakePolicy", "Hang"]


class Hang:
    """A reply that never comes."""


HANG: Final = Hang()

Scripted = str | PolicyReply | BaseException | Hang | Callable[[PolicyRequest], str | PolicyReply]


class FakePolicy:
    """Gives the scripted replies in order: text, a whole reply, a function of the request, an exception, or `HANG`.

    Asked for more than was scripted it fails the test; `itertools.repeat(text)` scripts for ever.
    """

    def __init__(
        self, replies: Iterable[Scripted], *, name: str = "fake", hash: str = "fake", wants: tuple[Want, ...] = ()
    ) -> None:
        self.name = name
        self.hash = hash
        self.wants = wants
        self.requests: list[PolicyRequest] = []
        self.closed = False
        self._replies = iter(replies)

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        self.requests.append(request)
        try:
            scripted = next(self._replies)
        except StopIteration:
            raise AssertionError(f"turn {request.turns[-1].index} was not scripted") from None
        if isinstance(scripted, Hang):
            await asyncio.Event().wait()
            raise AssertionError("unreachable")
        if isinstance(scripted, BaseException):
            raise scripted
        if not isinstance(scripted, str | PolicyReply):
            scripted = scripted(request)
        return PolicyReply(text=scripted) if isinstance(scripted, str) else scripted

    async def close(self) -> None:
        self.closed = True
