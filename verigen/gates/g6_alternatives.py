"""G6, alternatives: every other right way to do the task scores 1: the checks ask for the result, not for a way."""

from __future__ import annotations

from agent.errors import SetupFailed
from sandbox.desktop import Desktop
from verigen.bundle import Solution
from verigen.gates.bench import Bench, ScriptRun
from verigen.gates.results import conclude
from verigen.proof import GateResult

__all__ = ["GATE", "check_alternatives"]

GATE = "G6"


async def check_alternatives(bench: Bench) -> GateResult:
    """Try every alternative solution on a fresh desktop of its own."""
    solutions = bench.bundle.alternatives
    if not solutions:
        return GateResult(gate=GATE, outcome="passed", detail="no alternatives are given", seconds=0.0)
    reports = await bench.each(
        GATE,
        solutions,
        lambda desktop, solution: _attempt(bench, desktop, solution),
        note=lambda solution, run: f"{solution.name}: {run.score}",
    )
    runs = [(solution, report.value) for solution, report in zip(solutions, reports, strict=True) if report.value]
    return conclude(
        GATE,
        [f"{solution.name!r} does not pass, but should: {run.reason}" for solution, run in runs if run.score != 1.0],
        reports,
        shown=len(runs),
        needed=len(solutions),
        what="another solution scored 1",
        seconds=sum(run.seconds for _, run in runs),
    )


async def _attempt(bench: Bench, desktop: Desktop, solution: Solution) -> ScriptRun:
    try:
        await bench.runner.prepare(desktop)
    except SetupFailed as error:
        return ScriptRun(score=None, reason=str(error), seconds=0.0)
    return await bench.run_script(desktop, solution.script, name=f"alternative:{solution.name}")
