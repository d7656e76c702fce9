"""What of an observation a policy is shown: the screenshot at its size, and text where the harness asks for it.

Both are pure functions of the observation, so a trainer that reads a trajectory makes the same input again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sandbox.desktop import A11yNode, Observation, Rect, Want
from sandbox.frame import Frame

__all__ = ["MAX_NODES", "observation_text", "shown_frame", "shown_size"]

MAX_NODES = 400
"""Accessibility nodes listed at most; a full office suite has more than a context holds."""
MAX_NODE_TEXT = 200
"""Characters of a node's own text."""


def shown_size(width: int, height: int, max_side: int | None) -> tuple[int, int]:
    """The size at which a screen is shown, pixels: never larger, and no side longer than `max_side`."""
    longest = max(width, height)
    if max_side is None or longest <= max_side:
        return width, height
    return max(1, round(width * max_side / longest)), max(1, round(height * max_side / longest))


def shown_frame(frame: Frame, max_side: int | None) -> Frame:
    """The screenshot at the size at which it is shown."""
    size = shown_size(frame.width, frame.height, max_side)
    if size == (frame.width, frame.height):
        return frame
    from PIL.Image import Resampling

    return Frame.from_pixels(*size, frame.image().resize(size, Resampling.LANCZOS).tobytes())


def observation_text(observation: Observation, kinds: Sequence[Want], shown: tuple[int, int]) -> str:
    """The windows and the accessibility tree as text, as far as asked for and observed; empty otherwise.

    Args:
        shown: size of the screenshot as shown; positions are its pixels.
    """
    assert observation.frame is not None
    scale = shown[0] / observation.frame.width, shown[1] / observation.frame.height
    parts = []
    if "windows" in kinds and observation.windows is not None:
        lines = [
            f"- {window.app} {window.title!r}{' (active)' if window.active else ''}" for window in observation.windows
        ]
        parts.append("\n".join(["Windows:", *lines]))
    if "a11y" in kinds and observation.a11y is not None:
        lines = []
        for root in observation.a11y:
            lines += [line for node in walk(root) if (line := _node_line(node, scale))]
        if len(lines) > MAX_NODES:
            lines = [*lines[:MAX_NODES], f"({len(lines) - MAX_NODES} more)"]
        header = f"Accessibility (role, name, center in pixels of the {shown[0]}x{shown[1]} screenshot):"
        parts.append("\n".join([header, *lines]))
    return "\n".join(parts)


def walk(node: A11yNode) -> Iterator[A11yNode]:
    """A node and all below it, in document order."""
    yield node
    for child in node.children:
        yield from walk(child)


def is_showing(node: A11yNode) -> bool:
    """Whether the node says that it is on the screen and has a place there."""
    return "showing" in node.states and node.bounds is not None and min(node.bounds.width, node.bounds.height) > 0


def _node_line(node: A11yNode, scale: tuple[float, float]) -> str:
    if not is_showing(node) or not (node.name.strip() or node.text):
        return ""
    assert node.bounds is not None
    x, y = _center(node.bounds, scale)
    text = f" text {node.text[:MAX_NODE_TEXT]!r}" if node.text else ""
    return f"- {node.role} {node.name.strip()!r} ({x}, {y}){text}"


def _center(bounds: Rect, scale: tuple[float, float]) -> tuple[int, int]:
    x, y = bounds.center
    return int(x * scale[0]), int(y * scale[1])
