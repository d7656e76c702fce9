"""Connections from the host to a port of the desktop's own loopback, all relayed by one thread with fixed buffers.

The probe itself connects, to 127.0.0.1 or ::1 inside the desktop's network namespace, so a connection ends at a program
of the desktop and nowhere else. Such a program gains nothing by it: it learns of a peer of another uid, the bytes are
passed on unread, and however it stalls or floods, it costs two buffers and a place among `MAX_CONNECTIONS`.

::

    host --unix socket--> up --TCP--> program        each way: at most one chunk held, read again once that is sent;
    host <--------------- down <----- program        an end is passed on as a half-close; both ended: closed

Accepted: a reset inside reaches the host as an end, for unix sockets have no other.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import socket
import threading
import time

__all__ = ["MAX_CONNECTIONS", "Forwards", "NoConnection"]

MAX_CONNECTIONS = 256
CHUNK = 1 << 16
TURNS = 8
"""Chunks that one way passes before the others have their turn."""
LINGER_S = 10.0
"""How long what a host that hung up has sent still waits to be read."""


class NoConnection(Exception):
    """The port cannot be reached; `kind` is the error's type on the wire."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class _Way:
    """One direction of a connection."""

    __slots__ = ("held", "over", "shut", "sink", "source")

    def __init__(self, source: socket.socket, sink: socket.socket, held: bytes = b"") -> None:
        self.source = source
        self.sink = sink
        self.held = memoryview(held)
        self.over = False
        """Nothing more comes."""
        self.shut = False
        """And whoever reads it was told."""

    def move(self) -> None:
        """Pass on what is there and fits, without waiting."""
        try:
            for _ in range(TURNS):
                if not self.held and not self.over:
                    self._pull()
                if self.held:
                    self.held = self.held[self.sink.send(self.held) :]
                if self.over and not self.held:
                    self.abandon()
                    return
        except BlockingIOError:
            return
        except OSError:  # nobody reads any more
            self.abandon()

    def _pull(self) -> None:
        try:
            data = self.source.recv(CHUNK)
        except ConnectionError:
            data = b""
        self.held, self.over = memoryview(data), not data

    def abandon(self) -> None:
        """Pass on nothing more, and say so."""
        self.over, self.shut, self.held = True, True, memoryview(b"")
        with contextlib.suppress(OSError):  # the other end is gone altogether
            self.sink.shutdown(socket.SHUT_WR)


