"""How far a build is, read from what mmdebstrap prints.

mmdebstrap downloads and installs the essential packages, then downloads, unpacks and configures all others; apt
announces how many there are each time. The shares below were measured on the light profile.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["BuildProgress", "Phase", "ProgressReader", "Report"]

Phase = Literal["waiting", "indexes", "base", "download", "unpack", "configure", "files", "bake", "finish"]

START_PERCENT: dict[Phase, float] = {
    "waiting": 0,
    "indexes": 0,
    "base": 5,
    "download": 25,
    "unpack": 40,
    "configure": 65,
    "files": 85,
    "bake": 86,
    "finish": 97,
}
_ORDER = list(START_PERCENT)
_COUNT = re.compile(r"\d+ upgraded, (\d+) newly installed")


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildProgress:
    """One report of a build's progress."""

    phase: Phase
    percent: float
    """Of the whole build, 0 to 100; never falls."""
    message: str
    """For a person."""


Report = Callable[[BuildProgress], None]


class ProgressReader:
    """Turns mmdebstrap's lines into progress reports.

    Args:
        report: called when the whole percent or the phase changes.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._phase: Phase = "indexes"
        self._total = 1
        self._seen = 0
        self._last: tuple[Phase, int] = (self._phase, -1)

    def enter(self, phase: Phase, message: str) -> None:
        """A phase begins."""
        self._phase, self._seen = phase, 0
        self._emit(message)

    def line(self, line: str) -> None:
        """Take one line of mmdebstrap's output."""
        if line.startswith("I: running apt-get update"):
            self.enter("indexes", "reading package lists")
        elif line.startswith("I: downloading packages"):
            self.enter("base", "installing the base system")
        elif line.startswith("I: installing remaining"):
            self.enter("download", "downloading packages")
        elif count := _COUNT.match(line):
            self._total = max(1, int(count[1]))
            self._seen = 0
        elif self._phase == "base" and line.startswith("Setting up "):
            self._step("installing the base system")
        elif self._phase in ("download", "unpack", "configure"):
            self._package(line)

    def _package(self, line: str) -> None:
        steps: tuple[tuple[str, Phase, str], ...] = (
            ("Get:", "download", "downloading packages"),
            ("Unpacking ", "unpack", "unpacking packages"),
            ("Setting up ", "configure", "configuring packages"),
        )
        for prefix, phase, message in steps:
            if line.startswith(prefix):
                # A package that others pre-depend on is configured before the rest is unpacked: phases only go forward.
                if _ORDER.index(phase) > _ORDER.index(self._phase) and (
                    phase == "unpack" or self._seen * 2 >= self._total
                ):
                    self._phase, self._seen = phase, 0
                if phase == self._phase:
                    self._step(message)

    def _step(self, message: str) -> None:
        self._seen = min(self._seen + 1, self._total)
        self._emit(message)

    def _emit(self, message: str) -> None:
        start = START_PERCENT[self._phase]
        following = _ORDER[_ORDER.index(self._phase) + 1 :]
        share = (START_PERCENT[following[0]] if following else 100) - start
        percent = start + share * self._seen / self._total
        if (self._phase, int(percent)) != self._last:
            self._last = (self._phase, int(percent))
            self._report(BuildProgress(phase=self._phase, percent=round(percent, 1), message=message))
