"""Waits until the active application has dealt with the keys that it was sent.

Applications handle what they are sent in order, but some only note down what certain keys do and do it when they are
idle: LibreOffice breaks a line like that, and letters that come too soon stand before the break. So after such a key
the application is asked whether it is there (`_NET_WM_PING`). It answers when it has taken everything sent before; then
it is left alone as long as it took to answer, and asked again, for it may have been drawing.

Whoever does not answer, or does not say that it answers, costs a bounded time and is not asked again in the same text.
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
IDLE_S = 0.01
ROUNDS = 2


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
        self._number = 0
        self._answers = True

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Answers go to whoever watches the root window; that is done for the length of a block only."""
        self._answers = True
        self._root.change_attributes(event_mask=X.SubstructureNotifyMask)
        try:
            yield
        finally:
            self._root.change_attributes(event_mask=0)

    def wait(self) -> None:
        """Return when the application has dealt with what it was sent, or does not answer."""
        for _ in range(ROUNDS):
            begun = time.monotonic()
            if self._answers:
                self._answers = self._asked()
            time.sleep(max(IDLE_S, time.monotonic() - begun))

    def _asked(self) -> bool:
        try:
            active = self._root.get_property(self._active, X.AnyPropertyType, 0, 1)
            if active is None or not active.value[0]:
                return False
            window = self._display.create_resource_object("window", int(active.value[0]))
            protocols = window.get_property(self._protocols, X.AnyPropertyType, 0, 32)
        except error.XError:  # it is just closing
            return False
        if protocols is None or self._ping not in protocols.value:
            return False
        self._number = self._number % 0x7FFF_FFFF + 1
        data = (32, [self._ping, self._number, window.id, 0, 0])
        question = event.ClientMessage(window=window, client_type=self._protocols, data=data)
        window.send_event(question, onerror=_ignore)
        return self._answered(time.monotonic() + ANSWER_S)

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


def _ignore(*_: object) -> None:
    """The window may be closed by now."""
