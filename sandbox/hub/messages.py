"""What a hub and its clients say to each other over a socket.

A connection begins with a proof that the client knows the token, which itself is never sent; then it carries one
request and one answer at a time, framed as the probe's protocol is (`sandbox.probe.wire`).

::

    hub:    {v, nonce}              client: {v, proof}            hub: {result} or {error}
    client: {op, deadline_s, ...}   + bytes that go into the desktop
    hub:    {result} or {error}     + the frame, if the client does not have it, + other bytes (files, output)

A frame is named by its hash. The client says which frames it has, and those are never sent again. To another machine
frames go compressed (zstd, lossless); within one they go as they are, which costs less.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any

import zstandard

from sandbox import errors
from sandbox.errors import DesktopError, FileRefused, MissingRequirement, SandboxError
from sandbox.frame import Frame
from sandbox.probe import wire

__all__ = [
    "VERSION",
    "Message",
    "decode_error",
    "encode_error",
    "pack_frame",
    "proof_of",
    "read_message",
    "send_message",
    "unpack_frame",
]

VERSION = 1
MAX_BODY = 4 << 30

Message = dict[str, Any]

_TYPES: dict[str, type[SandboxError]] = {
    name: kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)
}


def proof_of(token: str, nonce: str) -> str:
    """What shows that its sender knows the token; good for one nonce."""
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()


async def read_message(
    reader: asyncio.StreamReader, *, max_json: int = wire.MAX_JSON, max_body: int = MAX_BODY
) -> tuple[Message, bytes]:
    """One message and the bytes that follow it.

    Raises:
        WireError: what arrived is not a message, or is larger than allowed.
        EOFError, OSError: the peer hung up.
    """
    json_length, body_length = wire.decode_header(await reader.readexactly(wire.HEADER.size))
    if json_length > max_json or body_length > max_body:
        raise wire.WireError(f"a message of {json_length} and {body_length} bytes is larger than is allowed here")
    try:
        message = json.loads(await reader.readexactly(json_length))
    except (ValueError, RecursionError) as error:
        raise wire.WireError(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise wire.WireError("a message is a JSON object")
    return message, await reader.readexactly(body_length) if body_length else b""


async def send_message(writer: asyncio.StreamWriter, message: Message, body: Sequence[bytes] = ()) -> None:
    """Send a message and the bytes that follow it.

    Raises:
        OSError: the peer hung up.
    """
    writer.write(wire.encode(message, sum(map(len, body))))
    for piece in body:
        writer.write(piece)
    await writer.drain()


def encode_error(error: Exception) -> Message:
    """A failure with all that its type carries; its cause goes along in words."""
    if isinstance(error, MissingRequirement):
        return {"type": "MissingRequirement", "what": error.what, "fix": error.fix}
    if isinstance(error, FileNotFoundError):
        return {"type": "FileNotFoundError", "message": str(error)}
    if isinstance(error, FileRefused):
        return {"type": "FileRefused", "message": str(error), "kind": error.kind}
    if isinstance(error, DesktopError):
        state = dict(error.state)
        if error.__cause__ is not None:
            state.setdefault("cause", f"{type(error.__cause__).__name__}: {error.__cause__}")
        return {"type": _name_of(error), "message": str(error), "phase": error.phase, "state": state}
    return {"type": _name_of(error), "message": str(error) or repr(error)}


def decode_error(data: Message) -> Exception:
    """The failure of the same type, phase and words."""
    name, message = data["type"], data.get("message", "")
    if name == "FileNotFoundError":
        return FileNotFoundError(message)
    kind = _TYPES.get(name, SandboxError)
    if kind is MissingRequirement:
        return MissingRequirement(data["what"], fix=data["fix"])
    if kind is FileRefused:
        return FileRefused(message, kind=data["kind"])
    if issubclass(kind, DesktopError):
        return kind(message, phase=data["phase"], state=data["state"])
    return kind(message)


def _name_of(error: Exception) -> str:
    """The nearest type that the other side knows too."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _TYPES), "SandboxError")


async def pack_frame(frame: Frame, *, compress: bool) -> bytes:
    """A frame's pixels as they are sent."""
    if not compress:
        return frame.pixels
    return await asyncio.to_thread(zstandard.ZstdCompressor(level=1).compress, frame.pixels)


async def unpack_frame(width: int, height: int, sha256: str, data: bytes) -> Frame:
    """The inverse of `pack_frame`, checked.

    Raises:
        WireError: these are not the frame's pixels.
    """
    size = width * height * 3
    try:
        if len(data) != size:
            data = await asyncio.to_thread(zstandard.ZstdDecompressor().decompress, data, size)
        frame = Frame.from_pixels(width, height, data)
    except (zstandard.ZstdError, ValueError) as error:
        raise wire.WireError(f"a frame arrived damaged: {error}") from error
    if frame.sha256 != sha256:
        raise wire.WireError("a frame arrived damaged")
    return frame
