"""Finding a script's targets in what a desktop shows, and saying what is there instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.policies.script import ClickOn, ClickWindow, WaitActive, WaitWindow
from agent.shown import is_showing, walk
from sandbox.actions import Point
from sandbox.desktop import A11yNode, Window

__all__ = ["describe_target", "describe_tree", "describe_windows", "find_node", "find_window", "window_point"]

MAX_LISTED = 20


def find_node(step: ClickOn, roots: Sequence[A11yNode]) -> A11yNode | None:
    """The nth showing node with the step's role and name; None when there is none."""
    matches = [node for root in roots if _same(root.name, step.app) for node in _matches(step, root, step.within)]
    return matches[step.nth] if step.nth < len(matches) else None


def find_window(step: ClickWindow | WaitWindow | WaitActive, windows: Sequence[Window]) -> Window | None:
    """The active window of the step's app and title, or else the first that will do; None when there is none."""
    matches = [window for window in windows if window.app == step.app and step.title_contains in window.title]
    if isinstance(step, WaitActive):
        matches = [window for window in matches if window.active]
    return next((window for window in matches if window.active), matches[0] if matches else None)


def window_point(step: ClickWindow, window: Window, screen: tuple[int, int]) -> Point:
    """The pixel at the step's fractions of the window, kept on the screen."""
    bounds = window.bounds
    x = bounds.x + int(step.x * bounds.width)
    y = bounds.y + int(step.y * bounds.height)
    return Point(x=min(max(x, 0), screen[0] - 1), y=min(max(y, 0), screen[1] - 1))


def describe_target(step: ClickOn | ClickWindow | WaitWindow | WaitActive) -> str:
    """The target in words."""
    if isinstance(step, ClickOn):
        number = f" number {step.nth + 1}" if step.nth else ""
        inside = f" inside {step.within!r}" if step.within is not None else ""
        return f"{step.role} {step.name!r}{number}{inside} showing in application {step.app!r}"
    title = f" with {step.title_contains!r} in its title" if step.title_contains else ""
    return f"{'active ' if isinstance(step, WaitActive) else ''}window of {step.app!r}{title}"


def describe_tree(step: ClickOn, roots: Sequence[A11yNode]) -> str:
    """What is there instead of a node: the nearest kind of thing that exists."""
    nodes = [node for root in roots if _same(root.name, step.app) for node in walk(root)]
    if not nodes:
        return _listed("the applications are", [repr(root.name) for root in roots])
    named = [node for node in nodes if _same(node.role, step.role) and _same(node.name, step.name)]
    if named:
        showing = sum(is_showing(node) for node in named)
        return f"{len(named)} of that role and name are in the application, {showing} of them showing"
    same_role = [repr(node.name.strip()) for node in nodes if _same(node.role, step.role) and is_showing(node)]
    if same_role:
        return _listed(f"showing with role {step.role!r} are", same_role)
    same_name = [node.role for node in nodes if _same(node.name, step.name)]
    if same_name:
        return _listed("with that name are of role", same_name)
    return _listed("roles that show are", sorted({node.role for node in nodes if is_showing(node)}))


def describe_windows(windows: Sequence[Window]) -> str:
    """What is there instead of a window."""
    shown = [f"{window.app} {window.title!r}{' (active)' if window.active else ''}" for window in windows]
    return _listed("the windows are", shown)


def _matches(step: ClickOn, node: A11yNode, within: str | None) -> Iterator[A11yNode]:
    if within is None and _same(node.role, step.role) and _same(node.name, step.name) and is_showing(node):
        yield node
    if within is not None and _same(node.name, within):
        within = None
    for child in node.children:
        yield from _matches(step, child, within)


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def _listed(what: str, names: Sequence[str]) -> str:
    if not names:
        return f"{what} none"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{what} {', '.join(names[:MAX_LISTED])}{more}"
