"""Mutation of evidence: which changes count against a check, and which must not."""

from __future__ import annotations

import pytest

from sandbox.actions import Action, Answer, Done, Infeasible
from sandbox.evidence import Evidence, EvidenceItem
from tests.support.evidence import file_item, make_evidence, ok
from verigen.checks import judge
from verigen.checks.model import (
    AccessibilityCheck,
    AllOf,
    AnyOf,
    BrowserCheck,
    CheckNode,
    ConfigCheck,
    FinalActionCheck,
    GlobCheck,
    NotCheck,
    ProcessCheck,
    SettingCheck,
    TextCheck,
    WindowCheck,
)
from verigen.gates.mutants import Mutant, breaking, neutral

DONE = FinalActionCheck(kind="done")


def golden(item: EvidenceItem, final: Action | None = None) -> Mutant:
    return Mutant(what="nothing", evidence=make_evidence(it=item), final=final or Done())


def survivors(node: CheckNode, right: Mutant, before: Evidence | None = None) -> tuple[list[str], int]:
    assert judge(node, right.evidence, right.final)[0] == 1.0
    mutants = list(breaking(node, right, before or right.evidence, seed=1))
    return [one.what for one in mutants if judge(node, one.evidence, one.final)[0] == 1.0], len(mutants)


def disturbed(node: CheckNode, right: Mutant) -> list[str]:
    return [one.what for one in neutral(node, right) if judge(node, one.evidence, one.final)[0] < 1.0]


WINDOW = {"app": "editor", "title": "a.txt - Editor", "active": True, "dialog": False, "bounds": [0, 0, 1, 1]}
FILES = [
    {"path": "/w/a", "type": "file", "size": 1, "mode": 420},
    {"path": "/w/b", "type": "directory", "size": 0, "mode": 493},
]
JSON = '{"view": {"zoom": 120, "dark": true, "fonts": ["a", "b"]}, "x": null}'
SHARP: list[tuple[CheckNode, EvidenceItem]] = [
    (TextCheck(item="it", expected="One two\nthree\n"), file_item("One two\nthree\n")),
    (TextCheck(item="it", expected="ONE", ignore_case=True), file_item("one")),
    (TextCheck(item="it", expected="x\n", ignore_trailing_whitespace=False), file_item("x\n")),
    (TextCheck(item="it", match="contains", expected="two"), file_item("One two\ntwo three\n")),
    (TextCheck(item="it", match="not_contains", expected="two"), file_item("One\n")),
    (TextCheck(item="it", match="line", expected="a\\1 b"), file_item("One\na\\1 b  \nlast")),
    (TextCheck(item="it", match="regex", expected=r"Total: \d{3}"), file_item("Total: 123\n")),
    (TextCheck(item="it", expected="yes"), ok({"exit_code": 0, "stdout": "yes\n", "stderr": ""})),
    (ConfigCheck(item="it", format="json", path=("view", "zoom"), expected=120), file_item(JSON)),
    (ConfigCheck(item="it", format="json", path=("view", "dark"), expected=True), file_item(JSON)),
    (ConfigCheck(item="it", format="json", path=("view", "fonts", 1), expected="b"), file_item(JSON)),
    (ConfigCheck(item="it", format="json", path=("view", "fonts"), expected=["a", "b"]), file_item(JSON)),
    (ConfigCheck(item="it", format="json", path=("x",), expected=None), file_item(JSON)),
    (ConfigCheck(item="it", format="toml", path=("a b", "c"), expected=1.5), file_item('["a b"]\nc = 1.5\n')),
    (ConfigCheck(item="it", format="ini", path=("View", "Zoom"), expected="120"), file_item("[View]\nZoom=120")),
    (ConfigCheck(item="it", format="keyfile", path=("View", "Zoom"), expected=""), file_item("[View]\nZoom=\n")),
    (SettingCheck(item="it", expected="'dark'"), ok("'dark'")),
    (GlobCheck(item="it", names=("a", "b")), ok(FILES)),
    (GlobCheck(item="it", names=("a",), kind="file"), ok(FILES)),
    (GlobCheck(item="it", names=("b",), kind="directory", mode="includes"), ok(FILES)),
    (GlobCheck(item="it", names=("c", "d"), mode="excludes"), ok(FILES)),
    (AccessibilityCheck(item="it", expected="12"), ok([{"text": "12"}, {"text": "0"}])),
    (AccessibilityCheck(item="it", field="value", expected="0.5"), ok([{"value": 0.5}])),
    (AccessibilityCheck(item="it", field="states", expected="checked"), ok([{"states": ["checked"]}])),
    (WindowCheck(item="it", app="editor", title_contains="a.txt"), ok([WINDOW])),
    (WindowCheck(item="it", app="browser", open=False), ok([WINDOW])),
    (ProcessCheck(item="it"), ok([{"pid": 7, "argv": ["x"]}])),
    (ProcessCheck(item="it", running=False), ok([])),
    (
        BrowserCheck(item="it", where={"active": True}, contains={"title": "Cart"}),
        ok([{"url": "http://a/", "title": "Your Cart", "active": True}, {"url": "b", "title": "", "active": False}]),
    ),
    (BrowserCheck(item="it", where={"url": "http://a/"}, present=False), ok([{"url": "b"}])),
]


