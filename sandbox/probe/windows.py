"""Top-level windows and the state of the window manager, read from X properties."""

from __future__ import annotations

from typing import Any

from Xlib import X, error

__all__ = ["WindowReader"]

MAX_PROPERTY_WORDS = 256
"""Of four bytes: the longest title that is read, and as many windows."""


class WindowReader:
    """Reads what the window manager publishes.

    Args:
        connection: a python-xlib Display.
    """

    def __init__(self, connection: Any) -> None:
        self._display = connection
        self._root = connection.screen().root
        self._atoms: dict[str, int] = {}

    def _atom(self, name: str) -> int:
        if name not in self._atoms:
            self._atoms[name] = self._display.intern_atom(name)
        return self._atoms[name]

    def _property(self, window: Any, name: str) -> Any:
        """A property's value, cut off: any program can make one of any length."""
        reply = window.get_property(self._atom(name), X.AnyPropertyType, 0, MAX_PROPERTY_WORDS)
        return None if reply is None else reply.value

    def manager_ready(self) -> bool:
        """Whether a window manager runs and has mapped something of its own (its task bar)."""
        try:
            check = self._property(self._root, "_NET_SUPPORTING_WM_CHECK")
            if not check:
                return False
            owner = self._display.create_resource_object("window", int(check[0]))
            if self._property(owner, "_NET_SUPPORTING_WM_CHECK") is None:
                return False
            children = self._root.query_tree().children
            return any(child.get_attributes().map_state == X.IsViewable for child in children)
        except (error.BadWindow, error.BadDrawable):
            return False

    def list(self) -> list[dict[str, Any]]:
        """The managed windows, bottom of the stack first, as JSON."""
        ids = self._property(self._root, "_NET_CLIENT_LIST_STACKING") or self._property(self._root, "_NET_CLIENT_LIST")
        active = self._property(self._root, "_NET_ACTIVE_WINDOW")
        active_id = int(active[0]) if active else 0
        found = []
        for window_id in ids or ():
            window = self._display.create_resource_object("window", int(window_id))
            try:
                found.append(self._describe(window, int(window_id), active_id))
            except (error.BadWindow, error.BadDrawable, error.BadMatch):
                continue  # closed while we looked
        return found

    def _describe(self, window: Any, window_id: int, active_id: int) -> dict[str, Any]:
        geometry = window.get_geometry()
        origin = self._root.translate_coords(window, 0, 0)
        title = self._property(window, "_NET_WM_NAME")
        if title is None:
            title = self._property(window, "WM_NAME") or b""
        wm_class = self._property(window, "WM_CLASS")
        names = wm_class.split(b"\0") if isinstance(wm_class, bytes) else []
        kinds = self._property(window, "_NET_WM_WINDOW_TYPE")
        kind_list = [] if kinds is None else list(kinds)
        return {
            "id": window_id,
            "title": title.decode("utf-8", "replace") if isinstance(title, bytes) else str(title),
            "app": names[1].decode("latin-1").lower() if len(names) > 1 else "",
            "bounds": [int(origin.x), int(origin.y), int(geometry.width), int(geometry.height)],
            "active": window_id == active_id,
            "dialog": self._atom("_NET_WM_WINDOW_TYPE_DIALOG") in kind_list
            or self._property(window, "WM_TRANSIENT_FOR") is not None,
        }
