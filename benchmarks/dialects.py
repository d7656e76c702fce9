"""Dialects: forms read right, 200,000 damaged inputs each, how long reading takes, and equal effects on a desktop."""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping

from benchmarks.record import HOUSE, Bench, Result, ResultTable
from sandbox.backends.local import LocalBackend
from sandbox.desktop import DesktopSpec
from sandbox.dialects import DIALECTS, get_dialect
from sandbox.image import ImageCache
from tests.support.effects import SCREEN, Effects, measure
from tests.support.fuzz import VIEWS, fuzz, huge_inputs, valid_turns

FUZZ_INPUTS = 200_000
"""Per dialect."""
PORTIONS = 8
"""Each an arm of its own, so that little is lost by an interruption."""
TIMED = 2_000
FORMS = "tests/unit/sandbox/dialects"


def run(bench: Bench) -> Result:
    """Measure every arm."""
    forms = bench.arm("forms", _forms)
    rows, total = [], {"inputs": 0.0, "exceptions": 0.0, "from_grammar": 0.0}
    medians, largest = [], []
    for name in DIALECTS:
        speed = bench.arm(f"{name}: speed", lambda name=name: _speed(name, bench.seed))  # type: ignore[misc]
        found = {"inputs": 0.0, "exceptions": 0.0, "from_grammar": 0.0, "understood": 0.0}
        for portion in range(PORTIONS):
            part = bench.arm(
                f"{name}: fuzz {portion + 1} of {PORTIONS}",
                lambda name=name, portion=portion: _fuzz(name, bench.seed * PORTIONS + portion),  # type: ignore[misc]
            )
            found = {key: value + part[key] for key, value in found.items()}
        total = {key: value + found[key] for key, value in total.items()}
        medians.append(speed["median_ms"])
        largest.append(speed["largest_ms"])
        rows.append(
            (
                name,
                int(found["inputs"]),
                int(found["exceptions"]),
                round(100 * found["understood"] / found["inputs"]),
                speed["median_ms"],
                speed["largest_ms"],
            )
        )
    effects = bench.arm("effects", lambda: _effects(bench))
    return Result(
        figures={
            "dialects": len(DIALECTS),
            "forms_tested": forms["forms"],
            "fuzz_inputs": total["inputs"],
            "fuzz_from_grammar_share": round(total["from_grammar"] / total["inputs"], 3),
            "fuzz_exceptions": total["exceptions"],
            "parse_median_ms": max(medians),
            "parse_64k_max_ms": max(largest),
            **effects,
        },
        tables=(
            ResultTable(
                title="Per dialect; times are CPU",
                columns=("dialect", "fuzz inputs", "exceptions", "understood %", "median ms", "slowest 64 KB, ms"),
                rows=tuple(rows),
            ),
        ),
    )


def _forms() -> Mapping[str, float]:
    """Run the tests of forms and count them."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "form", FORMS],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=True,
    )
    return {"forms": len(re.findall(r"(?m)::test_\w*forms?_\w*\[[\s\S]*?PASSED", ran.stdout))}


def _speed(name: str, seed: int) -> Mapping[str, float]:
    dialect = get_dialect(name)
    took = []
    for text in valid_turns(dialect, VIEWS[0], random.Random(seed), TIMED):
        begun = time.thread_time()
        dialect.parse(text, VIEWS[0])
        took.append(time.thread_time() - begun)
    slowest = 0.0
    for text in huge_inputs(name, seed=seed):
        begun = time.thread_time()
        dialect.parse(text, VIEWS[0])
        slowest = max(slowest, time.thread_time() - begun)
    return {"median_ms": round(statistics.median(took) * 1000, 3), "largest_ms": round(slowest * 1000, 1)}


def _fuzz(name: str, seed: int) -> Mapping[str, float]:
    found = fuzz(name, FUZZ_INPUTS // PORTIONS, seed=seed)
    for line in found.exceptions[:5]:
        sys.stderr.write(f"{name}: {line}\n")
    return {
        "inputs": found.num_inputs,
        "exceptions": len(found.exceptions),
        "from_grammar": found.num_from_grammar,
        "understood": found.num_understood,
    }


def _effects(bench: Bench) -> Mapping[str, float]:
    async def work() -> Effects:
        backend = LocalBackend(ImageCache(bench.home / "images"), bench.home / "run")
        try:
            return await measure(await backend.boot(DesktopSpec(width=SCREEN[0], height=SCREEN[1])))
        finally:
            await backend.close()

    effects = asyncio.run(work())
    agree = sum(effect == effects.direct[label] for (label, _), effect in effects.spoken.items())
    return {"effect_cases": len(effects.spoken), "effect_agree": agree}
