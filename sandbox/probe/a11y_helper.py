"""Dumps the accessibility tree from inside the session, under the desktop's own uid.

The session bus refuses other uids, so this runs as the desktop's user and is as trustworthy as any of its programs: the
probe treats what it says as the desktop's own word. One JSON request per line on standard input
({"app": name or null, "max_nodes": n, "max_depth": n, "timeout_ms": n}), one JSON answer per line on standard output.

Walking rules, all learned from applications that hang otherwise: caches are cleared before each walk (there is no main
loop here to keep them fresh); below the windows only showing nodes are followed; a node that manages its descendants
(a spreadsheet has 2^31 cells) gives its first children only.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

MANAGED_CHILDREN = 60
PLAIN_CHILDREN = 500
NOWHERE = -(1 << 31)
STATES = (
    "ACTIVE",
    "ARMED",
    "CHECKED",
    "COLLAPSED",
    "EDITABLE",
    "ENABLED",
    "EXPANDED",
    "FOCUSED",
    "INDETERMINATE",
    "MODAL",
    "PRESSED",
    "SELECTED",
    "SENSITIVE",
    "SHOWING",
    "VISIBLE",
)


def main() -> int:
    """Answer requests until standard input ends."""
    import gi

    gi.require_version("Atspi", "2.0")
    from gi.repository import Atspi

    Atspi.init()
    for line in sys.stdin:
        request = json.loads(line)
        Atspi.set_timeout(int(request["timeout_ms"]), int(request["timeout_ms"]))
        try:
            answer: dict[str, Any] = Walker(Atspi, request["max_nodes"], request["max_depth"]).desktop(request["app"])
        except Exception as error:  # noqa: BLE001 - an application's accessibility code can raise anything
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


class Walker:
    """One walk over the tree."""

    def __init__(self, atspi: Any, max_nodes: int, max_depth: int) -> None:
        self._atspi = atspi
        self._left = max_nodes
        self._max_depth = max_depth
        self._states = [(name.lower(), getattr(atspi.StateType, name)) for name in STATES]

    def desktop(self, app: str | None) -> dict[str, Any]:
        """All applications, or the one with this name."""
        root = self._atspi.get_desktop(0)
        root.clear_cache()
        found, silent = [], []
        for index in range(root.get_child_count()):
            application = root.get_child_at_index(index)
            if application is None:
                continue
            try:
                application.clear_cache()
                application.get_role_name()  # raises where nobody answers; other calls give an empty value, as slowly
                name = (application.get_name() or "").strip()
                wanted = app in (None, name.lower())
                node = self._node(application, 0) if wanted else None
            except self._error():
                name = _process_name(application.get_process_id())  # known to the bus
                if app in (None, name.lower()):
                    silent.append(name)
                continue
            if node is not None:
                found.append(node)
        return {"apps": found, "silent": silent, "truncated": self._left <= 0}

    def _error(self) -> type[BaseException]:
        from gi.repository import GLib

        error: type[BaseException] = GLib.Error
        return error

    def _node(self, accessible: Any, depth: int) -> dict[str, Any] | None:
        if self._left <= 0 or depth > self._max_depth:
            return None
        states = accessible.get_state_set()
        if depth > 1 and not states.contains(self._atspi.StateType.SHOWING):
            return None
        self._left -= 1
        node: dict[str, Any] = {
            "role": accessible.get_role_name(),
            "name": (accessible.get_name() or "").strip(),
            "states": [name for name, state in self._states if states.contains(state)],
        }
        self._extents(accessible, node)
        self._content(accessible, node)
        managed = states.contains(self._atspi.StateType.MANAGES_DESCENDANTS)
        count = min(accessible.get_child_count(), MANAGED_CHILDREN if managed else PLAIN_CHILDREN)
        children = []
        for index in range(count):
            child = accessible.get_child_at_index(index)
            described = None if child is None else self._node(child, depth + 1)
            if described is not None:
                children.append(described)
        node["children"] = children
        return node

    def _extents(self, accessible: Any, node: dict[str, Any]) -> None:
        component = accessible.get_component_iface()
        if component is not None:
            box = component.get_extents(self._atspi.CoordType.SCREEN)
            # A table's rows that are scrolled out of sight have sizes, but this for a place.
            placed = NOWHERE not in (box.x, box.y)
            if placed and box.width > 0 and box.height > 0:
                node["bounds"] = [box.x, box.y, box.width, box.height]

    def _content(self, accessible: Any, node: dict[str, Any]) -> None:
        text = accessible.get_text_iface()
        if text is not None:
            length = text.get_character_count()
            node["text"] = self._atspi.Text.get_text(text, 0, min(length, 20_000))
        value = accessible.get_value_iface()
        if value is not None:
            current = value.get_current_value()
            node["value"] = current if math.isfinite(current) else None


def _process_name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
