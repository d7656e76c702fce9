"""What can be seen of a bundle without running anything. Each rule says what is wrong and where; G0 is all of them.

The rules come from faults of published task sets: host paths and live sites in setups, the wall clock in checks,
rewards for mere existence, evidence that nobody reads, feasible tasks that pay for giving up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from agent.policies import ScriptedPolicy
from sandbox.actions import Action, Answer, Done, Infeasible
from sandbox.evidence import EvidenceRequest, SettingRequest
from verigen.bundle import Bundle, Script
from verigen.checks import items_read, leaves
from verigen.checks.model import (
    AccessibilityCheck,
    BrowserCheck,
    CheckNode,
    ConfigCheck,
    FinalActionCheck,
    GlobCheck,
    ProcessCheck,
    SettingCheck,
    TextCheck,
    WindowCheck,
)
from verigen.checks.tree import ItemLeaf, Leaf
from verigen.gates.logic import accepts, is_constant, needs_content
from verigen.gates.patterns import pattern_problem
from verigen.task import PressStep, SetupStep, Task

__all__ = ["MIN_NEGATIVES", "lint"]

MIN_NEGATIVES = 4
"""Near misses and shortcuts that every bundle must bring."""
SETTLE_KEYS = frozenset({"escape", "tab"})
"""Keys that only take the focus away; anything else could do the agent's work."""

_HOST_PATH = re.compile(r"(?<![\w.~-])(/(?:root|Users|mnt|media|workspace)(?:/|\b)|/home/(?!user(?:/|\b))|[A-Za-z]:\\)")
_LIVE_URL = re.compile(r"(?:https?|ftp|wss?)://(?!localhost\b|127\.|\[::1\])[^\s'\"]+")
_CLOCK_PROGRAM = re.compile(
    r"(?:^|[\s;&|(`/])(date|uptime|timedatectl|hwclock)(?=$|[\s;&|)`])|\bEPOCH(?:SECONDS|REALTIME)"
)
_CLOCK_WORDS = re.compile(
    r"\b(today|yesterday|tomorrow|current (?:date|time)|this (?:week|month|year))\b", re.IGNORECASE
)
_QUESTION = re.compile(r"^\s*how (?:do|can|would|should) ", re.IGNORECASE)

READS: dict[type[ItemLeaf], tuple[str, ...]] = {
    TextCheck: ("file", "command"),
    ConfigCheck: ("file", "command"),
    SettingCheck: ("setting",),
    GlobCheck: ("glob",),
    AccessibilityCheck: ("accessibility",),
    WindowCheck: ("windows",),
    ProcessCheck: ("process",),
    BrowserCheck: ("browser",),
}
"""Which evidence each family of checks reads."""


def lint(bundle: Bundle) -> list[str]:
    """Everything that is wrong, each in one sentence that begins with where."""
    task = bundle.task
    return [
        *_instruction(task),
        *_checks("check", task.evidence, task.check),
        *_judged(task),
        *(
            problem
            for number, assertion in enumerate(task.setup_asserts, start=1)
            for problem in _checks(f"setup_asserts {number}", assertion.evidence, assertion.check)
        ),
        *_setup(bundle),
        *_settle(task),
        *_scripts(bundle),
    ]


def _instruction(task: Task) -> Iterator[str]:
    if word := _CLOCK_WORDS.search(task.instruction):
        yield f"instruction: {word[0]!r} depends on the day it is read; name the date"
    if _QUESTION.match(task.instruction) and not any(map(_is_answer, leaves(task.check))):
        yield "instruction: it asks how, but the check looks at a state; say what to do"


def _checks(where: str, evidence: Sequence[EvidenceRequest], check: CheckNode) -> Iterator[str]:
    """Evidence and checks that do not fit each other, and checks that cannot be right."""
    for name, count in Counter(request.name for request in evidence).items():
        if count > 1:
            yield f"{where}: {count} evidence requests are named {name!r}"
    requests = {request.name: request for request in evidence}
    for name in sorted(requests.keys() - items_read(check)):
        yield f"{where}: no check reads the evidence {name!r}"
    for leaf in leaves(check):
        if isinstance(leaf, FinalActionCheck):
            continue
        request = requests.get(leaf.item)
        if request is None:
            yield f"{where}: a {leaf.type} check reads {leaf.item!r}, which no evidence request is named"
        elif request.type not in READS[type(leaf)]:
            yield f"{where}: a {leaf.type} check cannot read {leaf.item!r}, which is {request.type} evidence"
        elif isinstance(request, SettingRequest) and request.key is None:
            yield f"{where}: the evidence {leaf.item!r} names no key; a setting check reads one value"
        if isinstance(leaf, TextCheck) and leaf.match == "regex" and (problem := pattern_problem(leaf.expected)):
            yield f"{where}: the pattern {leaf.expected!r} {problem}"
        if isinstance(leaf, ConfigCheck) and not _can_hold(leaf):
            yield f"{where}: a value of {leaf.format} is text under (section, key), not {leaf.expected!r}"
    if is_constant(check):
        yield f"{where}: it says the same whatever is there"


