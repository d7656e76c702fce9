"""Waits until the active application has dealt with the keys that it was sent.

Applications handle what they are sent in order, but some only note down what certain keys do and do it when they are
idle: LibreOffice breaks a line like that, and letters that come too soon stand before the break. So after such a key
the application is asked whether it is there (`_NET_WM_PING`), which it answers when it has taken everything sent
before. Then it is watched until it sleeps: a process that waits for a processor is not asleep, however long it waits.

Whoever does not answer or sleep, or does not say that it answers and which process it is, costs a bounded time and is
not waited for again in the same text. Both are the application's own word; a lie spoils its own text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from Xlib import X, error
from Xlib.protocol import event

from sandbox.probe.waiting import ready

__all__ = ["Receipt"]

ANSWER_S = 2.0
REST_S = 2.0
NAP_S = 0.015
"""Asleep at both ends of this, and not run in between: that is idle."""


class Receipt:
    """Asks the active window's application.

    Args:
        connection: a python-xlib Display; while `asking`, its events are taken off its queue.
    """

    def __init__(self, connection: Any) -> None:
        self._display = connection
        self._root = connection.screen().root
        self._ping = connection.intern_atom("_NET_WM_PING")
        self._protocols = connection.intern_atom("WM_PROTOCOLS")
        self._active = connection.intern_atom("_NET_ACTIVE_WINDOW")
        self._pid = connection.intern_atom("_NET_WM_PID")
        self._number = 0
        self._worth_asking = True

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Answers go to whoever watches the root window; that is done for the length of a block only."""
        self._worth_asking = True
        self._root.change_attributes(event_mask=X.SubstructureNotifyMask)
        try:
            yield
        finally:
            self._root.change_attributes(event_mask=0)

    def wait(self) -> None:
        """Return when the application has dealt with what it was sent, or cannot be waited for."""
        if self._worth_asking:
            self._worth_asking = self._dealt_with()
        else:
            time.sleep(NAP_S)

    def _dealt_with(self) -> bool:
        try:
            active = self._property(self._root, self._active)
            if not active or not active[0]:
                return False
            window = self._display.create_resource_object("window", int(active[0]))
            protocols, pid = self._property(window, self._protocols), self._property(window, self._pid)
        except error.XError:  # it is just closing
            return False
        if self._ping not in protocols or not pid:
            return False
        self._number = self._number % 0x7FFF_FFFF + 1
        data = (32, [self._ping, self._number, window.id, 0, 0])
        question = event.ClientMessage(window=window, client_type=self._protocols, data=data)
        window.send_event(question, onerror=_ignore)
        return self._answered(time.monotonic() + ANSWER_S) and _sleeps(int(pid[0]), time.monotonic() + REST_S)

    def _property(self, window: Any, name: int) -> Any:
        reply = window.get_property(name, X.AnyPropertyType, 0, 32)
        return () if reply is None else reply.value

    def _answered(self, until: float) -> bool:
        self._display.flush()
        while True:
            while self._display.pending_events():
                seen = self._display.next_event()
                if seen.type == X.ClientMessage and list(seen.data[1])[:2] == [self._ping, self._number]:
                    return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            ready([self._display.fileno()], left)


def _sleeps(pid: int, until: float) -> bool:
    """Whether a process's first thread falls asleep in time."""
    before = _activity(pid)
    while before is not None and time.monotonic() < until:
        time.sleep(NAP_S)
        now = _activity(pid)
        if now == before and now[0] == "S":
            return True
        before = now
    return False


def _activity(pid: int) -> tuple[str, str] | None:
    """The state of a process's first thread, and how long and how often it ran; None where that cannot be known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            state = stat.read().rpartition(") ")[2][:1]
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as schedule:
            return state, schedule.read()
    except OSError:
        return None


def _ignore(*_: object) -> None:
    """The window may be closed by now."""