class _Pair:
    """One connection, both ways."""

    def __init__(self, host: socket.socket, inside: socket.socket, greeting: bytes) -> None:
        self.host = host
        self.inside = inside
        self.up = _Way(host, inside)
        self.down = _Way(inside, host, greeting)
        self.leaves_at: float | None = None
        """When it is closed at the latest: its host hung up."""

    def interests(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """What to wait for: (descriptor, events) of the host's socket and of the inner one."""
        masks = []
        for to_read, to_write in ((self.up, self.down), (self.down, self.up)):
            reading = select.EPOLLIN if not to_read.held and not to_read.over else 0
            writing = select.EPOLLOUT if to_write.held else 0
            # Edge-triggered where there is nothing to wait for: a hang-up is then told once, not all the time.
            masks.append((reading | writing) or select.EPOLLET)
        return (self.host.fileno(), masks[0]), (self.inside.fileno(), masks[1])

    def advance(self, host_hung_up: bool) -> bool:
        """Pass on what can be; True once it is over."""
        if host_hung_up and self.leaves_at is None:
            self.leaves_at = time.monotonic() + LINGER_S
            self.down.abandon()
        self.up.move()
        if not self.down.shut:
            self.down.move()
        return self.up.shut and self.down.shut


class Forwards:
    """Makes the connections and relays them. Its thread starts with the first of them."""

    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._news: queue.SimpleQueue[_Pair | None] = queue.SimpleQueue()
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        self._epoll = select.epoll()
        self._epoll.register(self._wake_r, select.EPOLLIN)
        self._pairs: dict[int, _Pair] = {}  # by both descriptors
        self._waits: dict[int, int] = {}  # descriptor -> events that are waited for

    def connect(self, port: object, deadline: float) -> socket.socket:
        """A connection to a port of the desktop's loopback; `adopt` it.

        Raises:
            NoConnection: there is none to be had.
        """
        if type(port) is not int or not 0 < port < 1 << 16:
            raise NoConnection("BadRequest", f"a port is a number from 1 to 65535, not {port!r}")
        if not self._room.acquire(blocking=False):
            raise NoConnection("Unavailable", f"{MAX_CONNECTIONS} connections are forwarded already; close some")
        try:
            return _connect(port, deadline)
        except BaseException:
            self._room.release()
            raise

    def adopt(self, host: socket.socket, inside: socket.socket, greeting: bytes) -> None:
        """Relay between the two from now on, after the greeting to the host. Both are closed in the end."""
        host.setblocking(False)
        inside.setblocking(False)
        try:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._relay, daemon=True)
                    thread.start()
                    self._thread = thread
        except RuntimeError:  # the desktop has no room for a thread; the caller learns it from the closed connection
            self._end(_Pair(host, inside, b""))
            return
        self._tell(_Pair(host, inside, greeting))

    def drop(self) -> None:
        """Close every connection made so far."""
        if self._thread is not None:
            self._tell(None)

    def _tell(self, news: _Pair | None) -> None:
        self._news.put(news)
        os.write(self._wake_w, b".")

    def _relay(self) -> None:
        while True:
            leaving = any(pair.leaves_at is not None for pair in self._pairs.values())
            woken = False
            for fd, events in self._epoll.poll(1.0 if leaving else None):
                if fd == self._wake_r:
                    woken = True
                elif (pair := self._pairs.get(fd)) is not None:
                    self._advance(pair, hung_up=fd == pair.host.fileno() and bool(events & select.EPOLLHUP))
            for pair in {id(pair): pair for pair in self._pairs.values() if pair.leaves_at is not None}.values():
                assert pair.leaves_at is not None
                if time.monotonic() > pair.leaves_at:
                    self._end(pair)
            if woken:  # last, since new connections may have the numbers of those that just ended
                self._hear()

    def _hear(self) -> None:
        os.read(self._wake_r, 4096)
        while not self._news.empty():
            news = self._news.get()
            if news is None:
                for pair in list({id(pair): pair for pair in self._pairs.values()}.values()):
                    self._end(pair)
                continue
            for fd, events in news.interests():
                self._epoll.register(fd, events)
                self._pairs[fd], self._waits[fd] = news, events
            self._advance(news, hung_up=False)

    def _advance(self, pair: _Pair, *, hung_up: bool) -> None:
        if pair.advance(hung_up):
            self._end(pair)
            return
        for fd, events in pair.interests():
            if self._waits[fd] != events:  # setting them anew would tell a hang-up once more
                self._epoll.modify(fd, events)
                self._waits[fd] = events

    def _end(self, pair: _Pair) -> None:
        for side in (pair.host, pair.inside):
            self._pairs.pop(side.fileno(), None)
            self._waits.pop(side.fileno(), None)
            side.close()  # which takes it out of the epoll set as well
        self._room.release()


def _connect(port: int, deadline: float) -> socket.socket:
    reasons = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.settimeout(max(0.01, deadline - time.monotonic()))
            made.connect((address, port))
            if made.getsockname() != made.getpeername():  # a connection can meet itself where nobody listens
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return made
        except TimeoutError as error:
            made.close()
            raise NoConnection("DeadlineExceeded", f"port {port} of the desktop takes no connection") from error
        except OSError as error:
            reasons.append(error.errno)
        made.close()
    if errno.ENETUNREACH in reasons[:1] or errno.EADDRNOTAVAIL in reasons[:1]:
        raise NoConnection("Unavailable", "the desktop has no loopback to connect to: its network is `none`")
    raise NoConnection("Unavailable", f"nothing listens on port {port} of the desktop")
