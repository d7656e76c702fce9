"""How quickly the command line answers: `--help`, and the first commands that read the catalog."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.record import HOUSE, Bench, Result, ResultTable

RUNS = 15
COMMANDS: dict[str, Sequence[str]] = {
    "help": ["--help"],
    "desk_help": ["desk", "do", "--help"],
    "image_list": ["image", "list"],
    "tasks_list": ["tasks", "list"],
}


def run(bench: Bench) -> Result:
    """Start each command several times and take the median."""
    figures: dict[str, float] = {}
    rows = []
    for name, argv in COMMANDS.items():
        measured = bench.arm(name, lambda argv=argv: _measure(argv, bench))  # type: ignore[misc]
        figures |= {f"{name}_wall_s": measured["wall_s"], f"{name}_cpu_s": measured["cpu_s"]}
        rows.append((f"frontdesk {' '.join(argv)}", measured["wall_s"], measured["cpu_s"]))
    table = ResultTable(title=f"Start-up, median of {RUNS}", columns=("command", "wall s", "CPU s"), rows=tuple(rows))
    return Result(figures=figures, tables=(table,))


def _measure(argv: Sequence[str], bench: Bench) -> dict[str, float]:
    wall, cpu = [], []
    env = os.environ | {"FRONTDESK_HOME": str(bench.home), "PYTHONPATH": str(HOUSE)}
    for _ in range(RUNS):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "from cli.main import run; run()", *argv],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        wall.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"wall_s": round(statistics.median(wall), 3), "cpu_s": round(statistics.median(cpu), 3)}
