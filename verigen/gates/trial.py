"""Trials: setup, no-op and oracle, in that order on one fresh desktop, which is evidence for G2, G3 and G4 at once.

::

    fresh desktop -> setup -> fingerprint -> no-op graded -> oracle graded
                       `- the first stage that fails ends the trial; no trial is begun that could not change the result

Grading a no-op leaves the desktop as it was only if the flush recipe does nothing to it, so a recipe of more than
waiting gives the no-op desktops of its own. The first oracle runs at full speed, the others with seeded random pauses
before each of their actions, which shows scripts and checks that only work at one speed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.errors import SetupFailed
from sandbox.desktop import Desktop
from verigen.bundle import Script
from verigen.gates.bench import Bench, Report, ScriptRun
from verigen.gates.fingerprint import Fingerprint, take_fingerprint
from verigen.gates.g1_judge import wrong_endings

__all__ = ["NUM_NOOPS", "NUM_ORACLES", "NUM_SETUPS", "Trial", "pauses", "run_trials"]

NUM_SETUPS = 3
NUM_NOOPS = 3
NUM_ORACLES = 5
MAX_PAUSE_S = 2.0
MIN_PAUSE_S = 0.2
PAUSES_S = 20.0
"""The longest pauses of one episode add up to this at most, so that long scripts take bounded time to prove."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What one fresh desktop showed."""

    setup_s: float
    setup_error: str | None = None
    fingerprint: Fingerprint | None = None
    noop: dict[str, float] | None = None
    """Score of having done nothing, by how the episode ended; None if it was not graded."""
    noop_s: float = 0.0
    oracle: ScriptRun | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the bundle."""
        noop_ok = self.noop is None or not any(self.noop.values())
        return self.setup_error is None and noop_ok and (self.oracle is None or self.oracle.score == 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """What one trial is to do."""

    number: int
    noop: bool
    oracle: bool


def pauses(script: Script) -> tuple[float, float]:
    """Shortest and longest random pause before each action of a slowed script, seconds."""
    longest = min(MAX_PAUSE_S, PAUSES_S / len(script))
    return min(MIN_PAUSE_S, longest), longest


async def run_trials(bench: Bench, *, delays_s: tuple[float, float] | None = None) -> list[Report[Trial]]:
    """Run all trials of a bundle, several at once.

    Args:
        delays_s: pauses of the slowed oracles, seconds; None for what suits the oracle's length.
    """
    delays_s = pauses(bench.bundle.oracle) if delays_s is None else delays_s
    stages = [(number < NUM_NOOPS, True) for number in range(NUM_ORACLES)]
    if not _only_waits(bench):
        stages = [(True, False)] * NUM_NOOPS + [(False, True)] * NUM_ORACLES
    plans = [_Plan(number=number, noop=noop, oracle=oracle) for number, (noop, oracle) in enumerate(stages)]

    def settled(plan: _Plan, found: Sequence[Trial]) -> bool:
        # A failed or differing setup decides G2. Any other failure decides its own gate, but G2 and G3 still need
        # their trials.
        if any(trial.setup_error is not None or trial.fingerprint != found[0].fingerprint for trial in found):
            return True
        return plan.number >= max(NUM_SETUPS, NUM_NOOPS) and not all(trial.ok for trial in found)

    return await bench.each(
        "G2-G4",
        plans,
        lambda desktop, plan: _trial(bench, desktop, plan, delays_s),
        note=lambda plan, trial: _note(trial),
        unless=settled,
    )


async def _trial(bench: Bench, desktop: Desktop, plan: _Plan, delays_s: tuple[float, float]) -> Trial:
    task = bench.bundle.task
    started = time.monotonic()
    try:
        await bench.runner.prepare(desktop)
    except SetupFailed as error:
        return Trial(setup_s=time.monotonic() - started, setup_error=str(error))
    fingerprint = await take_fingerprint(desktop, task.evidence)
    trial = Trial(setup_s=time.monotonic() - started, fingerprint=fingerprint)
    if plan.noop:
        started = time.monotonic()
        evidence = (await bench.runner.grade(desktop, None)).evidence
        scores = {
            "no final action" if final is None else final.kind: bench.runner.judge(evidence, final).score
            for final in wrong_endings(task)
        }
        trial = replace(trial, noop=scores, noop_s=time.monotonic() - started)
    if plan.oracle and trial.ok:
        slowed = delays_s if plan.number else None
        run = await bench.run_script(desktop, bench.bundle.oracle, name="oracle", seed=plan.number, delays_s=slowed)
        trial = replace(trial, oracle=run)
    return trial


def _only_waits(bench: Bench) -> bool:
    return all(step.type == "sleep" for step in bench.bundle.task.settle)


def _note(trial: Trial) -> str:
    if trial.setup_error is not None:
        return "setup failed"
    if trial.oracle is not None:
        return f"oracle {'not carried out' if trial.oracle.score is None else f'{trial.oracle.score:g}'}"
    return f"no-op {max((trial.noop or {}).values(), default=0.0):g}"
