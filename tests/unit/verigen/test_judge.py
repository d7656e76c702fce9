"""The judge: what passes, what is a zero with a reason, and what is nobody's zero but a grader's failure."""

from __future__ import annotations

from typing import Any

import pytest

from agent.errors import GraderFailed
from sandbox.actions import Action, Answer, Done, Infeasible
from sandbox.evidence import EvidenceItem
from tests.support.evidence import file_item, make_evidence, missing, ok
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


def score(node: CheckNode, item: EvidenceItem | None = None, final: Action | None = None) -> float:
    evidence = make_evidence() if item is None else make_evidence(it=item)
    value, results = judge(node, evidence, final)
    assert results
    assert all(result.reason for result in results)
    return value


def text(expected: str, **options: Any) -> TextCheck:
    return TextCheck(item="it", expected=expected, **options)


def config(format: str, path: tuple[str | int, ...], expected: Any) -> ConfigCheck:
    return ConfigCheck.model_validate({"item": "it", "format": format, "path": path, "expected": expected})


@pytest.mark.parametrize(
    ("check", "content", "expected"),
    [
        (text("a\nb\n"), "a\nb\n", 1),
        (text("a\nb\n"), "a  \nb\t\r\n\n\n", 1),  # declared: blanks at line ends and empty last lines do not count
        (text("a\nb\n"), "\ufeffa\nb", 1),
        (text("a\nb\n"), " a\nb", 0),  # leading blanks count
        (text("a\nb\n"), "a\n\nb", 0),  # inner empty lines count
        (text("a\nb\n"), "a\nb\nc\n", 0),
        (text("a\nb\n", ignore_trailing_whitespace=False), "a\nb", 0),
        (text("a\nb\n", ignore_trailing_whitespace=False), "a\nb\n", 1),
        (text("Total"), "total", 0),
        (text("Straße", ignore_case=True), "STRASSE", 1),
        (text("a\nb"), "a\u2028b", 0),  # only \n ends a line
        (text("Grüße\n"), "Grüße\n", 1),
        (text(""), "", 1),
        (text("milk", match="contains"), "bread\nmilk\n", 1),
        (text("milk", match="contains"), "bread\n", 0),
        (text("milk", match="not_contains"), "bread\n", 1),
        (text("milk", match="not_contains"), "oat milk\n", 0),
        (text("milk", match="line"), "bread\nmilk  \n", 1),
        (text("milk", match="line"), "oat milk\n", 0),
        (text(r"order \d+", match="regex"), "order 17", 1),
        (text(r"order \d+", match="regex"), "my order 17", 0),  # the whole text must match
        (text(r"ORDER \d+", match="regex", ignore_case=True), "order 17\n", 1),
    ],
)
def test_text(check: TextCheck, content: str, expected: int) -> None:
    assert score(check, file_item(content)) == expected


def test_a_command_s_output_is_text_only_when_it_succeeded() -> None:
    check = text("yes")
    assert score(check, ok({"exit_code": 0, "stdout": "yes\n", "stderr": ""})) == 1
    assert score(check, ok({"exit_code": 1, "stdout": "yes\n", "stderr": ""})) == 0
    assert score(NotCheck(of=check), ok({"exit_code": None, "stdout": "", "stderr": ""})) == 0


@pytest.mark.parametrize(
    ("check", "content", "expected"),
    [
        (config("json", ("a", 1, "b"), "x"), '{"a": [0, {"b": "x"}]}', 1),
        (config("json", ("a",), True), '{"a": true}', 1),
        (config("json", ("a",), True), '{"a": 1}', 0),
        (config("json", ("a",), 1), '{"a": true}', 0),
        (config("json", ("a",), 1), '{"a": 1.0}', 1),
        (config("json", ("a",), 1), '{"a": "1"}', 0),
        (config("json", ("a",), None), '{"a": null}', 1),
        (config("json", ("a",), None), "{}", 0),  # nothing is not null
        (config("json", ("a", -1), 2), '{"a": [1, 2]}', 0),
        (config("json", ("a",), [1, {"b": None}]), '{"a": [1, {"b": null}]}', 1),
        (config("json", ("a",), [1]), '{"a": [1, 2]}', 0),
        (config("json", ("a",), {"b": 1}), '{"a": {"b": 1, "c": 2}}', 0),
        (config("json", ("a",), 1), '{"a": 1,} // comment', 0),  # plain JSON only
        (config("toml", ("tool", "x"), "2024-05-01"), "[tool]\nx = 2024-05-01\n", 1),
        (config("toml", ("tool", "x"), 3), "[tool]\nx = 4\n", 0),
        (config("ini", ("View", "Zoom"), "120"), "; note\n[View]\nZoom: 120\n", 1),
        (config("ini", ("View", "zoom"), "120"), "[View]\nZoom=120\n", 0),  # keys keep their case
        (config("ini", ("View", "Zoom"), 120), "[View]\nZoom=120\n", 0),  # values are text
        (config("keyfile", ("a b", "Name[de]"), "x=y"), "# c\n[a b]\nName[de]=no\nName[de] = x=y\n", 1),
        (config("keyfile", ("a", "k"), "v"), "k=v\n[a]\n", 0),
    ],
)
def test_config(check: ConfigCheck, content: str, expected: int) -> None:
    assert score(check, file_item(content)) == expected