def _can_hold(check: ConfigCheck) -> bool:
    """Whether a file of the check's format could have its value at its path."""
    return check.format not in ("ini", "keyfile") or (len(check.path) == 2 and isinstance(check.expected, str))


def _judged(task: Task) -> Iterator[str]:
    """What the task's check must demand."""
    if not needs_content(task.check):
        yield "check: it passes on things merely existing or being absent; check what they hold"
    if task.feasible:
        if accepts(task.check, Infeasible()):
            yield "check: it could pass after `infeasible` though the task is feasible; demand `done`"
        endings: list[Action] = [Done()]
        endings += [Answer(text=leaf.answer or "") for leaf in leaves(task.check) if _is_answer(leaf)]
        if not any(accepts(task.check, final) for final in endings):
            yield "check: it refuses every ending of a feasible task"
    else:
        if not accepts(task.check, Infeasible()):
            yield "check: it refuses `infeasible`, the right ending of an infeasible task"
        for final in (None, Done(), Answer(text="")):
            if accepts(task.check, final):
                ending = "no final action" if final is None else f"`{final.kind}`"
                yield f"check: it could pass with {ending} though the task is infeasible; demand `infeasible`"


def _is_answer(leaf: Leaf) -> TypeGuard[FinalActionCheck]:
    return isinstance(leaf, FinalActionCheck) and leaf.kind == "answer"


def _setup(bundle: Bundle) -> Iterator[str]:
    """Steps and requests that lean on this machine, the network or the time of day."""
    task = bundle.task
    places: list[tuple[str, Sequence[SetupStep]]] = [("setup", task.setup), ("settle", task.settle)]
    places += [(f"negative {negative.name!r}", negative.before) for negative in bundle.negatives]
    requests = [*task.evidence, *(request for item in task.setup_asserts for request in item.evidence)]
    said = [
        *(
            (f"{where} {step.type}", text, command)
            for where, steps in places
            for step in steps
            for text, command in _texts(step)
        ),
        *((f"evidence {request.name!r}", text, command) for request in requests for text, command in _texts(request)),
    ]
    for where, text, is_command in said:
        if found := _HOST_PATH.search(text):
            yield f"{where}: {text!r} names a path of some other machine ({found[0].strip()})"
        if is_command and (found := _LIVE_URL.search(text)):
            yield f"{where}: {found[0]!r} is a live address; use an asset"
        if is_command and (found := _CLOCK_PROGRAM.search(text)):
            yield f"{where}: {text!r} reads the clock ({found[1] or found[0]})"


def _texts(step: SetupStep | EvidenceRequest) -> Iterator[tuple[str, bool]]:
    """Paths and command words of a step or a request, and whether each is part of a command."""
    for field in ("path", "pattern"):
        if isinstance(value := getattr(step, field, None), str):
            yield value, False
    for word in getattr(step, "argv", ()):
        yield word, True


def _settle(task: Task) -> Iterator[str]:
    for step in task.settle:
        if isinstance(step, PressStep) and not SETTLE_KEYS.issuperset(step.keys):
            yield f"settle: pressing {'+'.join(step.keys)} could do the agent's work; allowed are {sorted(SETTLE_KEYS)}"


def _scripts(bundle: Bundle) -> Iterator[str]:
    feasible = bundle.task.feasible
    solutions: list[tuple[str, Script]] = [("oracle", bundle.oracle)]
    solutions += [(f"alternative {solution.name!r}", solution.script) for solution in bundle.alternatives]
    attempts: list[tuple[str, Script]] = [(f"negative {one.name!r}", one.script) for one in bundle.negatives]
    for where, script in [*solutions, *attempts]:
        try:
            ScriptedPolicy(script)
        except ValueError as error:
            yield f"{where}: {error}"
    for where, script in solutions:
        if (script[-1].type == "infeasible") == feasible:
            right = "`done` or `answer`" if feasible else "`infeasible`"
            yield f"{where}: a solution of this task must end with {right}, not `{script[-1].type}`"
        if len(script) > bundle.task.limits.max_steps:
            yield f"{where}: its {len(script)} steps do not fit the limit of {bundle.task.limits.max_steps}"
    names = Counter(where for where, _ in [*solutions, *attempts])
    for where, count in names.items():
        if count > 1:
            yield f"{where}: {count} of them have this name"
    if len(bundle.negatives) < MIN_NEGATIVES:
        yield f"negatives: there are {len(bundle.negatives)} attempts that must not pass; bring {MIN_NEGATIVES} or more"
