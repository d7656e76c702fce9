"""A film strip as one picture, for places that show no page."""

from __future__ import annotations

import base64
import io

from evals.film import Film
from evals.learning.canvas import INKS, drawable

__all__ = ["film_picture"]

COLUMNS = 4
MARGIN = 12
CAPTION = 40
"""Pixels below each screenshot: which turn, and its first action."""
MAX_CHARS = 44


def film_picture(film: Film, *, title: str) -> bytes:
    """The strip as PNG: screenshots in rows, each with what was done on it."""
    from PIL import Image, ImageDraw, ImageFont

    if not film.frames:
        raise ValueError(f"the attempt at {film.task_id} has no screenshots to draw")
    columns = min(COLUMNS, len(film.frames))
    rows = -(-len(film.frames) // columns)
    wide = max(frame.width for frame in film.frames)
    high = max(frame.height for frame in film.frames) + CAPTION
    head = 58
    size = (MARGIN + columns * (wide + MARGIN), head + rows * (high + MARGIN))
    picture = Image.new("RGB", size, INKS["card"])
    draw = ImageDraw.Draw(picture)
    large, font = ImageFont.load_default(16), ImageFont.load_default(13)
    draw.text((MARGIN, 10), f"{title}: {film.outcome}, {film.num_turns} turns", fill=INKS["ink"], font=large)
    draw.text((MARGIN, 34), _line(film.instruction, MAX_CHARS * columns), fill=INKS["soft"], font=font)
    for number, frame in enumerate(film.frames):
        x, y = MARGIN + (number % columns) * (wide + MARGIN), head + (number // columns) * (high + MARGIN)
        with Image.open(io.BytesIO(base64.b64decode(frame.image.partition(",")[2]))) as shot:
            picture.paste(shot.convert("RGB"), (x, y))
        draw.rectangle((x - 1, y - 1, x + frame.width, y + frame.height), outline=INKS["line"])
        draw.text((x, y + frame.height + 5), frame.title, fill=INKS["soft"], font=font)
        draw.text((x, y + frame.height + 21), _line(frame.did, MAX_CHARS), fill=INKS["ink"], font=font)
    buffer = io.BytesIO()
    picture.quantize(255).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _line(text: str, most: int) -> str:
    text = drawable(" ".join(text.split()))
    return text if len(text) <= most else text[: most - 3] + "..."
