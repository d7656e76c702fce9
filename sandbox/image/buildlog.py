"""What a build printed, and what its last lines mean."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO, Self

__all__ = ["BuildLog"]

_TAIL = 12
_CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"No space left on device|not enough free space|Disk quota exceeded",
        "the disk is full: free some space and build again",
    ),
    (
        r"Unable to locate package ([a-z0-9.+-]+)|Package '?([a-z0-9.+-]+)'? has no installation candidate",
        "packages.txt names a package that this Debian release does not have: {0}",
    ),
    (r"Version '.*' for '.*' was not found", "packages.txt asks for a version that the mirror does not have"),
    (r"NO_PUBKEY|not signed|GPG error", "apt does not trust the mirror: apt-get install debian-archive-keyring"),
    (
        r"Release file .* (is not valid yet|is expired)",
        "the mirror's index is too old or this machine's clock is wrong",
    ),
    (
        r"Failed to fetch|Could not (resolve|connect)|Temporary failure|Connection (failed|refused|timed out)",
        "the package mirror did not answer: check the network and the entries in /etc/apt, then build again; "
        "what was downloaded is kept",
    ),
)


class BuildLog:
    """The log of one build: a file with everything, and the last lines at hand.

    Args:
        path: where the file goes; an earlier one is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tail: deque[str] = deque(maxlen=400)

    def __enter__(self) -> Self:
        self._file: IO[str] = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, line: str) -> None:
        """Add a line."""
        self._file.write(line + "\n")
        self._tail.append(line)

    def explain(self, what: str) -> str:
        """A message for a person: what failed, the likely cause, the end of the log and where all of it is."""
        text = "\n".join(self._tail)
        advice = ""
        for pattern, cause in _CAUSES:
            if match := re.search(pattern, text):
                advice = "\n" + cause.format(next((group for group in match.groups() if group), ""))
                break
        end = "\n".join("  " + line for line in list(self._tail)[-_TAIL:])
        return f"{what}{advice}\nThe log ends with:\n{end}\nAll of it is in {self._path}"
