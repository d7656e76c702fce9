"""The lint: one broken bundle per rule, and the sound one that none of them objects to."""

from __future__ import annotations

from typing import Any

import pytest

from agent.policies.script import SayDone, SayInfeasible
from sandbox.actions import Answer, Done, Infeasible
from sandbox.evidence import CommandRequest, FileRequest, GlobRequest, SettingRequest, WindowsRequest
from tests.support.notes import NOTES, notes_bundle, typing
from verigen.bundle import Negative, Solution
from verigen.checks.model import (
    AllOf,
    AnyOf,
    CheckNode,
    ConfigCheck,
    FinalActionCheck,
    GlobCheck,
    NotCheck,
    SettingCheck,
    TextCheck,
    WindowCheck,
)
from verigen.gates.lint import lint
from verigen.gates.logic import accepts, is_constant, needs_content
from verigen.gates.patterns import pattern_problem
from verigen.task import AssertStep, ExecStep, LaunchStep, PressStep, TextFileStep

DONE, FAIL = FinalActionCheck(kind="done"), FinalActionCheck(kind="infeasible")
RIGHT = TextCheck(item="notes", expected="milk\nbread\n")
FILE = FileRequest(name="notes", path=NOTES)


def task_check(*leaves: CheckNode) -> AllOf:
    return AllOf(of=(*leaves, DONE))


def test_a_sound_bundle_is_not_objected_to() -> None:
    assert lint(notes_bundle()) == []


def test_content_may_speak_of_paths_urls_and_dates() -> None:
    said = "See https://example.org and /home/alice, due on 3 May\n"
    setup = (TextFileStep(path="a.txt", text=said), *notes_bundle().task.setup)
    assert lint(notes_bundle(task_setup=setup)) == []


BASE = notes_bundle()
CASES: list[tuple[dict[str, Any], str]] = [
    ({"task_instruction": "Write today's date at the end of the notes."}, "instruction: 'today' depends"),
    ({"task_instruction": "How do I append bread to the notes?"}, "instruction: it asks how"),
    ({"task_evidence": (FILE, FILE)}, "check: 2 evidence requests are named 'notes'"),
    ({"task_evidence": (FILE, WindowsRequest(name="w"))}, "check: no check reads the evidence 'w'"),
    ({"task_check": task_check(RIGHT, TextCheck(item="x", expected="y"))}, "which no evidence request is named"),
    (
        {"task_evidence": (GlobRequest(name="notes", pattern="*"),)},
        "check: a text check cannot read 'notes', which is glob evidence",
    ),
    (
        {
            "task_evidence": (FILE, SettingRequest(name="s", schema_id="org.x")),
            "task_check": task_check(RIGHT, SettingCheck(item="s", expected="1")),
        },
        "names no key",
    ),
    ({"task_check": task_check(TextCheck(item="notes", match="regex", expected="(a+)+"))}, "repeats a group"),
    ({"task_check": task_check(TextCheck(item="notes", match="regex", expected="("))}, "not a regular expression"),
    (
        {"task_check": task_check(ConfigCheck(item="notes", format="ini", path=("a",), expected="1"))},
        "text under (section, key)",
    ),
    (
        {"task_check": task_check(ConfigCheck(item="notes", format="keyfile", path=("a", "b"), expected=1))},
        "text under (section, key)",
    ),
    ({"task_check": TextCheck(item="notes", match="contains", expected=" ")}, "it says the same whatever is there"),
    ({"task_check": task_check(TextCheck(item="notes", match="not_contains", expected="x"))}, "merely existing"),
    ({"task_check": task_check(NotCheck(of=RIGHT))}, "merely existing"),
    (
        {
            "task_evidence": (WindowsRequest(name="w"),),
            "task_check": task_check(WindowCheck(item="w", app="editor", title_contains="notes")),
        },
        "merely existing",
    ),
    (
        {
            "task_evidence": (GlobRequest(name="g", pattern="*"),),
            "task_check": task_check(GlobCheck(item="g", names=("notes.txt",), mode="includes")),
        },
        "merely existing",
    ),
    ({"task_check": RIGHT}, "could pass after `infeasible`"),
    ({"task_check": AllOf(of=(RIGHT, AnyOf(of=(DONE, FAIL))))}, "could pass after `infeasible`"),
    ({"task_check": AllOf(of=(RIGHT, DONE, FAIL))}, "refuses every ending"),
    ({"task_feasible": False, "oracle": (SayInfeasible(),), "alternatives": ()}, "refuses `infeasible`"),
    (
        {
            "task_feasible": False,
            "task_check": AllOf(of=(RIGHT, AnyOf(of=(DONE, FAIL)))),
            "oracle": (SayInfeasible(),),
            "alternatives": (),
        },
        "could pass with `done` though the task is infeasible",
    ),
    ({"task_setup": (TextFileStep(path="/root/x", text=""),)}, "setup text_file: '/root/x' names a path"),
    ({"task_setup": (ExecStep(argv=("cp", "/home/alice/x", ".")),)}, "setup exec: '/home/alice/x' names a path"),
    ({"task_setup": (LaunchStep(argv=("browser", "https://example.org/a")),)}, "is a live address"),
    ({"task_setup": (ExecStep(argv=("/bin/sh", "-c", "echo $(date +%F) > x")),)}, "reads the clock (date)"),
    ({"task_setup": (ExecStep(argv=("date",)),)}, "reads the clock"),
    (
        {
            "task_evidence": (CommandRequest(name="notes", argv=("curl", "http://example.org")),),
        },
        "evidence 'notes': 'http://example.org' is a live address",
    ),
    (
        {"task_setup_asserts": (AssertStep(evidence=(FILE,), check=TextCheck(item="other", expected="x")),)},
        "setup_asserts 1: a text check reads 'other'",
    ),
    ({"task_settle": (PressStep(keys=("ctrl", "s")),)}, "settle: pressing ctrl+s"),
    ({"oracle": (*typing("x"), SayDone())}, "oracle: a script of"),
    ({"oracle": typing("x")[:-1]}, "oracle: a script of"),
    ({"oracle": (SayInfeasible(),)}, "oracle: a solution of this task must end with `done`"),
    ({"oracle": typing("x") * 0 + (typing("x")[0],) * 12 + (SayDone(),)}, "do not fit the limit of 10"),
    ({"alternatives": (Solution(name="a", script=typing("x")[:-1]),)}, "alternative 'a': a script of"),
    ({"negatives": BASE.negatives[:3]}, "negatives: there are 3"),
    ({"negatives": (*BASE.negatives, BASE.negatives[0])}, "2 of them have this name"),
    (
        {
            "negatives": (
                *BASE.negatives,
                Negative(name="n", why="w", before=(ExecStep(argv=("cat", "/root/x")),), script=(SayDone(),)),
            )
        },
        "negative 'n' exec: '/root/x' names a path",
    ),
]


