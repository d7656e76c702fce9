"""Making on a desktop the call that a client asked for, and the client's reading of the answer.

A call is named and its answer written as on a tape (`sandbox.backends.tape_calls`), with two differences: bytes are
named by their place in the message, and a frame stands apart, so that one the client has need not be sent.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sandbox.actions import parse_action
from sandbox.backends import tape_calls as calls
from sandbox.desktop import Desktop, Observation, Settle, StepResult
from sandbox.errors import BadRequest
from sandbox.evidence import CommandRequest, EvidenceRequest
from sandbox.frame import Frame
from sandbox.hub.messages import Message

__all__ = ["Performed", "has_effect", "perform", "read_answer", "with_frame"]

T = TypeVar("T")
_EVIDENCE: TypeAdapter[EvidenceRequest] = TypeAdapter(EvidenceRequest)


@dataclass(frozen=True, kw_only=True, slots=True)
class Performed:
    """A call that was made, and its answer in the form that is sent."""

    answer: Any
    """JSON data; bytes are named by their place in `blobs`."""
    frame: Frame | None
    blobs: tuple[bytes, ...]
    desktop_s: float
    """Seconds the desktop took; what a client waits beyond that is the hub's and the socket's."""


def has_effect(request: Message) -> bool:
    """Whether a call may change the desktop."""
    match request["call"]:
        case "observe" | "get_file" | "health":
            return False
        case "step":
            return bool(request["actions"])
        case "collect":
            return any(item["type"] == CommandRequest.model_fields["type"].default for item in request["requests"])
        case _:
            return True


async def perform(
    desktop: Desktop, request: Message, body: bytes, *, deadline_s: float, request_id: str | None
) -> Performed:
    """Make a call.

    Args:
        body: the bytes of a file or of a command's standard input.

    Raises:
        BadRequest: this is no call; nothing was done.
        SandboxError: as the desktop raised it.
    """
    try:
        call, made = _prepare(desktop, request, body, deadline_s, request_id)
    except (KeyError, TypeError, ValidationError) as error:
        raise BadRequest(f"malformed call {request.get('call')!r}: {type(error).__name__}: {error}") from error
    began = time.perf_counter()
    answer = await made
    desktop_s = time.perf_counter() - began
    frame, answer = _without_frame(answer)
    blobs: list[bytes] = []

    def put(data: bytes) -> str:
        blobs.append(data)
        return str(len(blobs) - 1)

    return Performed(answer=call.encode(answer, put), frame=frame, blobs=tuple(blobs), desktop_s=desktop_s)


def read_answer(call: calls.Call[T], answer: Any, blobs: Sequence[bytes], frame: Frame | None) -> T:
    """A call's answer as the desktop gave it."""
    return with_frame(call.decode(answer, lambda name: blobs[int(name)]), frame)


def with_frame(answer: T, frame: Frame | None) -> T:
    """An answer that shows this frame, if it shows any."""
    if isinstance(answer, StepResult):
        return dataclasses.replace(answer, observation=dataclasses.replace(answer.observation, frame=frame))
    return dataclasses.replace(answer, frame=frame) if isinstance(answer, Observation) else answer


def _without_frame(answer: Any) -> tuple[Frame | None, Any]:
    seen = answer.observation if isinstance(answer, StepResult) else answer
    frame = seen.frame if isinstance(seen, Observation) else None
    return frame, with_frame(answer, None)


def _prepare(desktop: Desktop, request: Message, body: bytes, deadline_s: float, request_id: str | None) -> Any:
    """The call, and the coroutine that makes it."""
    arguments = {name: value for name, value in request.items() if name != "call"}
    match request["call"]:
        case "step":
            actions = tuple(parse_action(data) for data in request["actions"])
            settle = None if request["settle"] is None else Settle(**request["settle"])
            want = tuple(request["want"])
            return calls.step(actions, settle, want), desktop.step(
                actions, settle=settle, want=want, request_id=request_id, deadline_s=deadline_s
            )
        case "observe":
            want = tuple(request["want"])
            return calls.observe(want), desktop.observe(want, deadline_s=deadline_s)
        case "collect":
            requests = [_EVIDENCE.validate_python(item) for item in request["requests"]]
            return calls.collect(requests), desktop.collect(requests, deadline_s=deadline_s)
        case "health":
            return calls.health(), desktop.health()
        case "exec":
            arguments["stdin"] = body
            return calls.execute(**arguments), desktop.exec(**arguments, deadline_s=deadline_s)
        case "spawn":
            return calls.spawn(**arguments), desktop.spawn(**arguments)
        case "put_file":
            arguments["data"] = body
            return calls.put_file(**arguments), desktop.put_file(**arguments, deadline_s=deadline_s)
        case "get_file":
            return calls.get_file(**arguments), desktop.get_file(**arguments, deadline_s=deadline_s)
    raise BadRequest(f"a desktop has no call {request['call']!r}")
