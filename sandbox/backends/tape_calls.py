"""The calls of a desktop as JSON: what is asked, and what is answered, there and back.

A `Call` names everything of a request that can change its answer; deadlines and request ids cannot. Bytes and frames
are named by their hash and kept as blobs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sandbox import errors
from sandbox.actions import Action, action_json
from sandbox.desktop import (
    A11yNode,
    ActionResult,
    ExecResult,
    Health,
    Observation,
    Rect,
    Settle,
    SettleReport,
    StepResult,
    User,
    Want,
    Window,
)
from sandbox.errors import BadRequest, DesktopError, FileRefused
from sandbox.evidence import Evidence, EvidenceRequest
from sandbox.frame import Frame

__all__ = ["Call", "Get", "Put", "decode_error", "encode_error"]

T = TypeVar("T")
Put = Callable[[bytes], str]
"""Stores bytes and returns their name."""
Get = Callable[[str], bytes]
"""The bytes of a name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Generic[T]):
    """One request and how to keep its answer."""

    request: dict[str, Any]
    encode: Callable[[T, Put], Any]
    decode: Callable[[Any, Get], T]
    moves: bool = True
    """Whether the desktop is in another state afterwards, as far as a tape is concerned."""


def step(actions: Sequence[Action], settle: Settle | None, want: Sequence[Want]) -> Call[StepResult]:
    """`Desktop.step`."""
    request = {
        "call": "step",
        "actions": [action_json(action) for action in actions],
        "settle": None if settle is None else dataclasses.asdict(settle),
        "want": sorted(set(want)),
    }
    return Call(request=request, encode=_encode_step, decode=_decode_step)


def observe(want: Sequence[Want]) -> Call[Observation]:
    """`Desktop.observe`."""
    request = {"call": "observe", "want": sorted(set(want))}
    return Call(request=request, encode=_encode_observation, decode=_decode_observation)


def collect(requests: Sequence[EvidenceRequest]) -> Call[Evidence]:
    """`Desktop.collect`."""
    request = {"call": "collect", "requests": [item.model_dump(mode="json") for item in requests]}
    return Call(
        request=request,
        encode=lambda answer, put: {"items": put(_json_bytes(answer.model_dump()["items"])), "clock_s": answer.clock_s},
        decode=lambda data, get: Evidence(items=json.loads(get(data["items"])), clock_s=data["clock_s"]),
    )


def health() -> Call[Health]:
    """`Desktop.health`: a look from outside that leaves the desktop in its state."""
    return Call(
        request={"call": "health"},
        encode=lambda answer, _: dataclasses.asdict(answer),
        decode=lambda data, _: Health(**data),
        moves=False,
    )


def execute(
    argv: Sequence[str], *, user: User, cwd: str | None, env: dict[str, str] | None, stdin: bytes, max_output: int
) -> Call[ExecResult]:
    """`Box.exec`."""
    request = {
        "call": "exec",
        "argv": list(argv),
        "user": user,
        "cwd": cwd,
        "env": env or {},
        "stdin": _hash(stdin),
        "max_output": max_output,
    }
    return Call(request=request, encode=_encode_exec, decode=_decode_exec)


def spawn(argv: Sequence[str], *, user: User, cwd: str | None, env: dict[str, str] | None) -> Call[int]:
    """`Box.spawn`."""
    request = {"call": "spawn", "argv": list(argv), "user": user, "cwd": cwd, "env": env or {}}
    return Call(request=request, encode=lambda pid, _: pid, decode=lambda data, _: int(data))


def put_file(path: str, data: bytes, *, user: User, mode: int) -> Call[None]:
    """`Box.put_file`."""
    request = {"call": "put_file", "path": path, "data": _hash(data), "user": user, "mode": mode}
    return Call(request=request, encode=lambda _, put: None, decode=lambda _, get: None)


def get_file(path: str, *, max_bytes: int) -> Call[bytes]:
    """`Box.get_file`."""
    request = {"call": "get_file", "path": path, "max_bytes": max_bytes}
    return Call(request=request, encode=lambda data, put: put(data), decode=lambda name, get: get(name))


def upload(source: Path, path: str, *, user: User, mode: int) -> Call[int]:
    """`Box.upload`: the same request as a `put_file` of the same bytes.

    Raises:
        FileRefused: the file cannot be read.
    """
    try:
        with source.open("rb") as file:
            digest, size = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
    except OSError as error:
        raise FileRefused(f"{source} on this machine: {error.strerror}", kind="unreadable") from error
    request = {"call": "put_file", "path": path, "data": digest, "user": user, "mode": mode}
    return Call(request=request, encode=lambda _, put: None, decode=lambda _, get: size)