def test_setting_ignores_white_space_outside_quotes_only() -> None:
    check = SettingCheck(item="it", expected="['a b', 'c']")
    assert score(check, ok("['a b','c']")) == 1
    assert score(check, ok("['ab', 'c']")) == 0
    assert score(SettingCheck(item="it", expected="'it\\'s  x'"), ok("'it\\'s x'")) == 0


FOLDER = [
    {"path": "/home/user/Work/a.txt", "type": "file", "size": 1, "mode": 0o644},
    {"path": "/home/user/Work/b", "type": "directory", "size": 0, "mode": 0o755},
]


@pytest.mark.parametrize(
    ("names", "kind", "mode", "expected"),
    [
        (("a.txt", "b"), "any", "exactly", 1),
        (("a.txt",), "file", "exactly", 1),
        (("a.txt",), "any", "exactly", 0),
        (("b",), "file", "includes", 0),
        (("b",), "directory", "includes", 1),
        (("a.txt", "a.txt"), "any", "includes", 0),
        (("c",), "any", "excludes", 1),
        (("c", "b"), "any", "excludes", 0),
    ],
)
def test_glob(names: tuple[str, ...], kind: Any, mode: Any, expected: int) -> None:
    assert score(GlobCheck(item="it", names=names, kind=kind, mode=mode), ok(FOLDER)) == expected


def test_accessibility_needs_one_node_that_shows_the_value() -> None:
    nodes = ok(
        [{"text": "12", "name": "old"}, {"text": " 1234 \n", "name": "display", "value": 3, "states": ["checked"]}]
    )
    assert score(AccessibilityCheck(item="it", expected="1234"), nodes) == 1
    assert score(AccessibilityCheck(item="it", expected="123"), nodes) == 0
    assert score(AccessibilityCheck(item="it", field="value", expected="3.0"), nodes) == 1
    assert score(AccessibilityCheck(item="it", field="value", expected="three"), nodes) == 0
    assert score(AccessibilityCheck(item="it", field="states", expected="checked"), nodes) == 1
    assert score(AccessibilityCheck(item="it", field="name", expected="None"), nodes) == 0
    assert score(NotCheck(of=AccessibilityCheck(item="it", expected="1")), ok([])) == 0


def test_window_and_process() -> None:
    windows = ok([{"title": "notes.txt - Mousepad", "app": "mousepad"}])
    assert score(WindowCheck(item="it", app="mousepad", title_contains="notes"), windows) == 1
    assert score(WindowCheck(item="it", app="mousepad", title_contains="todo"), windows) == 0
    assert score(WindowCheck(item="it", app="mousepad", open=False), windows) == 0
    assert score(WindowCheck(item="it", app="thunar", open=False), windows) == 1
    assert score(ProcessCheck(item="it"), ok([{"pid": 4, "argv": ["x"]}])) == 1
    assert score(ProcessCheck(item="it", running=False), ok([])) == 1
    assert score(ProcessCheck(item="it", running=False), missing()) == 0


@pytest.mark.parametrize(
    ("check", "final", "expected"),
    [
        (FinalActionCheck(kind="done"), Done(), 1),
        (FinalActionCheck(kind="done"), None, 0),
        (FinalActionCheck(kind="done"), Infeasible(), 0),
        (FinalActionCheck(kind="infeasible"), Infeasible(reason="no such tool"), 1),
        (FinalActionCheck(kind="answer", answer="Paris"), Answer(text=" PARIS\n"), 1),
        (FinalActionCheck(kind="answer", answer="Paris"), Answer(text="It is Paris"), 0),
        (FinalActionCheck(kind="answer"), Answer(text=""), 1),
    ],
)
def test_final_action(check: FinalActionCheck, final: Action | None, expected: int) -> None:
    assert score(check, final=final) == expected


DONE, FAIL = FinalActionCheck(kind="done"), FinalActionCheck(kind="infeasible")


def test_trees() -> None:
    assert score(AllOf(of=(DONE, DONE)), final=Done()) == 1
    assert score(AllOf(of=(DONE, FAIL)), final=Done()) == 0
    heavy = FinalActionCheck(kind="done", weight=3)
    assert score(AllOf(of=(heavy, FAIL), partial=True), final=Done()) == 0.75
    assert score(AnyOf(of=(DONE, FAIL)), final=Done()) == 1
    assert score(AnyOf(of=(FAIL, FAIL)), final=Done()) == 0
    assert score(NotCheck(of=FAIL), final=Done()) == 1
    assert score(NotCheck(of=FAIL)) == 1  # running out of steps is not a claim of infeasibility
    assert score(NotCheck(of=AllOf(of=(heavy, FAIL), partial=True)), final=Done()) == 1


