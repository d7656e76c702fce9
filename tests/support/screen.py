"""Small builders of what a desktop shows: frames, windows, accessibility nodes, observations."""

from __future__ import annotations

from sandbox.desktop import A11yNode, Observation, Rect, Window
from sandbox.frame import Frame

__all__ = ["make_frame", "make_node", "make_observation", "make_window"]


def make_frame(shade: int = 0, *, width: int = 160, height: int = 120) -> Frame:
    """A frame of one colour; each shade (0..16777215) is another frame."""
    return Frame.from_pixels(width, height, shade.to_bytes(3, "big") * (width * height))


def make_window(
    app: str, title: str = "", *, at: tuple[int, int, int, int] = (10, 10, 100, 80), active: bool = True
) -> Window:
    """A window; `at` is x, y, width, height."""
    x, y, width, height = at
    bounds = Rect(x=x, y=y, width=width, height=height)
    return Window(id=1, title=title, app=app, bounds=bounds, active=active, dialog=False)


def make_node(
    role: str,
    name: str = "",
    *children: A11yNode,
    at: tuple[int, int, int, int] | None = (10, 10, 20, 10),
    states: tuple[str, ...] = ("showing", "visible"),
    text: str | None = None,
    value: float | None = None,
) -> A11yNode:
    """An accessibility node; `at` is x, y, width, height, or None for a node without bounds."""
    bounds = None if at is None else Rect(x=at[0], y=at[1], width=at[2], height=at[3])
    return A11yNode(role=role, name=name, states=states, bounds=bounds, text=text, value=value, children=children)


def make_observation(
    frame: Frame | None = None,
    *,
    version: int = 0,
    windows: tuple[Window, ...] | None = None,
    a11y: tuple[A11yNode, ...] | None = None,
) -> Observation:
    """An observation of the frame (a black one by default)."""
    return Observation(
        version=version,
        frame=frame if frame is not None else make_frame(),
        cursor=(0, 0),
        windows=windows,
        a11y=a11y,
        clock_s=1_700_000_000.0 + version,
    )
