"""G5, negatives: no near miss and no shortcut passes. One that cannot be carried out shows nothing, and fails."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import SetupFailed
from sandbox.desktop import Desktop
from verigen.bundle import Negative
from verigen.gates.bench import Bench, ScriptRun
from verigen.gates.results import conclude
from verigen.proof import GateResult
from verigen.steps import StepFailed, run_step

__all__ = ["GATE", "check_negatives"]

GATE = "G5"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    negative: Negative
    run: ScriptRun


async def check_negatives(bench: Bench) -> GateResult:
    """Try every negative on a fresh desktop of its own."""
    negatives = bench.bundle.negatives
    reports = await bench.each(
        GATE,
        negatives,
        lambda desktop, negative: _attempt(bench, desktop, negative),
        note=lambda negative, attempt: f"{negative.name}: {attempt.run.score}",
        unless=lambda negative, found: any(_problem(attempt) for attempt in found),
    )
    attempts = [report.value for report in reports if report.value is not None]
    return conclude(
        GATE,
        [problem for attempt in attempts if (problem := _problem(attempt))],
        reports,
        shown=len(attempts),
        needed=len(negatives),
        what="an attempt that must not pass did not",
        seconds=sum(attempt.run.seconds for attempt in attempts),
    )


async def _attempt(bench: Bench, desktop: Desktop, negative: Negative) -> _Attempt:
    try:
        await bench.runner.prepare(desktop)
        for step in negative.before:
            await run_step(desktop, step, bench.assets)
    except (SetupFailed, StepFailed) as error:
        return _Attempt(negative=negative, run=ScriptRun(score=None, reason=str(error), seconds=0.0))
    run = await bench.run_script(desktop, negative.script, name=f"negative:{negative.name}")
    return _Attempt(negative=negative, run=run)


def _problem(attempt: _Attempt) -> str:
    name, score = attempt.negative.name, attempt.run.score
    if score is None:
        return f"{name!r} cannot be carried out, so it shows nothing: {attempt.run.reason}"
    return f"{name!r} passes, but must not: {attempt.negative.why}" if score >= 1.0 else ""
