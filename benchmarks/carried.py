"""Figures that a result lists and another benchmark measures, carried over with where they come from.

`benchmarks/results/desktops.json` is the one page on desktops. What chaos, typing and conformance measure is taken from
their results, as it stands there; under `carried` it says of each which commit it was measured at, when, and by which
command. Carrying again replaces what was carried before, and measures nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, write_json

__all__ = ["CARRIED", "INTO", "Uncarried", "carry"]

INTO = "desktops"
CARRIED: dict[str, tuple[str, ...]] = {
    "chaos": ("hub_p99_ms", "chaos_kills", "chaos_leaks", "chaos_orphans", "chaos_duplicates"),
    "typing": ("typing_exact", "typing_cases"),
    "conformance": (
        "escapes_tried",
        "escapes_succeeded",
        "docker_conformance_passed",
        "local_conformance_passed",
        "conformance_total",
    ),
}
"""Benchmark -> those of its figures that are listed in the result of `INTO`."""


class Uncarried(ValueError):
    """A figure was not measured; the message names the command that measures it."""


def carry(results: Path = RESULTS) -> dict[str, float]:
    """Put the figures into the result; returns them.

    Raises:
        Uncarried: a result or a figure is missing; nothing is changed then.
    """
    result = _read(results, INTO)
    sources = {name: _read(results, name) for name in CARRIED}
    figures: dict[str, float] = {}
    for name, wanted in CARRIED.items():
        if missing := [figure for figure in wanted if figure not in sources[name]["figures"]]:
            raise Uncarried(f"{name}.json has no {', '.join(missing)}: measure again with `frontdesk bench {name}`")
        figures |= {figure: sources[name]["figures"][figure] for figure in wanted}
    result["figures"] |= figures
    result["carried"] = {
        name: {key: source[key] for key in ("commit", "date", "command")} | {"figures": list(CARRIED[name])}
        for name, source in sources.items()
    }
    write_json(results / f"{INTO}.json", result)
    return figures


def _read(results: Path, name: str) -> dict[str, Any]:
    path = results / f"{name}.json"
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise Uncarried(f"{path.name} is missing: measure it with `frontdesk bench {name}`") from error
    return result
