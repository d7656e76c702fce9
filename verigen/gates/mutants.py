"""Small changes of right evidence, to test a task's checks without a desktop.

*Breaking* changes touch what a check reads: after one of them the score must drop below 1, or the check does not really
look. *Neutral* changes touch what it does not read: they must leave the score as it is, or the check looks at too much.

Only leaves that the right evidence leans on are broken: all children of an `all`, those children of an `any` that hold.
A change that the check declares not to count (trailing blanks, say) is never counted as breaking.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.actions import Action, Answer, Done, Infeasible
from sandbox.evidence import Evidence, EvidenceItem
from verigen.checks import judge
from verigen.checks.final_action import check_final_action
from verigen.checks.model import AllOf, AnyOf, CheckNode, FinalActionCheck, NotCheck
from verigen.checks.tree import ItemLeaf, Leaf
from verigen.gates import alter

__all__ = ["Mutant", "breaking", "neutral"]

YEAR_S = 366 * 24 * 3600.0
MISSING = EvidenceItem(status="missing", reason="taken away by a mutation")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """Changed evidence."""

    what: str
    """What was changed, for a person."""
    evidence: Evidence
    final: Action | None


def breaking(node: CheckNode, golden: Mutant, initial: Evidence, *, seed: int) -> Iterator[Mutant]:
    """Changes after which the task is not done.

    Args:
        golden: right evidence and final action.
        initial: the evidence before anything was done; items are put back from it one at a time.
        seed: places of changed characters.
    """
    rng = random.Random(seed)
    for leaf, negated in _leaned_on(node, golden):
        if isinstance(leaf, FinalActionCheck):
            yield from _other_endings(leaf, negated, golden)
            continue
        item = golden.evidence.items[leaf.item]
        changes = alter.satisfy(leaf, item) if negated else alter.damage(leaf, item, rng)
        for what, changed in changes:
            yield _with_item(golden, leaf, what, changed)
        if not negated:
            yield _with_item(golden, leaf, "taken away", MISSING)
        before = initial.items[leaf.item]
        if not negated and before != item and _alone(leaf, before, golden) < 1:
            yield _with_item(golden, leaf, "as it was before", before)


def neutral(node: CheckNode, golden: Mutant) -> Iterator[Mutant]:
    """Changes after which the task is still done."""
    evidence = golden.evidence
    yield Mutant(
        what="the clock one year later",
        evidence=evidence.model_copy(update={"clock_s": evidence.clock_s + YEAR_S}),
        final=golden.final,
    )
    unread = {**evidence.items, "an item that nobody reads": MISSING}
    yield Mutant(what="one more item", evidence=evidence.model_copy(update={"items": unread}), final=golden.final)
    if isinstance(golden.final, Infeasible):
        yield Mutant(what="another reason given", evidence=evidence, final=Infeasible(reason="another reason"))
    readers: dict[str, list[ItemLeaf]] = {}
    for leaf, _ in _leaned_on(node, golden):
        if not isinstance(leaf, FinalActionCheck):
            readers.setdefault(leaf.item, []).append(leaf)
    for leaves in readers.values():
        # A change is neutral only if it is so for every leaf that reads the item.
        changes = [dict(alter.preserve(leaf, evidence.items[leaf.item])) for leaf in leaves]
        for what, changed in changes[0].items():
            if all(others.get(what) == changed for others in changes[1:]):
                yield _with_item(golden, leaves[0], what, changed)


def _leaned_on(node: CheckNode, golden: Mutant, negated: bool = False) -> Iterator[tuple[Leaf, bool]]:
    match node:
        case AllOf():
            children = node.of
        case AnyOf():
            children = tuple(child for child in node.of if (_alone(child, None, golden) == 1.0) != negated)
        case NotCheck():
            yield from _leaned_on(node.of, golden, not negated)
            return
        case _:
            yield node, negated
            return
    for child in children:
        yield from _leaned_on(child, golden, negated)


def _alone(node: CheckNode, item: EvidenceItem | None, golden: Mutant) -> float:
    """The score of one part of the tree, with one item replaced if one is given."""
    evidence = golden.evidence
    if item is not None and not isinstance(node, AllOf | AnyOf | NotCheck | FinalActionCheck):
        evidence = evidence.model_copy(update={"items": {**evidence.items, node.item: item}})
    return judge(node, evidence, golden.final)[0]


def _with_item(golden: Mutant, leaf: ItemLeaf, what: str, item: EvidenceItem) -> Mutant:
    items = {**golden.evidence.items, leaf.item: item}
    evidence = golden.evidence.model_copy(update={"items": items})
    return Mutant(what=f"{leaf.item}: {what}", evidence=evidence, final=golden.final)


def _other_endings(leaf: FinalActionCheck, negated: bool, golden: Mutant) -> Iterator[Mutant]:
    endings: list[Any] = [None, Done(), Infeasible(), Answer(text="something else")]
    if leaf.answer is not None:
        endings.append(Answer(text=leaf.answer + "x"))
        endings.append(Answer(text=leaf.answer))
    for final in endings:
        if (check_final_action(leaf, final).score == 1.0) == negated:
            shown = "none" if final is None else final.kind
            yield Mutant(what=f"the ending: {shown}", evidence=golden.evidence, final=final)
