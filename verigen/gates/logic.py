"""What a check tree could say, whatever the evidence: a truth table over its leaves, folded up the tree.

Leaves are taken as independent, so a set may be larger than what is really possible, never smaller: `accepts` false is
a proof that the tree refuses that ending.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sandbox.actions import Action
from verigen.checks.final_action import check_final_action
from verigen.checks.model import (
    AllOf,
    AnyOf,
    BrowserCheck,
    CheckNode,
    FinalActionCheck,
    GlobCheck,
    NotCheck,
    ProcessCheck,
    TextCheck,
    WindowCheck,
)
from verigen.checks.tree import Leaf

__all__ = ["accepts", "is_constant", "is_trivial", "needs_content", "possible"]

Truth = frozenset[bool]
EITHER: Truth = frozenset({True, False})
ALWAYS: Truth = frozenset({True})
NEVER: Truth = frozenset({False})
ODD_TEXTS = ("", "x", "\x00\n \n7")
"""A pattern that matches all of these matches anything."""


def possible(node: CheckNode, truth: Callable[[Leaf], Truth]) -> Truth:
    """Whether the tree can pass and whether it can fail, given what each leaf can do."""
    match node:
        case AllOf() | AnyOf():
            children = [possible(child, truth) for child in node.of]
            # In an `all`, one failing child decides; in an `any`, one passing child does.
            decides = isinstance(node, AnyOf)
            values = set()
            if any(decides in child for child in children):
                values.add(decides)
            if all((not decides) in child for child in children):
                values.add(not decides)
            return frozenset(values)
        case NotCheck():
            return frozenset(not value for value in possible(node.of, truth))
        case _:
            return truth(node)


def accepts(node: CheckNode, final: Action | None) -> bool:
    """Whether an episode that ends with this action could pass."""

    def truth(leaf: Leaf) -> Truth:
        if isinstance(leaf, FinalActionCheck):
            return frozenset({check_final_action(leaf, final).score == 1.0})
        return EITHER

    return True in possible(node, truth)


def is_constant(node: CheckNode) -> bool:
    """Whether the tree says the same whatever is there."""
    return possible(node, lambda leaf: ALWAYS if is_trivial(leaf) else EITHER) != EITHER


def needs_content(node: CheckNode) -> bool:
    """Whether passing needs some content to be right, not only things to exist, to be absent, or `done` to be said."""
    return True not in possible(node, lambda leaf: NEVER if _reads_content(leaf) else EITHER)


def is_trivial(leaf: Leaf) -> bool:
    """Whether the leaf is true of anything that is there."""
    match leaf:
        case TextCheck(match="contains" | "regex"):
            return matches_anything(leaf)
        case GlobCheck(mode="includes" | "excludes", names=()):
            return True
        case _:
            return False


def matches_anything(check: TextCheck) -> bool:
    """Whether a `contains` or `regex` check refuses no text."""
    if check.match == "contains":
        return not check.expected.strip()
    try:
        return all(re.fullmatch(check.expected, text) for text in ODD_TEXTS)
    except re.error:
        return False  # reported as a broken pattern


def _reads_content(leaf: Leaf) -> bool:
    match leaf:
        case WindowCheck() | ProcessCheck() | GlobCheck(mode="includes" | "excludes"):
            return False
        case TextCheck(match="not_contains") | BrowserCheck(present=False):
            return False
        case FinalActionCheck():
            return leaf.kind == "infeasible" or (leaf.kind == "answer" and leaf.answer is not None)
        case _:
            return not is_trivial(leaf)
