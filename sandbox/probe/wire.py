"""Framing of the probe protocol, for both ends.

A message is a header of two big-endian integers (u32 JSON length, u64 body length), the JSON, then the body. Every
request carries `v` (protocol version), `token`, `epoch`, `id` and `deadline_ms`; the answer carries the same `id` and
either `result` or `error` = {type, message, state}. Bodies are raw bytes (pixels, files) and are streamed, never held
twice.

A body whose sender can fail in the middle comes in pieces: the header says STREAMED for its length; each piece is a u32
length and its bytes; one of length 0 ends it, and a second message says how it went.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

__all__ = [
    "HEADER",
    "MAX_JSON",
    "PIECE",
    "STREAMED",
    "VERSION",
    "WireError",
    "decode_header",
    "encode",
    "recv_exactly",
    "recv_message",
]

VERSION = 2
HEADER = struct.Struct(">IQ")
PIECE = struct.Struct(">I")
STREAMED = (1 << 64) - 1
MAX_JSON = 16 << 20


class WireError(Exception):
    """The peer does not speak this protocol, or hung up in the middle of a message."""


def encode(message: dict[str, Any], body_length: int = 0, *, clean: bool = False) -> bytes:
    """Header and JSON of a message; the body follows separately.

    Args:
        clean: put `?` for what is not Unicode. File names need not be; a request may carry such a name, an answer is
            kept and passed on as text.
    """
    text = json.dumps(message, separators=(",", ":"), ensure_ascii=not clean)
    data = text.encode("utf-8", "replace")
    return HEADER.pack(len(data), body_length) + data


def decode_header(data: bytes) -> tuple[int, int]:
    """(JSON length, body length).

    Raises:
        WireError: the lengths are beyond what the protocol allows.
    """
    json_length, body_length = HEADER.unpack(data)
    if json_length > MAX_JSON:
        raise WireError(f"a message of {json_length} bytes of JSON is over the limit of {MAX_JSON}")
    return int(json_length), int(body_length)


def recv_exactly(sock: socket.socket, count: int) -> bytes:
    """Read `count` bytes from a blocking socket.

    Raises:
        WireError: the peer hung up first.
    """
    data = bytearray(count)
    view, have = memoryview(data), 0
    while have < count:
        got = sock.recv_into(view[have:])
        if not got:
            raise WireError("the peer hung up in the middle of a message")
        have += got
    return bytes(data)


def recv_message(sock: socket.socket) -> tuple[dict[str, Any], int] | None:
    """Read one message's JSON and the length of the body that follows it; None at a clean end.

    Raises:
        WireError: what arrived is not a message.
    """
    first = sock.recv(1)
    if not first:
        return None
    json_length, body_length = decode_header(first + recv_exactly(sock, HEADER.size - 1))
    try:
        message = json.loads(recv_exactly(sock, json_length))
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise WireError("a message is a JSON object")
    return message, body_length
