"""What of the screen a model is shown, and the spaces in which model families count coordinates.

::

    coordinate --View.point(space)--> pixel of the screen --View.place(space)--> coordinate

Guarantees, for every space: from the coarser grid to the finer and back is the identity, and the other way round a
point moves by at most half a pixel of the coarser grid (plus half a pixel of the finer, which is its own rounding). A
coordinate outside its space is an error, never moved to the edge: a silent correction would teach the policy that it
was right. The one declared exception is the far end of a space that counts edges (`Edges`): 1000 of 0-1000, and 1.0 of
0-1, is the last pixel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sandbox.actions import Point

__all__ = [
    "CELLS_1000",
    "EDGES_1",
    "EDGES_1000",
    "RESIZED_28",
    "RESIZED_28_UITARS",
    "RESIZED_32",
    "Cells",
    "Edges",
    "Resized",
    "Size",
    "Space",
    "View",
    "smart_resize",
]

Size = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resized:
    """Pixels of the picture after a vision encoder's own resizing: both sides multiples of `factor`."""

    factor: int
    """Side of an encoder's patch group, pixels."""
    min_pixels: int
    max_pixels: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """A grid of `count` by `count` cells over the picture, numbered from 0 to `count - 1`."""

    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Edges:
    """Fractions of the picture's sides from 0 to `last`, both included; `last` is the last pixel."""

    last: int
    digits: int
    """Decimal places that are written."""


Space = Literal["screen", "shown"] | Resized | Cells | Edges
"""Whose units a coordinate counts: the screen's pixels, those of the picture shown, or a model family's own."""

RESIZED_28 = Resized(factor=28, min_pixels=4 * 28 * 28, max_pixels=16384 * 28 * 28)
"""Qwen2.5-VL: absolute pixels of the resized picture."""
RESIZED_28_UITARS = Resized(factor=28, min_pixels=100 * 28 * 28, max_pixels=16384 * 28 * 28)
"""UI-TARS 1.5: the same with a larger smallest picture."""
RESIZED_32 = Resized(factor=32, min_pixels=4 * 32 * 32, max_pixels=16384 * 32 * 32)
"""Qwen3-VL, where it is asked for absolute pixels."""
CELLS_1000 = Cells(count=1000)
"""Qwen3-VL: 0-999."""
EDGES_1000 = Edges(last=1000, digits=0)
"""UI-TARS 1: 0-1000."""
EDGES_1 = Edges(last=1, digits=6)
"""Fractions from 0 to 1."""


def smart_resize(size: Size, space: Resized) -> Size:
    """The size to which Qwen's image processors resize a picture.

    Each side becomes the nearest multiple of the factor; if the area is then out of bounds, both sides are scaled to
    the bound first and rounded into it.

    Args:
        size: width and height, pixels.
    """
    width, height = size
    factor = space.factor
    new_width, new_height = (max(factor, round(side / factor) * factor) for side in (width, height))
    if new_width * new_height > space.max_pixels:
        shrink = math.sqrt(width * height / space.max_pixels)
        new_width, new_height = (max(factor, math.floor(side / shrink / factor) * factor) for side in (width, height))
    elif new_width * new_height < space.min_pixels:
        grow = math.sqrt(space.min_pixels / (width * height))
        new_width, new_height = (math.ceil(side * grow / factor) * factor for side in (width, height))
    return new_width, new_height


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """How the model sees the screen.

    A coordinate counts from the top left, and a fraction lies inside its pixel (12.7 is pixel 12). A pixel maps to the
    pixel of the other grid that contains its centre.
    """

    screen: Size
    """Width and height of the desktop's screen, pixels."""
    shown: Size
    """Width and height of the picture that the model sees, pixels."""
    zoom: tuple[int, int, int, int] | None = None
    """Left, top, right and bottom (the last two not included) of the part of the screen that the picture shows."""

    def __post_init__(self) -> None:
        if min(*self.screen, *self.shown) < 1:
            raise ValueError(f"a view needs sizes of at least one pixel, got {self.screen} and {self.shown}")
        if self.zoom is not None:
            left, top, right, bottom = self.zoom
            if not (0 <= left < right <= self.screen[0] and 0 <= top < bottom <= self.screen[1]):
                raise ValueError(f"the part {self.zoom} is not inside the {self.screen[0]}x{self.screen[1]} screen")

    @classmethod
    def unscaled(cls, width: int, height: int) -> View:
        """The model sees every pixel of the screen."""
        return cls(screen=(width, height), shown=(width, height))

    def size(self, space: Space) -> Size:
        """Width and height of a space, in its units."""
        match space:
            case "screen":
                return self.screen
            case "shown":
                return self.shown
            case Resized():
                return smart_resize(self.shown, space)
            case Cells(count=count):
                return count, count
            case Edges(last=last):
                return last, last

    def point(self, x: float, y: float, *, space: Space) -> Point:
        """The screen's pixel for a coordinate.

        Raises:
            ValueError: the coordinate lies outside its space; the message names the limits.
        """
        width, height = self.size(space)
        over = 0 if isinstance(space, Edges) else 1
        if not (_within(x, width, over) and _within(y, height, over)):
            raise ValueError(
                f"the point ({_number(x)}, {_number(y)}) is outside the screen; "
                f"x goes from 0 to {width - over} and y from 0 to {height - over}"
            )
        left, top, right, bottom = self._part(space)
        sides = (right - left, bottom - top)
        if isinstance(space, Edges):
            at_x, at_y = (
                min(math.floor(at * side / space.last), side - 1) for at, side in zip((x, y), sides, strict=True)
            )
        else:
            at_x, at_y = _map((math.floor(x), math.floor(y)), (width, height), sides)
        return Point(x=left + at_x, y=top + at_y)

    def place(self, point: Point, *, space: Space) -> tuple[float, float]:
        """Where a pixel of the screen lies in a space; the inverse of `point` up to the coarser grid.

        Returns whole numbers but for a space that counts in decimal places.

        Raises:
            ValueError: the point lies outside the screen, or outside the part of it that is shown.
        """
        left, top, right, bottom = self._part(space)
        if not (left <= point.x < right and top <= point.y < bottom):
            part = "part that is shown" if self.zoom is not None else "screen"
            raise ValueError(f"the point ({point.x}, {point.y}) is outside the {right - left}x{bottom - top} {part}")
        pixel, sides = (point.x - left, point.y - top), (right - left, bottom - top)
        if isinstance(space, Edges):
            x, y = (_edge(at, side, space) for at, side in zip(pixel, sides, strict=True))
            return x, y
        return _map(pixel, sides, self.size(space))

    def _part(self, space: Space) -> tuple[int, int, int, int]:
        return (0, 0, *self.screen) if self.zoom is None or space == "screen" else self.zoom


def _within(at: float, limit: int, over: int) -> bool:
    return 0 <= at < limit if over else 0 <= at <= limit


def _map(pixel: Size, source: Size, target: Size) -> Size:
    x, y = ((2 * at + 1) * to // (2 * of) for at, of, to in zip(pixel, source, target, strict=True))
    return x, y


def _edge(at: int, side: int, space: Edges) -> float:
    """The written fraction nearest to a pixel's centre; of two, the lower, which is inside of the pixel."""
    steps: int = 10**space.digits
    nearest = -((side - (2 * at + 1) * space.last * steps) // (2 * side))
    return nearest / steps if space.digits else nearest


def _number(value: float) -> str:
    return f"{value:.10g}"
