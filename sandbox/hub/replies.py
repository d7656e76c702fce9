"""At most once over a socket: the numbered calls of one lease, each made once whatever its client sends again.

A client numbers the calls that may change the desktop, and makes the next one when the last is answered. So over any
number of broken connections, repeated and late requests:

::

    number is new and the highest so far -> made, once; every request of that number waits for the one answer
    number is one of the last few        -> its first answer, also if it still has to come
    any other number                     -> refused: it was made long ago, or came after a later one; nothing is done

A call runs in a task of its own and goes on when the connection that asked for it breaks.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sandbox.errors import BadRequest, DeadlineExceeded, LeaseExpired
from sandbox.hub.messages import Message
from sandbox.hub.perform import Performed

__all__ = ["Ended", "Replies", "outcome"]

GRACE_S = 5.0
KEPT = 2  # calls are one at a time, so a client asks again for the newest only; each answer may hold a frame


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a call ended: one of the two."""

    performed: Performed | None = None
    error: Exception | None = None

    def result(self) -> Performed:
        """What came of it, or its error raised."""
        if self.error is not None:
            raise self.error
        assert self.performed is not None
        return self.performed


class Replies:
    """The calls of one lease.

    Args:
        start: makes a task that outlives the connection which asked for it.
    """

    def __init__(self, start: Callable[[Coroutine[Any, Any, Ended]], asyncio.Task[Ended]]) -> None:
        self._start = start
        self._newest = 0
        self._kept: OrderedDict[int, tuple[str, asyncio.Task[Ended]]] = OrderedDict()

    def was_answered(self, number: int) -> bool:
        """Whether this number was used before and its answer is not kept any more."""
        return number <= self._newest and number not in self._kept

    def claim(
        self, number: int, request: Message, num_bytes: int, make: Callable[[], Coroutine[Any, Any, Performed]]
    ) -> asyncio.Task[Ended]:
        """The one task of this number: a new one, or the one that an earlier request started.

        Raises:
            BadRequest: the number is too old, or was used for something else; nothing was done.
        """
        asked = json.dumps([request, num_bytes], sort_keys=True)
        if number in self._kept:
            before, task = self._kept[number]
            if before != asked:
                raise BadRequest(f"number {number} was already used for another call; use each number once")
            return task
        if self.was_answered(number):
            raise BadRequest(
                f"call {number} comes after call {self._newest}: it was made before, or is too late to be made; "
                "nothing was done now"
            )
        self._newest = number
        task = self._start(_end_of(make()))
        self._kept[number] = (asked, task)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return task

    def forget(self) -> None:
        """Let the answers go; their numbers stay used."""
        self._kept.clear()


async def _end_of(call: Coroutine[Any, Any, Performed]) -> Ended:
    try:
        return Ended(performed=await call)
    except Exception as error:  # noqa: BLE001 - it belongs to whoever asks for this call, now or later
        return Ended(error=error)


async def outcome(task: asyncio.Task[Ended], deadline_s: float) -> Performed:
    """Wait for a call that this request, or an earlier one of the same number, began."""
    await asyncio.wait({task}, timeout=deadline_s + GRACE_S)
    if not task.done():
        raise DeadlineExceeded(f"the call gave no answer within {deadline_s:g} s", phase="unknown")
    if task.cancelled():
        raise LeaseExpired("the hub closed during the call", phase="unknown")
    return task.result().result()
