"""Both backends held to one definition: how many tests of the conformance suite each passes, and what escape attempts.

The suite runs as under `make test`, each test on a desktop of either backend; the tests start a Docker daemon of their
own. A test that is skipped or missing counts as failed, and an attempt to escape counts as succeeded unless its test
passed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.record import HOUSE, Bench, Result, ResultTable

__all__ = ["BACKENDS", "Case", "count", "read_report", "run"]

SUITE = "tests/integration/sandbox/conformance"
BACKENDS = ("local", "docker")
TEST_S = 600
"""Most that one test may take: the first one on Docker waits for a gigabyte to be imported."""
TESTS_FAILED = 1
"""Exit code of pytest when it ran them all and some failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One test on one backend."""

    backend: str
    escape: bool
    """Whether it is an attempt to escape."""
    passed: bool


def run(bench: Bench) -> Result:
    """Run the suite on both backends and count."""
    figures = bench.arm("the suite on both backends", lambda: _measure(bench))
    rows = [
        (
            backend,
            int(figures["conformance_total"]),
            int(figures[f"{backend}_conformance_passed"]),
            int(figures["escapes_tried"]),
            int(figures[f"{backend}_escapes_succeeded"]),
        )
        for backend in BACKENDS
    ]
    columns = ("backend", "tests", "passed", "escape attempts", "succeeded")
    return Result(
        figures=figures,
        tables=(ResultTable(title="One suite, two backends; skipped is failed", columns=columns, rows=tuple(rows)),),
    )


def count(cases: list[Case]) -> dict[str, float]:
    """The figures: of a test that only one backend has, the other failed it."""
    tests = {backend: [case for case in cases if case.backend == backend] for backend in BACKENDS}
    total = max(len(found) for found in tests.values())
    tried = max(sum(case.escape for case in found) for found in tests.values())
    stopped = {backend: sum(case.escape and case.passed for case in found) for backend, found in tests.items()}
    return {
        "conformance_total": total,
        **{f"{backend}_conformance_passed": sum(case.passed for case in found) for backend, found in tests.items()},
        "escapes_tried": tried,
        "escapes_succeeded": sum(tried - number for number in stopped.values()),
        **{f"{backend}_escapes_succeeded": tried - number for backend, number in stopped.items()},
    }


def read_report(path: Path) -> Iterator[Case]:
    """The tests of a JUnit report that say which backend they were made on.

    A test whose clean-up failed has two entries, of which one is not passed.
    """
    found: dict[tuple[str, str], list[ElementTree.Element]] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        found.setdefault((case.get("classname", ""), case.get("name", "")), []).append(case)
    for entries in found.values():
        properties = {each.get("name"): each.get("value", "") for entry in entries for each in entry.iter("property")}
        if "backend" in properties:
            yield Case(
                backend=properties["backend"],
                escape=properties["kind"] == "escape",
                passed=not any(
                    entry.find(bad) is not None for entry in entries for bad in ("failure", "error", "skipped")
                ),
            )


def _measure(bench: Bench) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        argv = [sys.executable, "-m", "pytest", SUITE, "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}"]
        argv += ["-o", f"timeout={TEST_S}"]
        env = os.environ | {"FRONTDESK_HOME": str(bench.home)}
        ran = subprocess.run(argv, cwd=HOUSE, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        log = bench.home / "bench" / "conformance.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(ran.stdout + ran.stderr)
        if ran.returncode not in (0, TESTS_FAILED):
            raise RuntimeError(f"the suite did not run to its end (exit code {ran.returncode}); see {log}")
        return count(list(read_report(report)))
