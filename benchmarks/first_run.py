"""From a fresh clone to the first report: the time and the disk that each step takes, and what was learned in it.

Clones the commit that is checked out: uncommitted changes are not measured. Downloads count, so the network does too.
What the one quickstart learned is one sample; `frontdesk bench quickstart` has several seeds and controls.
"""

from __future__ import annotations

import json
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
    "check": [".venv/bin/frontdesk", "quickstart", "--check", "--json"],
    "quickstart": [".venv/bin/frontdesk", "quickstart", "--json"],
}
WORDS = {
    "setup": "make setup",
    "image": "the light image",
    "check": "the quickstart's check",
    "quickstart": "the whole quickstart after it",
}
LEARNED = {
    "warm_start": "warm start, greedy",
    "practised": "after practice, greedy",
    "warm_start_sampled": "warm start, sampled",
    "practised_sampled": "after practice, sampled",
    "black_screens": "after practice, black screens",
    "noop": "noop",
    "always_infeasible": "always-infeasible",
    "random": "random",
}
"""Figures of held-out success, by the names of the quickstart's evaluations."""


def run(bench: Bench) -> Result:
    """Run every step in a clone with a state directory of its own; both are removed at the end."""
    figures = bench.arm("first run", lambda: _first_run(bench.home / "bench" / "first_run", bench.on_arm))
    rows = tuple((WORDS[name], figures[f"{name}_wall_s"]) for name in STEPS)
    sizes = (
        (".venv", figures["venv_mb"]),
        ("the light image", figures["image_mb"]),
        ("kept package files", figures["downloads_mb"]),
        ("episodes of the quickstart", figures["episodes_mb"]),
    )
    learned = tuple((evaluation, figures[f"{name}_success"]) for name, evaluation in LEARNED.items())
    return Result(
        figures=figures,
        tables=(
            ResultTable(title="From a fresh clone", columns=("step", "wall s"), rows=rows),
            ResultTable(title="Disk", columns=("what", "MB"), rows=sizes),
            ResultTable(title="Held-out success", columns=("who", "success"), rows=learned),
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
            figures[f"{name}_wall_s"], printed = _measure(argv, clone, home)
        success = json.loads(printed)["success"]
        return figures | {f"{name}_success": success[each] for name, each in LEARNED.items()} | _disk(clone, home)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _measure(argv: list[str], clone: Path, home: Path) -> tuple[float, str]:
    """Seconds by the clock, and what was printed."""
    env = os.environ | {"FRONTDESK_HOME": str(home)}
    begun = time.perf_counter()
    done = subprocess.run(
        argv, cwd=clone, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return round(time.perf_counter() - begun, 1), done.stdout


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
