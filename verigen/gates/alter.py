"""Changes of one evidence item for one leaf: ones that break what it demands, and ones that must not matter.

`damage` and `satisfy` give changes that turn a true leaf false and a false one true; `preserve` gives changes that the
leaf must not see. Each is a list of (what was done, changed item).
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable
from typing import Any

from sandbox.evidence import EvidenceItem
from verigen.checks.model import (
    AccessibilityCheck,
    BrowserCheck,
    ConfigCheck,
    GlobCheck,
    ProcessCheck,
    SettingCheck,
    TextCheck,
    WindowCheck,
)
from verigen.checks.tree import ItemLeaf
from verigen.gates import alter_config, alter_text

__all__ = ["Change", "damage", "preserve", "satisfy"]

Change = tuple[str, EvidenceItem]


def damage(leaf: ItemLeaf, item: EvidenceItem, rng: random.Random) -> list[Change]:
    """Changes after which the leaf must not hold."""
    match leaf:
        case TextCheck():
            return _texts(item, alter_text.damaged(leaf, text_of(item), rng))
        case ConfigCheck():
            return _texts(item, alter_config.damaged(leaf, text_of(item)))
        case SettingCheck():
            return [("another value", _ok(f"{item.data}x")), ("an empty value", _ok(""))]
        case GlobCheck():
            return _globs(leaf, item)
        case AccessibilityCheck():
            changed = [{**node, leaf.field: _other(node.get(leaf.field))} for node in _list(item)]
            return [
                (f"another {leaf.field}", _ok(changed)),
                (f"no {leaf.field}", _ok([_without(node, leaf.field) for node in _list(item)])),
            ]
        case WindowCheck(open=True):
            kept = [entry for entry in _list(item) if entry.get("app") != leaf.app]
            return [("its windows closed", _ok(kept)), *_retitled(leaf, item)]
        case WindowCheck():
            return satisfy_window(leaf, item)
        case ProcessCheck():
            return [("ended", _ok([]))] if leaf.running else [("running", _ok([{"pid": 1, "argv": ["x"]}]))]
        case BrowserCheck(present=True):
            changes = [("nothing there", _ok([]))]
            for field in leaf.where:
                others = [{**record, field: _other(record.get(field))} for record in _list(item)]
                changes.append((f"another {field}", _ok(others)))
            for field in leaf.contains:
                changes.append((f"an empty {field}", _ok([{**record, field: ""} for record in _list(item)])))
            return changes
        case BrowserCheck():
            return _described(leaf, item)


def satisfy(leaf: ItemLeaf, item: EvidenceItem) -> list[Change]:
    """Changes after which the leaf must hold (for leaves under a `not`)."""
    match leaf:
        case TextCheck(match="contains" | "line"):
            return _texts(item, [("the text added", f"{text_of(item)}\n{leaf.expected}\n")])
        case TextCheck(match="equals"):
            return _texts(item, [("the very text", leaf.expected)])
        case ConfigCheck():
            return _texts(item, alter_config.satisfied(leaf))
        case SettingCheck():
            return [("the very value", _ok(leaf.expected))]
        case GlobCheck(mode="includes" | "exactly"):
            kind = "file" if leaf.kind == "any" else leaf.kind
            return [("the very paths", _ok([{"path": f"/x/{name}", "type": kind} for name in leaf.names]))]
        case WindowCheck(open=True):
            return satisfy_window(leaf, item)
        case ProcessCheck(running=True):
            return [("running", _ok([{"pid": 1, "argv": ["x"]}]))]
        case BrowserCheck(present=True):
            return _described(leaf, item)
        case _:
            return []


def preserve(leaf: ItemLeaf, item: EvidenceItem) -> list[Change]:
    """Changes that the leaf must not see."""
    if item.status != "ok":
        return []
    match leaf:
        case TextCheck():
            return _texts(item, alter_text.preserved(leaf, text_of(item)))
        case ConfigCheck():
            return _texts(item, alter_config.preserved(leaf, text_of(item)))
        case SettingCheck():
            return [("blanks around the value", _ok(f" {item.data} "))]
        case GlobCheck():
            other = [{**entry, "size": 7, "mode": 0o600} for entry in reversed(_list(item))]
            return [("other order, sizes and modes", _ok(other))]
        case AccessibilityCheck():
            moved = [{**node, "bounds": [1, 1, 2, 2]} for node in reversed(_list(item))]
            return [("moved and in other order", _ok(moved))]
        case WindowCheck():
            moved = [{**entry, "bounds": [1, 1, 2, 2], "active": False} for entry in reversed(_list(item))]
            stranger = {"app": "stranger", "title": "stranger", "active": True, "dialog": False, "bounds": [0, 0, 1, 1]}
            return [("moved, below another window", _ok([*moved, stranger]))]
        case ProcessCheck():
            return [("other process ids", _ok([{**entry, "pid": 99} for entry in _list(item)]))]
        case BrowserCheck():
            return [("in other order", _ok(list(reversed(_list(item)))))]


def text_of(item: EvidenceItem) -> str:
    """The text of a file or command item; bytes that are no text are replaced."""
    if isinstance(item.data, dict) and "stdout" in item.data:
        return str(item.data["stdout"])
    return item.file_bytes().decode("utf-8", "replace") if item.status == "ok" else ""


def satisfy_window(leaf: WindowCheck, item: EvidenceItem) -> list[Change]:
    """Open a window of the app with the title."""
    window = {"app": leaf.app, "title": leaf.title_contains, "active": True, "dialog": False, "bounds": [0, 0, 9, 9]}
    return [("the window open", _ok([*_list(item), window]))]


def _described(leaf: BrowserCheck, item: EvidenceItem) -> list[Change]:
    """Add a record that is as the leaf describes."""
    return [("the very record added", _ok([*_list(item), {**leaf.contains, **leaf.where}]))]


def _texts(item: EvidenceItem, texts: Iterable[tuple[str, str]]) -> list[Change]:
    """Put changed texts into the kind of item that the original is."""
    if isinstance(item.data, dict) and "stdout" in item.data:
        return [(what, _ok({**item.data, "stdout": text})) for what, text in texts]
    return [(what, _ok({"base64": base64.b64encode(text.encode()).decode()})) for what, text in texts]


def _globs(leaf: GlobCheck, item: EvidenceItem) -> list[Change]:
    entries = _list(item)
    kind = "file" if leaf.kind == "any" else leaf.kind
    changes = []
    if leaf.mode != "excludes":
        for name in leaf.names:
            kept = [entry for entry in entries if str(entry.get("path")).rsplit("/", 1)[-1] != name]
            changes.append((f"{name} removed", _ok(kept)))
            renamed = [*kept, {"path": f"/x/{name}~", "type": kind}]
            changes.append((f"{name} renamed", _ok(renamed)))
        if leaf.kind != "any" and leaf.names:
            changes.append(("of another type", _ok([{**entry, "type": "other"} for entry in entries])))
    if leaf.mode == "exactly":
        changes.append(("one path more", _ok([*entries, {"path": "/x/one more", "type": kind}])))
    if leaf.mode == "excludes":
        changes += [(f"{name} there", _ok([*entries, {"path": f"/x/{name}", "type": kind}])) for name in leaf.names]
    return changes


def _retitled(leaf: WindowCheck, item: EvidenceItem) -> list[Change]:
    if not leaf.title_contains:
        return []
    retitled = [{**entry, "title": "Untitled"} if entry.get("app") == leaf.app else entry for entry in _list(item)]
    return [("another title", _ok(retitled))]


def _other(value: Any) -> Any:
    if isinstance(value, str):
        return f"{value}0"
    if isinstance(value, int | float):
        return value + 1
    return []


def _without(node: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != field}


def _list(item: EvidenceItem) -> list[dict[str, Any]]:
    return list(item.data or ())


def _ok(data: Any) -> EvidenceItem:
    return EvidenceItem(status="ok", data=data)
