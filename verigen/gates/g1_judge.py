"""G1, the judge alone: right evidence passes, the start state does not, and the checks look at what they should.

Mutation testing: of the breaking changes of the right evidence at least `MIN_KILLED` must lower the score, and no
neutral change may. Missing evidence must give 0 rather than an exception, and giving up on a feasible task must not
pay.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from agent.errors import GraderFailed
from sandbox.actions import Action, Answer, Done, Infeasible
from sandbox.evidence import Evidence, EvidenceItem
from verigen.bundle import Bundle, Examples
from verigen.checks import judge
from verigen.gates.mutants import Mutant, breaking, neutral
from verigen.proof import GateResult
from verigen.task import Task

__all__ = ["GATE", "MIN_KILLED", "check_judge", "wrong_endings"]

GATE = "G1"
MIN_KILLED = 0.8
SEED = 1
SHOWN = 3


def wrong_endings(task: Task) -> tuple[Action | None, ...]:
    """Endings that earn nothing for who did nothing."""
    if task.feasible:
        return None, Done(), Infeasible(), Answer(text="")
    return None, Done(), Answer(text="")


def check_judge(bundle: Bundle) -> GateResult:
    """Test a bundle's checks on its recorded examples."""
    started = time.monotonic()
    problems, detail = [], ""
    if bundle.examples is None:
        problems = ["there are no examples; record them from real runs first (verigen.record)"]
    else:
        try:
            problems = list(_examples(bundle.task, bundle.examples))
            if not problems:
                survivors, total = _mutate(bundle.task, bundle.examples)
                detail = f"{total - len(survivors)} of {total} breaking changes were noticed"
                if len(survivors) > (1 - MIN_KILLED) * total:
                    problems.append(f"only {detail}; these still pass: {_some(survivors)}")
                changed = _neutral(bundle.task, bundle.examples)
                if changed:
                    problems.append(f"changes that must not matter lowered the score: {_some(changed)}")
        except GraderFailed as error:
            problems = [f"the examples cannot be judged: {error}"]
    return GateResult(
        gate=GATE,
        outcome="failed" if problems else "passed",
        detail="; ".join(problems) or detail,
        seconds=time.monotonic() - started,
    )


def _examples(task: Task, examples: Examples) -> Iterator[str]:
    names = {request.name for request in task.evidence}
    for which, example in (("golden", examples.golden), ("initial", examples.initial)):
        if example.evidence.items.keys() != names:
            yield f"the {which} evidence is {sorted(example.evidence.items)}, but the task collects {sorted(names)}"
            return
    golden, initial = examples.golden, examples.initial
    score, results = judge(task.check, golden.evidence, golden.final)
    if score != 1.0:
        reasons = [f"{result.name}: {result.reason}" for result in results if result.score < 1.0]
        yield f"the golden evidence scores {score:g}, not 1 ({'; '.join(reasons)})"
    for final in (*wrong_endings(task), initial.final):
        if score := judge(task.check, initial.evidence, final)[0]:
            yield f"the initial evidence scores {score:g} with {_shown(final)}, not 0"
            break
    if task.feasible and judge(task.check, golden.evidence, Infeasible())[0] == 1.0:
        yield "giving up on this feasible task passes when its state is right"
    for status in ("missing", "too_large"):
        nothing = {name: EvidenceItem.model_validate({"status": status}) for name in names}
        evidence = Evidence(items=nothing, clock_s=golden.evidence.clock_s)
        if names and judge(task.check, evidence, golden.final)[0] == 1.0:
            yield f"it passes when all evidence is {status}"


def _mutate(task: Task, examples: Examples) -> tuple[list[str], int]:
    """What was changed without lowering the score, and how many changes there were."""
    golden = Mutant(what="nothing", evidence=examples.golden.evidence, final=examples.golden.final)
    mutants = list(breaking(task.check, golden, examples.initial.evidence, seed=SEED))
    survivors = [mutant.what for mutant in mutants if judge(task.check, mutant.evidence, mutant.final)[0] == 1.0]
    return survivors, len(mutants)


def _neutral(task: Task, examples: Examples) -> list[str]:
    """What lowered the score though it must not matter."""
    golden = Mutant(what="nothing", evidence=examples.golden.evidence, final=examples.golden.final)
    mutants = neutral(task.check, golden)
    return [mutant.what for mutant in mutants if judge(task.check, mutant.evidence, mutant.final)[0] < 1.0]


def _some(what: list[str]) -> str:
    more = f" and {len(what) - SHOWN} more" if len(what) > SHOWN else ""
    return ", ".join(what[:SHOWN]) + more


def _shown(final: Action | None) -> str:
    return "no final action" if final is None else f"`{final.kind}`"
