"""Relaying on the probe's side, with programs of this machine in place of the desktop's."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sandbox.probe import forward
from sandbox.probe.forward import Forwards, NoConnection


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(10)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)  # soon full
        yield made


def _open(forwards: Forwards, listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """A forwarded connection: the host's end, and the program's."""
    host, theirs = socket.socketpair()
    inside = forwards.connect(listener.getsockname()[1], time.monotonic() + 5)
    inside.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)  # which the kernel would let grow
    forwards.adopt(theirs, inside, b"hi")
    program, _ = listener.accept()
    for side in (host, program):
        side.settimeout(10)
    assert host.recv(2) == b"hi"
    return host, program


def _fill(host: socket.socket) -> int:
    """Send until nothing more is taken; returns how much was."""
    host.settimeout(0.5)
    sent = 0
    try:
        while True:
            sent += host.send(bytes(1 << 16))
    except TimeoutError:
        return sent


def _wait(check: Callable[[], object]) -> None:
    until = time.monotonic() + 10
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_bytes_and_ends_pass_either_way(listener: socket.socket) -> None:
    forwards = Forwards()
    host, program = _open(forwards, listener)
    with host, program:
        host.sendall(b"question")
        assert program.recv(100) == b"question"
        host.shutdown(socket.SHUT_WR)
        assert program.recv(100) == b""  # and only this way has ended
        program.sendall(b"answer")
        assert host.recv(100) == b"answer"
        program.close()
        assert host.recv(100) == b""
    _wait(lambda: not forwards._pairs)


def test_what_a_host_sent_before_it_hung_up_arrives(listener: socket.socket) -> None:
    forwards = Forwards()
    host, program = _open(forwards, listener)
    sent = _fill(host)
    host.close()
    with program:
        received = 0
        while data := program.recv(1 << 20):
            received += len(data)
    assert received == sent
    _wait(lambda: not forwards._pairs)


def test_a_program_that_never_reads_does_not_keep_a_host_that_hung_up(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "LINGER_S", 0.2)
    forwards = Forwards()
    host, program = _open(forwards, listener)
    _fill(host)
    assert forwards._pairs
    host.close()
    _wait(lambda: not forwards._pairs)
    program.close()


def test_a_stalled_connection_uses_no_processor(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[bool] = []
    advance = forward._Pair.advance

    def counted(pair: forward._Pair, host_hung_up: bool) -> bool:
        turns.append(host_hung_up)
        return advance(pair, host_hung_up)

    monkeypatch.setattr(forward._Pair, "advance", counted)
    forwards = Forwards()
    host, program = _open(forwards, listener)
    _fill(host)
    host.close()  # the hang-up is noticed, and what is held still waits for the program
    time.sleep(0.3)
    turns.clear()
    time.sleep(0.5)
    assert len(turns) < 5
    program.close()


def test_places_are_limited_and_come_back(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_CONNECTIONS", 2)
    forwards = Forwards()
    port = listener.getsockname()[1]
    opened = [_open(forwards, listener) for _ in range(2)]
    with pytest.raises(NoConnection, match="2 connections are forwarded already"):
        forwards.connect(port, time.monotonic() + 5)
    for side in opened[0]:
        side.close()
    _wait(lambda: len(forwards._pairs) == 2)
    opened.append(_open(forwards, listener))
    forwards.drop()
    for host, program in opened[1:]:
        assert host.recv(1) == b""
        assert program.recv(1) == b""
        host.close()
        program.close()
    # A refused connection takes no place.
    for _ in range(5):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            with pytest.raises(NoConnection, match="nothing listens on port"):
                forwards.connect(unused.getsockname()[1], time.monotonic() + 5)
    for host, program in [_open(forwards, listener) for _ in range(2)]:
        host.close()
        program.close()


def test_many_at_once_are_kept_apart(listener: socket.socket) -> None:
    forwards = Forwards()
    pairs = [_open(forwards, listener) for _ in range(40)]

    def echo(program: socket.socket) -> None:
        with program:
            while data := program.recv(1 << 16):
                program.sendall(data)

    threads = [threading.Thread(target=echo, args=(program,)) for _, program in pairs]
    for thread in threads:
        thread.start()
    for number, (host, _) in enumerate(pairs):
        host.sendall(bytes([number]) * 10_000)
        host.shutdown(socket.SHUT_WR)
    for number, (host, _) in enumerate(pairs):
        with host, host.makefile("rb") as stream:
            assert stream.read() == bytes([number]) * 10_000
    for thread in threads:
        thread.join()
    _wait(lambda: not forwards._pairs)


@pytest.mark.parametrize("port", [0, 65536, -1, "80", None, True, 80.0])
def test_what_is_no_port_is_refused(port: object) -> None:
    with pytest.raises(NoConnection, match="a port is a number"):
        Forwards().connect(port, time.monotonic() + 1)


def test_a_port_that_takes_no_connection_is_given_up_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as one, socket.socket() as two:
        for waiting in (one, two):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        with pytest.raises(NoConnection) as refused:
            Forwards().connect(full.getsockname()[1], time.monotonic() + 0.2)
        assert refused.value.kind == "DeadlineExceeded"
