"""Whatever the agent leaves behind, the judge answers with a score and is repeatable."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox.actions import Action, Answer, Done, Infeasible
from sandbox.evidence import Evidence, EvidenceItem
from verigen.checks import judge
from verigen.checks.config import look_up, parse_config, same
from verigen.checks.model import AllOf, AnyOf, CheckNode, ConfigCheck, FinalActionCheck, NotCheck, TextCheck

MATCHES = st.sampled_from(["equals", "contains", "not_contains", "line"])
FORMATS = st.sampled_from(["json", "toml", "ini", "keyfile"])
LEAVES: st.SearchStrategy[CheckNode] = st.one_of(
    st.builds(
        TextCheck,
        item=st.just("it"),
        match=MATCHES,
        expected=st.text(max_size=5),
        ignore_trailing_whitespace=st.booleans(),
        ignore_case=st.booleans(),
    ),
    st.builds(
        ConfigCheck,
        item=st.just("it"),
        format=FORMATS,
        path=st.lists(st.one_of(st.text(max_size=2), st.integers(0, 2)), max_size=3).map(tuple),
        expected=st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    ),
    st.builds(FinalActionCheck, kind=st.sampled_from(["done", "infeasible"])),
)
TREES: st.SearchStrategy[CheckNode] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(AllOf, of=st.lists(inner, min_size=1, max_size=3).map(tuple), partial=st.booleans()),
        st.builds(AnyOf, of=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(NotCheck, of=inner),
    ),
    max_leaves=6,
)
FINALS: st.SearchStrategy[Action | None] = st.sampled_from([None, Done(), Infeasible(), Answer(text="x")])
CONTENTS = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(lambda text: text.encode()),
    st.text(alphabet='[]{}=:",\n #;.a1', max_size=100).map(lambda text: text.encode()),
)
ITEMS = st.one_of(
    CONTENTS.map(lambda raw: EvidenceItem(status="ok", data={"base64": base64.b64encode(raw).decode()})),
    st.just(EvidenceItem(status="missing")),
)


@given(node=TREES, item=ITEMS, final=FINALS)
def test_the_judge_scores_anything_and_twice_the_same(
    node: CheckNode, item: EvidenceItem, final: Action | None
) -> None:
    now, later = Evidence(items={"it": item}, clock_s=0.0), Evidence(items={"it": item}, clock_s=4e7)
    score, results = judge(node, now, final)
    assert 0.0 <= score <= 1.0
    assert (score, results) == judge(node, later, final)


@given(node=TREES, final=FINALS)
def test_nothing_read_from_a_missing_item_earns_anything(node: CheckNode, final: Action | None) -> None:
    evidence = Evidence(items={"it": EvidenceItem(status="missing")}, clock_s=0.0)
    _, results = judge(node, evidence, final)
    assert all(result.score == 0 for result in results if result.name.startswith(("text", "config")))


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=8,
)


def typed(value: Any) -> Any:
    """A value with its types written out, so that True and 1 differ."""
    if isinstance(value, list):
        return [typed(entry) for entry in value]
    if isinstance(value, dict):
        return {key: typed(entry) for key, entry in value.items()}
    return type(value).__name__, value


@given(one=JSON, two=JSON)
def test_sameness_is_equality_with_types(one: Any, two: Any) -> None:
    assert same(one, one)
    assert same(one, two) == (typed(one) == typed(two))


KEYS = st.text(alphabet="abXY_-.", min_size=1, max_size=6)
VALUES = st.text(alphabet="abc =:/'\"é", max_size=8).map(str.strip)


@given(sections=st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3))
def test_ini_and_key_files_read_back_what_was_written(sections: dict[str, dict[str, str]]) -> None:
    lines = [
        line
        for name, entries in sections.items()
        for line in (f"[{name}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    for format in ("ini", "keyfile"):
        root = parse_config(format, "\n".join(lines).encode())
        for name, entries in sections.items():
            for key, value in entries.items():
                assert look_up(root, (name, key)) == value
