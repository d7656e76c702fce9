"""The screen, read from the X server's memory.

Xvfb keeps its framebuffer in a file (XWD layout) that only its own uid may open; the spawner opens it for reading and
hands the descriptor over. The pointer is part of the picture. A frame read while something draws can be torn: read
after settling.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct

__all__ = ["Capture", "Screen"]

MAGIC = b"FDRGB1"  # the frame header of sandbox.frame, which cannot be imported here


class Capture:
    """One reading of the screen: RGB pixels and their identity."""

    __slots__ = ("pixels", "sha256")

    def __init__(self, pixels: bytes, sha256: str) -> None:
        self.pixels = pixels
        self.sha256 = sha256


class Screen:
    """Maps the framebuffer and reads frames from it.

    Args:
        fd: descriptor of the framebuffer file, open for reading.
        first_version: what `version` counts from.
    """

    def __init__(self, fd: int, *, first_version: int) -> None:
        self._map = mmap.mmap(fd, os.fstat(fd).st_size, prot=mmap.PROT_READ)
        words = struct.unpack(">25I", self._map[:100])
        header_size, self.width, self.height = words[0], words[4], words[5]
        bits_per_pixel, self._stride, num_colors = words[11], words[12], words[19]
        if bits_per_pixel != 32:
            raise ValueError(f"the framebuffer has {bits_per_pixel} bits per pixel; only 32 is known")
        self._start = header_size + num_colors * 12
        self._last_raw = b""
        self._last: Capture | None = None
        self.version = first_version
        """Counts frames that differed from the one before."""

    def capture(self) -> Capture:
        """Read the screen now. An unchanged screen returns the same object and costs one comparison."""
        raw = self._map[self._start : self._start + self._stride * self.height]
        if self._last is not None and raw == self._last_raw:
            return self._last
        self._last_raw = raw
        if self._stride != self.width * 4:
            raw = b"".join(raw[row * self._stride : row * self._stride + self.width * 4] for row in range(self.height))
        pixels = bytearray(self.width * self.height * 3)
        pixels[0::3], pixels[1::3], pixels[2::3] = raw[2::4], raw[1::4], raw[0::4]
        digest = hashlib.sha256(MAGIC + self.width.to_bytes(4, "big") + self.height.to_bytes(4, "big"))
        digest.update(pixels)
        capture = Capture(bytes(pixels), digest.hexdigest())
        if self._last is None or capture.sha256 != self._last.sha256:
            self.version += 1
            self._last = capture
        return self._last
