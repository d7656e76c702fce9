"""Waiting until the screen is settled, by XDamage.

The watcher has an X connection of its own. Another X client can kill a connection that owns a resource (here: the
damage object); then the watcher reconnects, and the desktop's health counts it. The connection that injects input owns
nothing and so cannot be killed.

::

    drain() before acting -> act -> wait(): first change within first_ms, then quiet for quiet_ms, at most cap_ms
"""

from __future__ import annotations

import time
from typing import Any

from Xlib import display, error
from Xlib.ext import damage

from sandbox.probe.waiting import ready

__all__ = ["DamageWatcher", "SettleOutcome"]


class SettleOutcome:
    """How settling went."""

    __slots__ = ("changed", "settled", "waited_ms")

    def __init__(self, changed: bool, settled: bool, waited_ms: float) -> None:
        self.changed = changed
        self.settled = settled
        self.waited_ms = waited_ms


class DamageWatcher:
    """Watches the root window and everything on it for drawing."""

    def __init__(self, display_name: str) -> None:
        self._name = display_name
        self.reconnects = 0
        self._connect()

    def _connect(self) -> None:
        self._display: Any = display.Display(self._name)
        self._display.damage_query_version()
        self._damage = self._display.screen().root.damage_create(damage.DamageReportNonEmpty)
        self._display.sync()

    def drain(self) -> bool:
        """Forget the damage so far; True if there was any."""
        try:
            return self._drain()
        except (error.ConnectionClosedError, OSError):
            self.reconnects += 1
            self._connect()
            return True

    def _drain(self) -> bool:
        seen = False
        while self._display.pending_events():
            self._display.next_event()
            seen = True
        if seen:
            # A damage object reports once until it is emptied; what was drawn in between raises a new event.
            self._display.damage_subtract(self._damage, 0, 0)
            self._display.flush()
        return seen

    def wait(self, first_ms: float, quiet_ms: float, cap_ms: float) -> SettleOutcome:
        """Wait until nothing is drawn any more."""
        start = time.monotonic()
        cap = start + cap_ms / 1000
        until = start + first_ms / 1000
        changed = False
        while True:
            now = time.monotonic()
            if self.drain():
                changed = True
                until = now + quiet_ms / 1000
            if now >= cap:
                return SettleOutcome(changed, not changed or now >= until, (now - start) * 1000)
            if now >= until:
                return SettleOutcome(changed, True, (now - start) * 1000)
            ready([self._display.fileno()], min(until, cap) - now)
