"""Walking a check tree."""

from __future__ import annotations

from collections.abc import Iterator

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

__all__ = ["ItemLeaf", "Leaf", "items_read", "leaves"]

ItemLeaf = (
    TextCheck | ConfigCheck | SettingCheck | GlobCheck | AccessibilityCheck | WindowCheck | ProcessCheck | BrowserCheck
)
"""Leaves that read one evidence item."""
Leaf = ItemLeaf | FinalActionCheck


def leaves(node: CheckNode) -> Iterator[Leaf]:
    """Every leaf, from left to right."""
    match node:
        case AllOf() | AnyOf():
            for child in node.of:
                yield from leaves(child)
        case NotCheck():
            yield from leaves(node.of)
        case _:
            yield node


def items_read(node: CheckNode) -> frozenset[str]:
    """Names of the evidence items that the tree reads."""
    return frozenset(leaf.item for leaf in leaves(node) if not isinstance(leaf, FinalActionCheck))
