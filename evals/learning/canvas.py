"""A small drawing that becomes SVG for a page, light and dark, and PNG for everything else.

Inks are names: in SVG they are the page's colours (`evals/style.css`), in PNG those of its light half.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

__all__ = ["INKS", "Canvas", "drawable"]

INKS = {
    "card": (255, 255, 255),
    "ink": (29, 34, 38),
    "soft": (98, 107, 115),
    "line": (227, 229, 232),
    "track": (236, 238, 240),
    "pass": (42, 138, 87),
    "fail": (200, 69, 59),
    "infra": (154, 161, 169),
    "accent": (53, 101, 201),
    "violet": (138, 123, 209),
    "teal": (31, 154, 154),
    "amber": (201, 138, 43),
}
Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]
SCALE = 2
"""Pixels of a PNG for each unit of the drawing."""
OVERSAMPLING = 2
"""PNGs are drawn so many times larger and reduced, since Pillow's shapes have hard edges."""


_PLAIN_SIGNS = str.maketrans({"–": "-", "−": "-", "…": "...", "→": ">", "“": '"', "”": '"', "’": "'"})


def drawable(text: str) -> str:
    """Text in the letters that Pillow's own font has; others become question marks."""
    return text.translate(_PLAIN_SIGNS).encode("latin-1", "replace").decode("latin-1")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shape:
    kind: Literal["line", "area", "dot", "text"]
    points: tuple[Point, ...]
    ink: str
    size: float
    """Width of a line, radius of a dot, height of a text."""
    opacity: float = 1.0
    hollow: bool = False
    dashed: bool = False
    bold: bool = False
    anchor: Anchor = "start"
    text: str = ""
    """What it says; of a dot, what it says when pointed at."""


@dataclass(kw_only=True)
class Canvas:
    """A drawing of this size; y grows downwards."""

    width: float
    height: float
    _shapes: list[_Shape] = field(default_factory=list)

    def line(self, points: Sequence[Point], ink: str, *, width: float = 1.0, dashed: bool = False) -> None:
        """A line through points."""
        self._shapes.append(_Shape(kind="line", points=tuple(points), ink=ink, size=width, dashed=dashed))

    def area(self, points: Sequence[Point], ink: str, *, opacity: float = 1.0) -> None:
        """A filled polygon."""
        self._shapes.append(_Shape(kind="area", points=tuple(points), ink=ink, size=0, opacity=opacity))

    def bar(self, x: float, y: float, width: float, height: float, ink: str, *, opacity: float = 1.0) -> None:
        """A filled rectangle."""
        self.area([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], ink, opacity=opacity)

    def dot(
        self,
        x: float,
        y: float,
        radius: float,
        ink: str,
        *,
        hollow: bool = False,
        opacity: float = 1.0,
        title: str = "",
    ) -> None:
        """A disc, or a ring with the card's colour inside."""
        self._shapes.append(
            _Shape(kind="dot", points=((x, y),), ink=ink, size=radius, hollow=hollow, opacity=opacity, text=title)
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        ink: str = "ink",
        size: float = 12.0,
        anchor: Anchor = "start",
        bold: bool = False,
    ) -> None:
        """A line of text; y is its middle."""
        self._shapes.append(
            _Shape(kind="text", points=((x, y),), ink=ink, size=size, anchor=anchor, bold=bold, text=text)
        )

    def svg(self, label: str) -> str:
        """An inline SVG element.

        Args:
            label: what it shows, for those who cannot see it.
        """
        body = "".join(map(_svg, self._shapes))
        box = f"0 0 {_num(self.width)} {_num(self.height)}"
        return f'<svg viewBox="{box}" role="img" aria-label="{escape(label)}">{body}</svg>'

    def png(self) -> bytes:
        """The drawing on white."""
        from PIL import Image, ImageDraw

        zoom = SCALE * OVERSAMPLING
        large = Image.new("RGB", (round(self.width * zoom), round(self.height * zoom)), INKS["card"])
        draw = ImageDraw.Draw(large)
        for shape in self._shapes:
            _paint(draw, shape, zoom)
        size = (round(self.width * SCALE), round(self.height * SCALE))
        buffer = io.BytesIO()
        large.resize(size, Image.Resampling.LANCZOS).quantize(256, method=Image.Quantize.MAXCOVERAGE).save(
            buffer, "PNG", optimize=True
        )
        return buffer.getvalue()


def _svg(shape: _Shape) -> str:
    colour = f"var(--{shape.ink})"
    (x, y) = shape.points[0]
    see = f";opacity:{_num(shape.opacity)}" if shape.opacity < 1 else ""
    if shape.kind == "text":
        weight = ";font-weight:650" if shape.bold else ""
        style = f"fill:{colour};font-size:{_num(shape.size)}px;text-anchor:{shape.anchor}{weight}"
        return f'<text x="{_num(x)}" y="{_num(y + 0.35 * shape.size)}" style="{style}">{escape(shape.text)}</text>'
    if shape.kind == "dot":
        inside = f"fill:var(--card);stroke:{colour};stroke-width:2" if shape.hollow else f"fill:{colour}"
        title = f"<title>{escape(shape.text)}</title>" if shape.text else ""
        place = f'cx="{_num(x)}" cy="{_num(y)}" r="{_num(shape.size)}"'
        return f'<circle {place} style="{inside}{see}">{title}</circle>'
    points = " ".join(f"{_num(x)},{_num(y)}" for x, y in shape.points)
    if shape.kind == "area":
        return f'<polygon points="{points}" style="fill:{colour}{see}"/>'
    dash = ";stroke-dasharray:4 4" if shape.dashed else ""
    style = f"fill:none;stroke:{colour};stroke-width:{_num(shape.size)}{dash}"
    return f'<polyline points="{points}" style="{style}"/>'


def _paint(draw: ImageDraw, shape: _Shape, zoom: int) -> None:
    points = [(x * zoom, y * zoom) for x, y in shape.points]
    size = shape.size * zoom
    # Nothing is drawn over what is see-through but the grid, so mixing with white is what the page shows.
    ink = tuple(round(255 + (value - 255) * shape.opacity) for value in INKS[shape.ink])
    if shape.kind == "text":
        from PIL import ImageFont

        at = {"start": "lm", "middle": "mm", "end": "rm"}[shape.anchor]
        font = ImageFont.load_default(size)
        draw.text(
            points[0], drawable(shape.text), fill=ink, font=font, anchor=at, stroke_width=zoom / 5 if shape.bold else 0
        )
    elif shape.kind == "dot":
        draw.circle(points[0], size, fill=ink)
        if shape.hollow:
            draw.circle(points[0], max(0, size - 2 * zoom), fill=INKS["card"])
    elif shape.kind == "area":
        draw.polygon(points, fill=ink)
    elif shape.dashed:
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            pieces = max(1, round(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 / (4 * zoom)))
            steps = [(x0 + (x1 - x0) * k / pieces, y0 + (y1 - y0) * k / pieces) for k in range(pieces + 1)]
            for k in range(0, pieces, 2):
                draw.line([steps[k], steps[k + 1]], fill=ink, width=max(1, round(size)))
    else:
        draw.line(points, fill=ink, width=max(1, round(size)), joint="curve")


def _num(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