def download(path: str, target: Path, *, max_bytes: int) -> Call[int]:
    """`Box.download`: the same request as a `get_file`. A recording keeps the file, and so holds it in memory once."""

    def decode(name: str, get: Get) -> int:
        try:
            return target.write_bytes(get(name))
        except OSError as error:
            raise FileRefused(f"{target} on this machine: {error.strerror}", kind="unwritable") from error

    return Call(
        request={"call": "get_file", "path": path, "max_bytes": max_bytes},
        encode=lambda _, put: put(target.read_bytes()),
        decode=decode,
    )


def encode_error(error: Exception) -> dict[str, Any] | None:
    """A typed failure as JSON; None for one that is no answer of a desktop."""
    if isinstance(error, FileNotFoundError):
        return {"type": "FileNotFoundError", "message": str(error)}
    if isinstance(error, FileRefused):
        return {"type": "FileRefused", "message": str(error), "kind": error.kind}
    if isinstance(error, BadRequest):
        return {"type": "BadRequest", "message": str(error)}
    if isinstance(error, DesktopError) and not isinstance(error, errors.LeaseExpired):
        kind = next(cls for cls in type(error).__mro__ if _FAILURES.get(cls.__name__) is cls)
        return {"type": kind.__name__, "message": str(error), "phase": error.phase, "state": error.state}
    return None


def decode_error(data: dict[str, Any]) -> Exception:
    """The failure of the same type, phase and words."""
    kind, message = data["type"], data["message"]
    if kind == "FileNotFoundError":
        return FileNotFoundError(message)
    if kind == "FileRefused":
        return FileRefused(message, kind=data["kind"])
    if kind == "BadRequest":
        return BadRequest(message)
    return _FAILURES[kind](message, phase=data["phase"], state=data["state"])


_FAILURES: dict[str, type[DesktopError]] = {
    cls.__name__: cls
    for cls in (
        DesktopError,
        errors.BootFailed,
        errors.DesktopLost,
        errors.ProbeLost,
        errors.DeadlineExceeded,
        errors.Unavailable,
        errors.RecordingMiss,
    )
}


def _encode_step(answer: StepResult, put: Put) -> Any:
    return {
        "actions": [dataclasses.asdict(action) for action in answer.actions],
        "settle": dataclasses.asdict(answer.settle),
        "observation": _encode_observation(answer.observation, put),
    }


def _decode_step(data: Any, get: Get) -> StepResult:
    return StepResult(
        actions=tuple(ActionResult(**action) for action in data["actions"]),
        settle=SettleReport(**data["settle"]),
        observation=_decode_observation(data["observation"], get),
    )


def _encode_observation(seen: Observation, put: Put) -> Any:
    return {
        "version": seen.version,
        "frame": None if seen.frame is None else put(seen.frame.encode()),
        "cursor": list(seen.cursor),
        "windows": None if seen.windows is None else [dataclasses.asdict(window) for window in seen.windows],
        "a11y": None if seen.a11y is None else put(_json_bytes([dataclasses.asdict(root) for root in seen.a11y])),
        "clock_s": seen.clock_s,
    }


def _decode_observation(data: Any, get: Get) -> Observation:
    frame, windows, a11y = data["frame"], data["windows"], data["a11y"]
    return Observation(
        version=data["version"],
        frame=None if frame is None else Frame.decode(get(frame)),
        cursor=(data["cursor"][0], data["cursor"][1]),
        windows=None if windows is None else tuple(_window(window) for window in windows),
        a11y=None if a11y is None else tuple(_node(root) for root in json.loads(get(a11y))),
        clock_s=data["clock_s"],
    )


def _window(data: dict[str, Any]) -> Window:
    return Window(**{**data, "bounds": Rect(**data["bounds"])})


def _node(data: dict[str, Any]) -> A11yNode:
    bounds = None if data["bounds"] is None else Rect(**data["bounds"])
    children = tuple(_node(child) for child in data["children"])
    return A11yNode(**{**data, "states": tuple(data["states"]), "bounds": bounds, "children": children})


def _encode_exec(answer: ExecResult, put: Put) -> Any:
    return {**dataclasses.asdict(answer), "stdout": put(answer.stdout), "stderr": put(answer.stderr)}


def _decode_exec(data: Any, get: Get) -> ExecResult:
    return ExecResult(**{**data, "stdout": get(data["stdout"]), "stderr": get(data["stderr"])})


def _json_bytes(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
