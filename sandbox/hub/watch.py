"""Signs that a desktop is no longer what it was lent as, though every call on it still answers.

* Frozen: the pointer is drawn into every frame, so a pointer that moved must change the frame. When it did not, many
  times in a row, the screen that the worker sees is not the one that it acts on, and its episode must not count.
  (An application may hide the pointer; none of ours does for `FROZEN_AFTER` moves.)
* Swollen: a desktop that nobody uses needs no more memory. One that grew by `GROWTH_MB` since it was ready has a
  program that leaks, and would fail in the middle of an episode.
"""

from __future__ import annotations

from sandbox.desktop import Health, Observation
from sandbox.errors import DesktopLost

__all__ = ["FROZEN_AFTER", "GROWTH_MB", "MemoryWatch", "ScreenFrozen", "ScreenWatch"]

FROZEN_AFTER = 12
GROWTH_MB = 256


class ScreenFrozen(DesktopLost):
    """The frames of a desktop no longer show what happens in it."""


class ScreenWatch:
    """Looks at what the steps of one lease show."""

    def __init__(self) -> None:
        self._last: tuple[tuple[int, int], str] | None = None
        self._unchanged = 0

    def see(self, seen: Observation) -> None:
        """Take note of an observation.

        Raises:
            ScreenFrozen: this one makes `FROZEN_AFTER` in a row that did not change although the pointer moved.
        """
        if seen.frame is None:
            return
        now = seen.cursor, seen.frame.sha256
        if self._last is not None and now[1] != self._last[1]:
            self._unchanged = 0
        elif self._last is not None and now[0] != self._last[0]:
            self._unchanged += 1
        self._last = now
        if self._unchanged >= FROZEN_AFTER:
            raise ScreenFrozen(
                f"the screen is frozen: it did not change in {self._unchanged} moves of the pointer",
                state={"unchanged_moves": str(self._unchanged)},
            )


class MemoryWatch:
    """Looks at what one idle desktop needs."""

    def __init__(self) -> None:
        self._first: int | None = None

    def swollen(self, health: Health) -> bool:
        """Whether it needs `GROWTH_MB` more than when this was asked first; no, where its memory is not known."""
        if "memory_bytes" not in health.detail:
            return False
        used = int(health.detail["memory_bytes"])
        if self._first is None:
            self._first = used
        return used - self._first > GROWTH_MB << 20
