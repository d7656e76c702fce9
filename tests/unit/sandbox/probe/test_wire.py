"""Framing of the probe protocol: what is written is read, and what is no message is said to be none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.probe import wire

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected sockets: one to write into, one to read from."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    yield ours, theirs
    ours.close()
    theirs.close()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.dictionaries(st.text(), json_values, max_size=5), st.binary(max_size=64))
def test_a_message_is_read_as_it_was_written(message: dict[str, object], body: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.encode(message, len(body)) + body + wire.encode({"next": 1}))
        received = wire.recv_message(theirs)
        assert received == (message, len(body))
        assert wire.recv_exactly(theirs, len(body)) == body
        assert wire.recv_message(theirs) == ({"next": 1}, 0)


def test_names_that_are_not_utf_8_survive(pair: Pair) -> None:
    path = b"bad \xff name".decode("utf-8", "surrogateescape")
    pair[0].sendall(wire.encode({"path": path}))
    assert wire.recv_message(pair[1]) == ({"path": path}, 0)


def test_a_message_may_come_byte_by_byte(pair: Pair) -> None:
    data = wire.encode({"a": "b" * 50}, 3) + b"xyz"

    def trickle() -> None:
        for byte in data:
            pair[0].sendall(bytes([byte]))

    writer = threading.Thread(target=trickle)
    writer.start()
    assert wire.recv_message(pair[1]) == ({"a": "b" * 50}, 3)
    assert wire.recv_exactly(pair[1], 3) == b"xyz"
    writer.join()


def test_a_clean_end_is_no_message(pair: Pair) -> None:
    pair[0].close()
    assert wire.recv_message(pair[1]) is None


@pytest.mark.parametrize("cut", [1, 5, 11, 12, 15])
def test_an_end_in_the_middle_is_an_error(pair: Pair, cut: int) -> None:
    pair[0].sendall(wire.encode({"some": "message"})[:cut])
    pair[0].close()
    with pytest.raises(wire.WireError, match="hung up in the middle"):
        wire.recv_message(pair[1])


@pytest.mark.parametrize(
    "data", [b"{nope", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000], ids=["broken", "list", "text", "bytes", "deep"]
)
def test_what_is_no_json_object_is_an_error(pair: Pair, data: bytes) -> None:
    threading.Thread(target=pair[0].sendall, args=(wire.HEADER.pack(len(data), 0) + data,), daemon=True).start()
    with pytest.raises(wire.WireError):
        wire.recv_message(pair[1])


def test_lengths_have_a_limit() -> None:
    assert wire.decode_header(wire.HEADER.pack(wire.MAX_JSON, 1 << 60)) == (wire.MAX_JSON, 1 << 60)
    with pytest.raises(wire.WireError, match="over the limit"):
        wire.decode_header(wire.HEADER.pack(wire.MAX_JSON + 1, 0))