@pytest.mark.parametrize(("check", "item"), SHARP, ids=range(len(SHARP)))
def test_a_sharp_check_notices_every_breaking_change_and_no_other(check: CheckNode, item: EvidenceItem) -> None:
    node = AllOf(of=(check, DONE))
    left, total = survivors(node, golden(item))
    assert left == []
    assert total >= 5
    assert disturbed(node, golden(item)) == []


NEGATED: list[tuple[CheckNode, EvidenceItem]] = [
    (TextCheck(item="it", match="contains", expected="two"), file_item("One")),
    (TextCheck(item="it", expected="two"), file_item("One")),
    (ConfigCheck(item="it", format="ini", path=("a", "b"), expected="1"), file_item("[a]\nb=2")),
    (SettingCheck(item="it", expected="1"), ok("2")),
    (GlobCheck(item="it", names=("c",), mode="includes"), ok(FILES)),
    (WindowCheck(item="it", app="editor", title_contains="b.txt"), ok([WINDOW])),
    (ProcessCheck(item="it"), ok([])),
    (BrowserCheck(item="it", where={"url": "http://a/"}, contains={"title": "A"}), ok([{"url": "b"}])),
]


@pytest.mark.parametrize(("check", "item"), NEGATED, ids=range(len(NEGATED)))
def test_under_a_not_the_forbidden_state_is_made(check: CheckNode, item: EvidenceItem) -> None:
    left, total = survivors(NotCheck(of=check), golden(item))
    assert (left, total) == ([], 1)


def test_a_loose_check_lets_changes_live() -> None:
    text = "Dear Ms Lee,\nthe total is 42.\nYours, Tom\n"
    loose = AllOf(of=(TextCheck(item="it", match="regex", expected=r"(?s).*42.*"), DONE))
    left, total = survivors(loose, golden(file_item(text)))
    assert len(left) > 0.2 * total
    exact = AllOf(of=(TextCheck(item="it", expected=text), DONE))
    assert survivors(exact, golden(file_item(text)))[0] == []


def test_a_branch_that_does_not_hold_is_not_mutated() -> None:
    either = AnyOf(of=(TextCheck(item="it", expected="a"), TextCheck(item="it", expected="b")))
    assert survivors(either, golden(file_item("a")))[0] == []
    both = AnyOf(of=(TextCheck(item="it", expected="a"), TextCheck(item="it", match="contains", expected="a")))
    assert survivors(both, golden(file_item("a")))[0] != []


def test_an_item_is_put_back_as_it_was_before() -> None:
    node = AllOf(of=(TextCheck(item="it", expected="new"), DONE))
    what = [one.what for one in breaking(node, golden(file_item("new")), make_evidence(it=file_item("old")), seed=1)]
    assert "it: as it was before" in what
    unchanged = [
        one.what for one in breaking(node, golden(file_item("new")), make_evidence(it=file_item("new")), seed=1)
    ]
    assert "it: as it was before" not in unchanged


def test_endings_are_mutated() -> None:
    right = golden(file_item("x"))
    assert survivors(DONE, right) == ([], 3)
    fail = Mutant(what="", evidence=right.evidence, final=Infeasible(reason="r"))
    assert survivors(FinalActionCheck(kind="infeasible"), fail) == ([], 3)
    assert disturbed(FinalActionCheck(kind="infeasible"), fail) == []
    answer = Mutant(what="", evidence=right.evidence, final=Answer(text="Paris"))
    assert survivors(FinalActionCheck(kind="answer", answer="paris"), answer) == ([], 5)
    assert survivors(FinalActionCheck(kind="answer"), answer) == ([], 3)


def test_over_specification_is_noticed() -> None:
    """Two leaves on one item: a change that one of them declares not to count is not neutral for the other."""
    strict = TextCheck(item="it", expected="a\n", ignore_trailing_whitespace=False)
    node = AllOf(of=(TextCheck(item="it", expected="a"), strict, DONE))
    assert disturbed(node, golden(file_item("a\n"))) == []
