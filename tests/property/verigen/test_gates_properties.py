"""Mutations really break or really preserve, for any content; the truth table never misses what a tree can say."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from sandbox.actions import Done
from tests.support.evidence import file_item, make_evidence
from verigen.checks import judge
from verigen.checks.model import AllOf, AnyOf, CheckNode, ConfigCheck, NotCheck, TextCheck
from verigen.checks.tree import leaves
from verigen.gates.alter import damage, preserve
from verigen.gates.logic import EITHER, possible
from verigen.gates.mutants import Mutant, breaking

TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00\r\ufeff"), max_size=60)


@given(text=TEXTS, strict=st.booleans(), fold=st.booleans(), seed=st.integers(0, 9))
def test_damaged_texts_fail_and_preserved_ones_pass(text: str, strict: bool, fold: bool, seed: int) -> None:
    check = TextCheck(item="it", expected=text, ignore_trailing_whitespace=not strict, ignore_case=fold)
    item = file_item(text)
    assert judge(check, make_evidence(it=item), None)[0] == 1.0
    for what, changed in damage(check, item, random.Random(seed)):
        assert judge(check, make_evidence(it=changed), None)[0] == 0.0, what
    for what, changed in preserve(check, item):
        assert judge(check, make_evidence(it=changed), None)[0] == 1.0, what


PASSAGES = st.text(alphabet="ab.\\*Ä1 ", min_size=1, max_size=8).filter(lambda text: text.strip() == text)


@given(before=TEXTS, passage=PASSAGES, after=TEXTS)
def test_a_damaged_passage_is_missed_wherever_it_stands(before: str, passage: str, after: str) -> None:
    check = TextCheck(item="it", match="line", expected=passage)
    item = file_item(f"{before}\n{passage}\n{after}")
    assert judge(check, make_evidence(it=item), None)[0] == 1.0
    for what, changed in damage(check, item, random.Random(1)):
        assert judge(check, make_evidence(it=changed), None)[0] == 0.0, what


KEYS = st.text(alphabet="ab c-é", min_size=1, max_size=4).filter(lambda key: key.strip() == key)
VALUES = st.one_of(st.booleans(), st.integers(-9, 9), st.text(alphabet="ab \"'é", max_size=4).map(str.strip))


@given(section=KEYS, key=KEYS, value=VALUES)
def test_damaged_values_fail_in_every_format(section: str, key: str, value: bool | int | str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '\\"') + '"'

    plain = str(value).lower() if isinstance(value, bool) else str(value)
    shown = quoted(value) if isinstance(value, str) else plain
    files = {
        "toml": f"[{quoted(section)}]\n{quoted(key)} = {shown}\n",
        "json": f"{{{quoted(section)}: {{{quoted(key)}: {shown}}}}}",
        "ini": f"[{section}]\n{key} = {plain}\n",
        "keyfile": f"[{section}]\n{key}={plain}\n",
    }
    for format, content in files.items():
        expected = value if format in ("toml", "json") else plain
        check = ConfigCheck.model_validate(
            {"item": "it", "format": format, "path": [section, key], "expected": expected}
        )
        item = file_item(content)
        assert judge(check, make_evidence(it=item), None)[0] == 1.0, (format, content)
        for what, changed in damage(check, item, random.Random(1)):
            assert judge(check, make_evidence(it=changed), None)[0] == 0.0, (format, what)
        for what, changed in preserve(check, item):
            assert judge(check, make_evidence(it=changed), None)[0] == 1.0, (format, what)


LEAF = st.integers(0, 3).map(lambda number: TextCheck(item=f"leaf {number}", expected="yes"))
TREES: st.SearchStrategy[CheckNode] = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.builds(AllOf, of=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, of=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(NotCheck, of=inner),
    ),
    max_leaves=5,
)


@given(node=TREES, data=st.data())
def test_the_truth_table_covers_every_assignment(node: CheckNode, data: st.DataObject) -> None:
    names = sorted({leaf.item for leaf in leaves(node) if isinstance(leaf, TextCheck)})
    can = {name: data.draw(st.sampled_from([EITHER, frozenset({True}), frozenset({False})])) for name in names}
    seen = set()
    for assignment in itertools.product(*(sorted(can[name]) for name in names)):
        items = {name: file_item("yes" if holds else "no") for name, holds in zip(names, assignment, strict=True)}
        seen.add(judge(node, make_evidence(**items), None)[0] == 1.0)
    said = possible(node, lambda leaf: can[leaf.item] if isinstance(leaf, TextCheck) else EITHER)
    assert seen <= said
    if len(names) == sum(1 for _ in leaves(node)):  # independent leaves: exactly
        assert seen == said


@given(node=TREES, values=st.lists(st.booleans(), min_size=4, max_size=4))
def test_breaking_changes_are_valid_for_any_tree(node: CheckNode, values: list[bool]) -> None:
    evidence = make_evidence(
        **{f"leaf {number}": file_item("yes" if value else "no") for number, value in enumerate(values)}
    )
    golden = Mutant(what="nothing", evidence=evidence, final=Done())
    for mutant in breaking(node, golden, evidence, seed=0):
        judge(node, mutant.evidence, mutant.final)
