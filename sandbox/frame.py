"""A screenshot: RGB pixels whose identity is their hash.

The hash covers width, height and pixels, so two equal screens are one frame wherever they were seen, and a stored frame
can be checked. `encode` / `decode` give the canonical plain bytes (a short header, then the pixels) that the blob store
keeps; the sha256 of those bytes *is* `Frame.sha256`.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Frame", "frame_header"]

MAGIC = b"FDRGB1"


def frame_header(width: int, height: int) -> bytes:
    """The bytes before the pixels in a frame's canonical form."""
    return MAGIC + width.to_bytes(4, "big") + height.to_bytes(4, "big")


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """One screenshot."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    sha256: str
    """Hash of the canonical bytes; the frame's identity."""
    pixels: bytes
    """[height * width * 3] RGB, rows from the top."""

    @classmethod
    def from_pixels(cls, width: int, height: int, pixels: bytes) -> Frame:
        """Build a frame and its hash.

        Raises:
            ValueError: the number of bytes does not fit the size.
        """
        if len(pixels) != width * height * 3:
            raise ValueError(f"{width}x{height} needs {width * height * 3} bytes of RGB, got {len(pixels)}")
        digest = hashlib.sha256(frame_header(width, height))
        digest.update(pixels)
        return cls(width=width, height=height, sha256=digest.hexdigest(), pixels=pixels)

    def encode(self) -> bytes:
        """The canonical bytes, for a content-addressed store."""
        return frame_header(self.width, self.height) + self.pixels

    @classmethod
    def decode(cls, data: bytes) -> Frame:
        """The inverse of `encode`.

        Raises:
            ValueError: these are not a frame's bytes.
        """
        if data[: len(MAGIC)] != MAGIC or len(data) < len(MAGIC) + 8:
            raise ValueError("not a frame")
        at = len(MAGIC)
        width, height = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
        return cls.from_pixels(width, height, data[at + 8 :])

    def image(self) -> Image:
        """The frame as a Pillow image (RGB)."""
        from PIL import Image

        return Image.frombytes("RGB", (self.width, self.height), self.pixels)

    def png(self) -> bytes:
        """The frame as a PNG file, for people and hosted models."""
        buffer = io.BytesIO()
        self.image().save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()
