"""From a fresh clone to the first report: the time and the disk that each step takes.

Clones the commit that is checked out: uncommitted changes are not measured. Downloads count, so the network does too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.record import HOUSE, Bench, Result, ResultTable

STEPS = {
    "setup": ["make", "setup"],
    "image": [".venv/bin/frontdesk", "image", "build", "light"],
    "quickstart": [".venv/bin/frontdesk", "quickstart", "--json"],
    "quickstart_again": [".venv/bin/frontdesk", "quickstart", "--fresh", "--json"],
}
WORDS = {
    "setup": "make setup",
    "image": "the light image",
    "quickstart": "frontdesk quickstart, the first",
    "quickstart_again": "frontdesk quickstart --fresh",
}


def run(bench: Bench) -> Result:
    """Run every step in a clone with a state directory of its own; both are removed at the end."""
    figures = bench.arm("first run", lambda: _first_run(bench.home / "bench" / "first_run", bench.on_arm))
    rows = tuple((WORDS[name], figures[f"{name}_wall_s"]) for name in STEPS)
    sizes = (
        (".venv", figures["venv_mb"]),
        ("the light image", figures["image_mb"]),
        ("kept package files", figures["downloads_mb"]),
        ("episodes of both quickstarts", figures["episodes_mb"]),
    )
    return Result(
        figures=figures,
        tables=(
            ResultTable(title="From a fresh clone", columns=("step", "wall s"), rows=rows),
            ResultTable(title="Disk", columns=("what", "MB"), rows=sizes),
        ),
    )


def _first_run(place: Path, tell: Callable[[str, bool], None]) -> dict[str, float]:
    """All steps in order: each needs what the one before it made."""
    clone, home = place / "clone", place / "home"
    shutil.rmtree(place, ignore_errors=True)
    figures: dict[str, float] = {}
    try:
        subprocess.run(["git", "clone", "--quiet", str(HOUSE), str(clone)], check=True)
        for name, argv in STEPS.items():
            tell(WORDS[name], False)
            figures[f"{name}_wall_s"] = _measure(argv, clone, home)
        return figures | _disk(clone, home)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _measure(argv: list[str], clone: Path, home: Path) -> float:
    env = os.environ | {"FRONTDESK_HOME": str(home)}
    begun = time.perf_counter()
    done = subprocess.run(
        argv, cwd=clone, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return round(time.perf_counter() - begun, 1)


def _disk(clone: Path, home: Path) -> dict[str, float]:
    return {
        "venv_mb": _megabytes(clone / ".venv"),
        "image_mb": sum(_megabytes(path) for path in (home / "images").glob("light-*")),
        "downloads_mb": _megabytes(home / "images" / ".downloads"),
        "episodes_mb": _megabytes(home / "blobs") + _megabytes(home / "trajectories"),
    }


def _megabytes(path: Path) -> float:
    told = subprocess.run(["du", "-sk", str(path)], capture_output=True, text=True, check=True)
    return round(int(told.stdout.split()[0]) / 1000, 1)