@pytest.mark.parametrize(("changes", "problem"), CASES, ids=[problem for _, problem in CASES])
def test_each_fault_is_named(changes: dict[str, Any], problem: str) -> None:
    found = lint(notes_bundle(**changes))
    assert any(problem in one for one in found), found


@pytest.mark.parametrize(
    ("pattern", "safe"),
    [
        (r"order \d+ of \d+, \w+ and \w+ items", True),
        (r"(?P<name>[a-z]+) (x|y) [xy]+", True),
        (r"(ab){2,4}(cd)*", True),
        (r"(ab?){2,4}", False),
        (r"(a|ab)*", False),
        (r"(a?a?)+", False),
        (r"a.*b.*c", True),
        (r"a.*b.*c.*d", False),
        (r"([^,]+,)+", False),
        (r"(a+)*", False),
        (r"((a*)b)+", False),
        (r"(a|b+){2,}", False),
        (r"\(a+\)+", True),
        (r"[(a+)]+", True),
        (r"(?:a+)?", True),
    ],
)
def test_patterns_that_a_text_can_blow_up_are_refused(pattern: str, safe: bool) -> None:
    assert (pattern_problem(pattern) == "") == safe


def test_what_a_tree_could_say() -> None:
    assert accepts(task_check(RIGHT), Done())
    assert not accepts(task_check(RIGHT), Infeasible())
    assert not accepts(task_check(RIGHT), None)
    assert accepts(AllOf(of=(RIGHT, NotCheck(of=FAIL))), None)
    assert not accepts(AllOf(of=(RIGHT, NotCheck(of=FAIL))), Infeasible())
    assert accepts(FinalActionCheck(kind="answer", answer="7"), Answer(text="7"))
    assert not is_constant(RIGHT)
    assert is_constant(AnyOf(of=(RIGHT, TextCheck(item="notes", match="contains", expected=""))))
    assert needs_content(AllOf(of=(RIGHT, DONE)))
    assert not needs_content(AnyOf(of=(RIGHT, DONE)))
    assert needs_content(FAIL)
    assert needs_content(FinalActionCheck(kind="answer", answer="7"))
    assert not needs_content(FinalActionCheck(kind="answer"))
