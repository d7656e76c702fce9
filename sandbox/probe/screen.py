"""The screen, read from the X server's memory.

Xvfb keeps its framebuffer in a file (XWD layout) that only its own uid may open; the spawner opens it for reading and
hands the descriptor over. The pointer is part of the picture. A frame read while something draws can be torn: read
after settling.

Most steps change a few lines of text. So the screen is kept in bands of rows: only bands that differ from the reading
before are converted, hashing starts at the first of them, and they are all that is sent to a host that has the frame
before.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Container

__all__ = ["BAND_ROWS", "Capture", "Screen"]

MAGIC = b"FDRGB1"  # the frame header of sandbox.frame, which cannot be imported here
BAND_ROWS = 16


class Capture:
    """One reading of the screen: its identity, and where it differs from the reading before."""

    __slots__ = ("base", "rows", "sha256")

    def __init__(self, sha256: str, base: str | None, rows: list[tuple[int, int]]) -> None:
        self.sha256 = sha256
        self.base = base
        """The reading before; None for the first."""
        self.rows = rows
        """First row and number of rows of each stretch that differs, from the top."""


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
        self._tops = range(0, self.height, BAND_ROWS)
        self._raw = [b""] * len(self._tops)
        self._pixels = bytearray(self.width * self.height * 3)
        header = MAGIC + self.width.to_bytes(4, "big") + self.height.to_bytes(4, "big")
        self._digests = [hashlib.sha256(header)] * (len(self._tops) + 1)  # [i]: of everything above band i
        self._last: Capture | None = None
        self.version = first_version
        """Counts frames that differed from the one before."""

    def capture(self) -> Capture:
        """Read the screen now. An unchanged screen returns the same object."""
        changed = [band for band in range(len(self._tops)) if self._read(band)]
        if not changed and self._last is not None:
            return self._last
        self._hash(changed[0])
        sha256 = self._digests[-1].hexdigest()
        if self._last is None or sha256 != self._last.sha256:
            self.version += 1
            base = None if self._last is None else self._last.sha256
            self._last = Capture(sha256, base, self._stretches(changed))
        return self._last

    def transfer(self, capture: Capture, have: Container[str]) -> tuple[dict[str, object] | None, bytes]:
        """What to send of the newest capture to a host that has some frames.

        Returns:
            What the bytes are laid over (`base`: a frame, `rows`: stretches as in `Capture`), None for a whole frame;
            and the bytes, none if the host has the frame itself.
        """
        assert capture is self._last, "the pixels of older captures are not kept"
        if capture.sha256 in have:
            return None, b""
        if capture.base not in have:
            return None, bytes(self._pixels)
        row, pixels = self.width * 3, memoryview(self._pixels)
        parts = [pixels[top * row : (top + count) * row] for top, count in capture.rows]
        return {"base": capture.base, "rows": capture.rows}, b"".join(parts)

    def _read(self, band: int) -> bool:
        """Read a band; False if it is as it was."""
        top, bottom = self._tops[band], min(self._tops[band] + BAND_ROWS, self.height)
        raw = self._map[self._start + top * self._stride : self._start + bottom * self._stride]
        if raw == self._raw[band]:
            return False
        self._raw[band] = raw
        if self._stride != self.width * 4:
            rows = range(0, len(raw), self._stride)
            raw = b"".join(raw[at : at + self.width * 4] for at in rows)
        start, end = top * self.width * 3, bottom * self.width * 3
        for channel in range(3):
            self._pixels[start + channel : end : 3] = raw[2 - channel :: 4]
        return True

    def _hash(self, first: int) -> None:
        """Hash from a band on."""
        pixels, size = memoryview(self._pixels), BAND_ROWS * self.width * 3
        for band in range(first, len(self._tops)):
            digest = self._digests[band].copy()
            digest.update(pixels[band * size : (band + 1) * size])
            self._digests[band + 1] = digest

    def _stretches(self, bands: list[int]) -> list[tuple[int, int]]:
        """Rows of these bands; neighbours together."""
        found: list[tuple[int, int]] = []
        for band in bands:
            top, bottom = self._tops[band], min(self._tops[band] + BAND_ROWS, self.height)
            if found and sum(found[-1]) == top:
                found[-1] = found[-1][0], bottom - found[-1][0]
            else:
                found.append((top, bottom - top))
        return found
