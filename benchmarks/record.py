"""How a benchmark is run and what is kept of it.

::

    run(bench) -> bench.arm(name, measure) for each arm -> Result -> benchmarks/results/NAME.json
                     `-- an arm that was measured before an interruption is taken from the draft, not measured again

A result names everything that it takes to repeat it: command, commit, date, seed and machine. A draft is only continued
by the same commit with the same seed on the same machine; anything else starts over.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["HOUSE", "RESULTS", "Bench", "Result", "ResultTable", "commit", "machine", "write_json"]

HOUSE = Path(__file__).resolve().parents[1]
RESULTS = HOUSE / "benchmarks" / "results"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultTable:
    """One table of a result."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a benchmark measured."""

    figures: Mapping[str, float]
    """Name with unit (`boot_wall_s`) -> number."""
    tables: Sequence[ResultTable] = ()


@dataclass(kw_only=True, slots=True)
class Bench:
    """One run of one benchmark."""

    name: str
    home: Path
    """State folder: images and desktops live there, and so does the draft."""
    seed: int = 0
    seeds: int | None = None
    """Repetitions with seeds of their own, from `seed` on, of benchmarks that have any; None leaves it to them."""
    results: Path = RESULTS
    command: str = ""
    """The command line that repeats this run."""
    on_arm: Callable[[str, bool], None] = lambda arm, kept: None
    """Told when an arm begins; the flag says that it was measured before."""
    commit: str = field(default_factory=lambda: commit())
    """The commit that is measured, whatever is committed meanwhile."""

    @property
    def draft(self) -> Path:
        """What is measured so far."""
        return self.home / "bench" / f"{self.name}.json"

    def arm(self, name: str, measure: Callable[[], Mapping[str, float]]) -> dict[str, float]:
        """Measure one arm, or take it from the draft."""
        state = self._state()
        kept = name in state["arms"]
        self.on_arm(name, kept)
        if not kept:
            begun = time.monotonic()
            state["arms"][name] = {"figures": dict(measure()), "seconds": time.monotonic() - begun}
            write_json(self.draft, state)
        figures: dict[str, float] = state["arms"][name]["figures"]
        return figures

    def finish(self, result: Result) -> Path:
        """Write the result and drop the draft; return where the result is."""
        arms = self._state()["arms"]
        path = self.results / f"{self.name}.json"
        write_json(
            path,
            {
                "bench": self.name,
                "commit": self.commit,
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "command": self.command or f"frontdesk bench {self.name}",
                "seed": self.seed,
                "machine": machine(),
                "seconds": round(sum(arm["seconds"] for arm in arms.values()), 2),
                "figures": dict(result.figures),
                "tables": [asdict(table) for table in result.tables],
            },
        )
        self.forget()
        return path

    def forget(self) -> None:
        """Drop the draft, so that every arm is measured again."""
        self.draft.unlink(missing_ok=True)

    def _state(self) -> dict[str, Any]:
        key = {"commit": self.commit, "seed": self.seed, "machine": machine()}
        try:
            state: dict[str, Any] = json.loads(self.draft.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            state = {}
        return state if state.get("key") == key else {"key": key, "arms": {}}


def commit() -> str:
    """The commit that the code is of; `-dirty` when files differ from it, `unknown` outside a checkout."""
    try:
        head = _git("rev-parse", "HEAD")
        return f"{head}-dirty" if _git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_bytes / 1e9),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*args: str) -> str:
    done = subprocess.run(["git", "-C", str(HOUSE), *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write_json(path: Path, data: object) -> None:
    """Write a file whole or not at all, and its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(data, indent=2) + "\n")
    draft.replace(path)
