"""Where two screenshots differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.desktop import Rect
from sandbox.frame import Frame

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FrameDifference", "difference_mask", "frame_difference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameDifference:
    """How much two screenshots differ, and where."""

    pixels: int
    """Pixels whose colour differs."""
    box: Rect
    """The smallest rectangle around them."""


def difference_mask(first: Frame, second: Frame) -> Image:
    """White where two screenshots of one size differ, black elsewhere (mode L).

    Raises:
        ValueError: their sizes differ.
    """
    from PIL import ImageChops

    if (first.width, first.height) != (second.width, second.height):
        sizes = f"{first.width}x{first.height} and {second.width}x{second.height}"
        raise ValueError(f"screenshots of different sizes ({sizes}) cannot be compared")
    red, green, blue = ImageChops.difference(first.image(), second.image()).split()
    return ImageChops.lighter(ImageChops.lighter(red, green), blue).point(lambda value: 255 if value else 0)


def frame_difference(first: Frame, second: Frame) -> FrameDifference | None:
    """Compare two screenshots of one size; None if they are equal.

    Raises:
        ValueError: their sizes differ.
    """
    mask = difference_mask(first, second)
    bounds = mask.getbbox()
    if bounds is None:
        return None
    left, top, right, bottom = bounds
    return FrameDifference(
        pixels=mask.histogram()[255], box=Rect(x=left, y=top, width=right - left, height=bottom - top)
    )
