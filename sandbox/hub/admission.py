"""Whether this machine can take another boot now.

Two bounds, both of the machine as a whole, because learners and other hubs run beside this one:

* memory: no boot while less is available than a reserve and a share for each desktop that is booting, or while programs
  stand still because the machine swaps (pressure stall information, where the kernel has it);
* processor: while more programs per core want to run than `max_load_per_core`, one boot at a time. Not none: a machine
  that learns and runs desktops is always busy, and its desktops must come up all the same, only slower.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Admission", "Condition", "LoadAdmission", "read_condition"]

FRESH_S = 0.5


class Admission(Protocol):
    """Decides whether a boot may start."""

    def refusal(self, *, booting: int) -> str | None:
        """Why no boot may start while `booting` others are under way; None when one may."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """How busy the machine is."""

    load: float
    """Programs that run or want to, mean over a minute."""
    cores: int
    available_mb: float
    """Memory that programs can still get."""
    memory_stalled: float
    """Share of the last 10 s in which every program stood still for want of memory, in [0, 1]."""


def read_condition(proc: Path = Path("/proc")) -> Condition:
    """The machine's condition now."""
    memory = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
    return Condition(
        load=float((proc / "loadavg").read_text().split()[0]),
        cores=len(os.sched_getaffinity(0)),
        available_mb=int(memory["MemAvailable"].split()[0]) / 1024,
        memory_stalled=_stalled(proc / "pressure" / "memory"),
    )


def _stalled(path: Path) -> float:
    try:
        lines = path.read_text().splitlines()
    except OSError:  # a kernel without pressure stall information
        return 0.0
    full = next((line for line in lines if line.startswith("full ")), "")
    values = dict(field.split("=") for field in full.split()[1:])
    return float(values.get("avg10", 0)) / 100


class LoadAdmission:
    """Admits boots by the machine's condition.

    Args:
        max_load_per_core: with more than this, boots go one at a time.
        reserve_mb: memory that boots leave to everything else.
        boot_mb: memory that a booting desktop is expected to take.
        max_stalled: share of time that programs may stand still for want of memory.
    """

    def __init__(
        self,
        *,
        max_load_per_core: float = 4.0,
        reserve_mb: float = 768.0,
        boot_mb: float = 256.0,
        max_stalled: float = 0.1,
        read: Callable[[], Condition] = read_condition,
    ) -> None:
        self._max_load_per_core = max_load_per_core
        self._reserve_mb = reserve_mb
        self._boot_mb = boot_mb
        self._max_stalled = max_stalled
        self._read = read
        self._seen: tuple[float, Condition] | None = None

    def refusal(self, *, booting: int) -> str | None:
        """Why no boot may start now; None when one may."""
        now = time.monotonic()
        if self._seen is None or now - self._seen[0] > FRESH_S:
            self._seen = now, self._read()
        seen = self._seen[1]
        needed_mb = self._reserve_mb + self._boot_mb * (booting + 1)
        if seen.available_mb < needed_mb:
            return (
                f"{seen.available_mb:.0f} MB of memory are available and a boot needs {needed_mb:.0f} "
                f"({self._reserve_mb:.0f} of them for the rest of the machine): free memory, or use fewer desktops"
            )
        if seen.memory_stalled > self._max_stalled:
            return (
                f"programs stand still {seen.memory_stalled:.0%} of the time for want of memory: "
                "free memory, or use fewer desktops"
            )
        per_core = seen.load / seen.cores
        if per_core > self._max_load_per_core and booting > 0:
            return (
                f"load {seen.load:.1f} on {seen.cores} cores is above {self._max_load_per_core:g} per core, "
                "so desktops boot one at a time"
            )
        return None
