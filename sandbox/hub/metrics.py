"""What a hub counts, and the snapshot of it that `Hub.stats` gives.

Durations are percentiles over a window of recent values, so memory is bounded however long a hub lives; counts are
sums since the hub was made; utilisation is the mean over the hub's life.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass

__all__ = ["HubStats", "Level", "Metrics", "Samples"]

WINDOW = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class HubStats:
    """A hub at one moment."""

    capacity: int
    """Most desktops that may live at once."""
    booting: int
    """Desktops being started now."""
    ready: int
    """Desktops that wait for a lease."""
    leased: int
    """Desktops lent now."""
    retiring: int
    """Desktops being destroyed; they still count against capacity."""
    waiting: int
    """Workers that wait for a desktop."""
    boots: int
    """Sum: desktops that became ready."""
    boot_failures: int
    """Sum: boots that failed, retried ones included."""
    boot_p50_s: float | None
    """Seconds; None before the first boot."""
    boot_p95_s: float | None
    """Seconds."""
    lease_wait_p50_s: float | None
    """Seconds from asking for a lease to holding it."""
    lease_wait_p95_s: float | None
    """Seconds."""
    step_p50_s: float | None
    """Seconds a desktop took for a step; waiting for another call on the same lease is not in it."""
    step_p95_s: float | None
    """Seconds."""
    utilisation: float
    """Mean share of the capacity that was lent, in [0, 1]."""
    held_back: str | None
    """Why the machine can take no boot now that is due; None while it can."""
    held_back_share: float
    """Mean share of the time in which a due boot was held back, in [0, 1]."""
    retired: dict[str, int]
    """Sum: desktops destroyed, by reason (`released`, `expired`, `age`, an error's class name, ...)."""
    reaped: int
    """Sum: orphans, the leftovers of dead owners, that were removed."""


class Samples:
    """The most recent values of one duration."""

    def __init__(self, limit: int = WINDOW) -> None:
        self._values: deque[float] = deque(maxlen=limit)

    def add(self, value: float) -> None:
        """Take one more value, seconds."""
        self._values.append(value)

    def percentile(self, share: float) -> float | None:
        """The smallest value that at least `share` (in (0, 1]) of the window does not exceed; None without values."""
        if not self._values:
            return None
        ordered = sorted(self._values)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Level:
    """The mean over time of a count that goes up and down."""

    def __init__(self) -> None:
        self._value = 0
        self._area = 0.0
        self._began: float | None = None
        self._since = 0.0

    def set(self, value: int, now: float) -> None:
        """The count is `value` from `now` (seconds) on; the first call starts the time."""
        if self._began is None:
            self._began = now
        else:
            self._area += self._value * (now - self._since)
        self._value, self._since = value, now

    def mean(self, now: float) -> float:
        """The mean from the first `set` to `now`."""
        if self._began is None or now <= self._began:
            return 0.0
        return (self._area + self._value * (now - self._since)) / (now - self._began)


class Metrics:
    """A hub's counters; whoever hands them to the hub can read more than the snapshot holds."""

    def __init__(self) -> None:
        self.boot = Samples()
        self.lease_wait = Samples()
        self.step = Samples()
        self.lent = Level()
        self.held_back = Level()
        self.boots = 0
        self.boot_failures = 0
        self.reaped = 0
        self.retired: Counter[str] = Counter()

    def snapshot(
        self,
        *,
        capacity: int,
        booting: int,
        ready: int,
        leased: int,
        retiring: int,
        waiting: int,
        held_back: str | None,
        now: float,
    ) -> HubStats:
        """These counters and the hub's present state as one `HubStats`; `now` is the time that `lent` uses."""
        return HubStats(
            capacity=capacity,
            booting=booting,
            ready=ready,
            leased=leased,
            retiring=retiring,
            waiting=waiting,
            boots=self.boots,
            boot_failures=self.boot_failures,
            boot_p50_s=self.boot.percentile(0.5),
            boot_p95_s=self.boot.percentile(0.95),
            lease_wait_p50_s=self.lease_wait.percentile(0.5),
            lease_wait_p95_s=self.lease_wait.percentile(0.95),
            step_p50_s=self.step.percentile(0.5),
            step_p95_s=self.step.percentile(0.95),
            utilisation=self.lent.mean(now) / capacity,
            held_back=held_back,
            held_back_share=self.held_back.mean(now),
            retired=dict(self.retired),
            reaped=self.reaped,
        )