@pytest.mark.parametrize(
    "item",
    [
        missing(),
        EvidenceItem(status="too_large", reason="3 MB"),
        file_item(b"\xff\xfe\x00"),
        file_item("[" * 100_000),
        file_item("not json"),
        file_item("1" * 10_000),
        file_item('{"a": NaN}'),
    ],
)
def test_an_unreadable_result_is_zero_and_so_is_a_not_over_it(item: EvidenceItem) -> None:
    check = config("json", ("a",), 1)
    assert score(check, item) == 0
    assert score(NotCheck(of=check), item) == 0
    assert score(NotCheck(of=AllOf(of=(DONE, check))), item, Infeasible()) == 0
    # the control: over a readable file that says something else, `not` is 1
    assert score(NotCheck(of=check), file_item('{"a": 2}')) == 1


def test_reading_hostile_configuration_ends() -> None:
    slow = config("toml", ("b",), 1)
    _, (result,) = judge(slow, make_evidence(it=file_item("a." * 30_000 + "b = 1")), None)
    assert "is longer than the" in result.reason  # refused before it is parsed, which would take many seconds
    assert score(config("toml", ("a",), 1), file_item("a = " + "[" * 8_000)) == 0
    assert score(config("ini", ("a", "b"), "1"), file_item("a" + " " * 1_000_000 + "b")) == 0
    assert score(config("json", ("a",), 1), file_item(" " * (1 << 20) + "1")) == 0
    assert score(text("a*b", match="regex"), file_item("a" * 100_000)) == 0


@pytest.mark.parametrize(
    ("check", "item"),
    [
        (text("x"), EvidenceItem(status="error", reason="the collector died")),
        (NotCheck(of=text("x")), EvidenceItem(status="error", reason="the collector died")),
        (text("x"), ok("no file")),
        (text("x"), ok({"base64": "!!"})),
        (text("(", match="regex"), file_item("x")),
        (GlobCheck(item="it", names=()), ok("no list")),
        (SettingCheck(item="it", expected="1"), ok({"key": "1"})),
        (text("x"), None),
    ],
)
def test_a_grader_s_failure_is_never_a_score(check: CheckNode, item: EvidenceItem | None) -> None:
    with pytest.raises(GraderFailed):
        score(check, item)


def test_an_error_in_any_item_stops_the_judging() -> None:
    evidence = make_evidence(it=file_item("x"), other=EvidenceItem(status="error", reason="boom"))
    with pytest.raises(GraderFailed, match="other: boom"):
        judge(text("x"), evidence, None)


def test_results_name_each_check_once_and_say_what_differs() -> None:
    node = AllOf(of=(text("a\nb"), text("c", match="line"), NotCheck(of=text("a", match="line")), DONE))
    _, results = judge(node, make_evidence(it=file_item("a\nx")), None)
    assert [result.name for result in results] == ["text:it", "text:it#2", "not text:it", "final_action:done"]
    assert results[0].reason == "line 2 is 'x', expected 'b'"
    assert len(judge(text("a"), make_evidence(it=file_item("z" * 5000)), None)[1][0].reason) < 300


TABS = [
    {"url": "http://a/", "title": " Order 1 ", "active": False},
    {"url": "http://b/", "title": "Cart", "active": True, "count": 1},
]


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({"where": {"active": True, "url": "http://b/"}}, 1),
        ({"where": {"active": True, "url": "http://a/"}}, 0),  # of one record, not of two
        ({"where": {"title": "Order 1"}}, 1),
        ({"where": {"title": "order 1"}}, 0),
        ({"where": {"active": 1}}, 0),
        ({"where": {"count": True}}, 0),
        ({"where": {"count": 1}}, 1),
        ({"where": {"nothing": None, "title": "Cart"}}, 1),
        ({"contains": {"title": "Order"}, "where": {"active": False}}, 1),
        ({"contains": {"title": "Order"}, "where": {"active": True}}, 0),
        ({"contains": {"active": "T"}}, 0),
        ({"contains": {"title": "Order"}, "present": False}, 0),
        ({"contains": {"title": "Refund"}, "present": False}, 1),
    ],
)
def test_a_browser_check_describes_one_record(described: dict[str, Any], expected: int) -> None:
    check = BrowserCheck.model_validate({"item": "it", **described})
    assert score(check, ok(TABS)) == expected
    assert score(check, missing()) == 0  # whatever it says of absence


@pytest.mark.parametrize("described", [{}, {"present": False}, {"contains": {"title": " "}}])
def test_a_browser_check_that_describes_nothing_is_refused(described: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"browser check|empty one"):
        BrowserCheck.model_validate({"item": "it", **described})


def test_a_browser_answer_that_is_no_list_is_the_graders_fault() -> None:
    with pytest.raises(GraderFailed):
        score(BrowserCheck(item="it", where={"url": "x"}), ok({"url": "x"}))
