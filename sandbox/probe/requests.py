"""One request on the probe's side: its body, its refusal, and the memory of those that were executed."""

from __future__ import annotations

import collections
import socket
import threading
from typing import Any

from sandbox.probe.commands import CommandFailed
from sandbox.probe.wire import WireError, recv_exactly

__all__ = ["Body", "Memory", "Refused", "Reply", "command_refusal"]

REMEMBERED = 4096
REMEMBERED_BODIES = 8

Reply = tuple[dict[str, Any], bytes]


class Refused(Exception):
    """An answer that is an error. `kind` becomes its type on the wire."""

    def __init__(self, kind: str, message: str, state: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.state = state or {}

    def answer(self) -> dict[str, Any]:
        """As it goes over the wire."""
        return {"error": {"type": self.kind, "message": str(self), "state": self.state}}


def command_refusal(problem: CommandFailed) -> Refused:
    """How a command that could not be started is told."""
    return Refused("Unavailable" if problem.full else "BadRequest", str(problem))


class Memory:
    """Remembers requests that had an effect, so that none is executed twice."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._answers: collections.OrderedDict[str, Reply | None] = collections.OrderedDict()
        self._bodies: collections.deque[str] = collections.deque()

    def claim(self, request_id: str) -> Reply | None:
        """None: it is new and yours to execute. Otherwise the first answer, awaited if need be."""
        with self._lock:
            if request_id not in self._answers:
                self._answers[request_id] = None
                while len(self._answers) > REMEMBERED:
                    self._answers.popitem(last=False)
                return None
            while (answer := self._answers.get(request_id)) is None:
                if request_id not in self._answers:
                    raise Refused("BadRequest", f"request {request_id} was executed long ago")
                self._lock.wait()
            return answer

    def keep(self, request_id: str, answer: Reply) -> None:
        """Store the answer of a claimed request."""
        with self._lock:
            if request_id in self._answers:
                self._answers[request_id] = answer
                self._bodies.append(request_id)
                if len(self._bodies) > REMEMBERED_BODIES:
                    old = self._bodies.popleft()
                    if self._answers.get(old):
                        gone = {
                            "error": {
                                "type": "BadRequest",
                                "message": f"request {old} was executed; its answer is no longer kept",
                                "state": {},
                            }
                        }
                        self._answers[old] = (gone, b"")
            self._lock.notify_all()


class Body:
    """The bytes that follow a request's JSON. What nobody took is dropped, so that the next request is found."""

    def __init__(self, connection: socket.socket, length: int) -> None:
        self._connection = connection
        self.left = length

    def take(self, count: int) -> bytes:
        """Some bytes, `count` at most; none when the peer hung up."""
        data = self._connection.recv(min(count, self.left))
        self.left -= len(data)
        return data

    def all(self) -> bytes:
        """Everything that is left.

        Raises:
            WireError: the peer hung up first.
        """
        count, self.left = self.left, 0
        return recv_exactly(self._connection, count)

    def take_over(self) -> socket.socket:
        """The connection, which is no longer the caller's. Nothing may be left."""
        return socket.socket(fileno=self._connection.detach())

    def drop(self) -> None:
        """Read and forget the rest.

        Raises:
            WireError: the peer hung up first.
        """
        while self.left:
            if not self.take(1 << 20):
                raise WireError("the peer hung up in the middle of a message")
