"""Screenshots with the actions drawn on them, for a person who wants to see what an agent did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox.actions import Action, Drag, Point, Scroll
from sandbox.dialects import View, get_dialect
from sandbox.difference import difference_mask
from sandbox.frame import Frame

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

__all__ = ["draw_actions", "draw_difference"]

INK = (220, 30, 60)
PAPER = (255, 255, 255)
RADIUS = 12
MARGIN = 6
MAX_CAPTION = 160
"""Characters of a caption's line; a long typed text is cut."""


def draw_actions(frame: Frame, actions: Sequence[Action], *, title: str = "") -> Image:
    """The screenshot with a mark where each action points, and below it a caption that names them.

    Args:
        title: first line of the caption.
    """
    from PIL import Image, ImageDraw

    view = View.unscaled(frame.width, frame.height)
    lines = [title] if title else []
    lines += [_caption(number, action, view) for number, action in enumerate(actions, start=1)]
    line_height = 16
    height = frame.height + (MARGIN * 2 + line_height * len(lines) if lines else 0)
    picture = Image.new("RGB", (frame.width, height), PAPER)
    picture.paste(frame.image(), (0, 0))
    draw = ImageDraw.Draw(picture)
    for number, action in enumerate(actions, start=1):
        _mark(draw, number, action)
    for row, line in enumerate(lines):
        draw.text((MARGIN, frame.height + MARGIN + row * line_height), line, fill=(0, 0, 0), font_size=12)
    return picture


def draw_difference(before: Frame, after: Frame) -> Image:
    """The later screenshot in pale grey, what differs from the earlier one in red, and a frame around all of it."""
    from PIL import ImageDraw

    mask = difference_mask(before, after)
    picture = after.image().convert("L").point(lambda value: 160 + value * 95 // 255).convert("RGB")
    picture.paste(INK, (0, 0), mask)
    if (bounds := mask.getbbox()) is not None:
        left, top, right, bottom = bounds
        box = (left - MARGIN, top - MARGIN, right + MARGIN - 1, bottom + MARGIN - 1)
        ImageDraw.Draw(picture).rectangle(box, outline=INK)
    return picture


def _caption(number: int, action: Action, view: View) -> str:
    try:
        text = get_dialect("compact").render(action, view)
    except ValueError:  # a point outside the screen; the desktop refused it, and the caption says where it was
        text = action.model_dump_json(exclude_defaults=True)
    text = f"{number}. {text}"
    return text if len(text) <= MAX_CAPTION else text[: MAX_CAPTION - 1] + "…"


def _mark(draw: ImageDraw, number: int, action: Action) -> None:
    points: Sequence[Point] = action.path if isinstance(action, Drag) else ()
    if (point := getattr(action, "point", None)) is not None:
        points = (point,)
    if not points:
        return
    if len(points) > 1:
        draw.line([(point.x, point.y) for point in points], fill=INK, width=3)
    if isinstance(action, Scroll):
        end = (points[0].x + 8 * action.dx, points[0].y - 8 * action.dy)
        draw.line([(points[0].x, points[0].y), end], fill=INK, width=3)
    last = points[-1]
    draw.ellipse((last.x - RADIUS, last.y - RADIUS, last.x + RADIUS, last.y + RADIUS), outline=INK, width=3)
    draw.line((last.x - 4, last.y, last.x + 4, last.y), fill=INK)
    draw.line((last.x, last.y - 4, last.x, last.y + 4), fill=INK)
    draw.text((last.x + RADIUS + 3, last.y - RADIUS), str(number), fill=INK, font_size=14)
