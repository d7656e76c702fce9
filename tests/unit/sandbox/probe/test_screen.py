"""Reading the screen band by band gives what reading it whole would give, and what is sent makes the same frame."""

from __future__ import annotations

import os
import random
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.answers import read_changes
from sandbox.frame import Frame
from sandbox.probe.screen import BAND_ROWS, Screen

HEADER, COLORS = 160, 4


@dataclass
class Framebuffer:
    """A file as Xvfb writes it."""

    path: Path
    width: int
    height: int
    stride: int

    @classmethod
    def make(cls, path: Path, width: int, height: int, *, padding: int = 0) -> Framebuffer:
        made = cls(path, width, height, width * 4 + padding)
        words = [0] * 25
        words[0], words[4], words[5], words[11], words[12], words[19] = HEADER, width, height, 32, made.stride, COLORS
        path.write_bytes(struct.pack(">25I", *words).ljust(HEADER + COLORS * 12, b"\0") + bytes(made.stride * height))
        return made

    def draw(self, rows: range, rng: random.Random) -> None:
        with self.path.open("r+b") as file:
            file.seek(HEADER + COLORS * 12 + rows.start * self.stride)
            file.write(rng.randbytes(self.stride * len(rows)))

    def frame(self) -> Frame:
        """The whole screen, converted pixel by pixel."""
        data = self.path.read_bytes()[HEADER + COLORS * 12 :]
        pixels = bytearray()
        for row in range(self.height):
            for at in range(row * self.stride, row * self.stride + self.width * 4, 4):
                blue, green, red, _ = data[at : at + 4]
                pixels += bytes((red, green, blue))
        return Frame.from_pixels(self.width, self.height, bytes(pixels))

    def screen(self) -> Screen:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return Screen(descriptor, first_version=7)
        finally:
            os.close(descriptor)


@pytest.fixture
def framebuffer(tmp_path: Path) -> Framebuffer:
    return Framebuffer.make(tmp_path / "screen", 10, 3 * BAND_ROWS + 5)


@settings(max_examples=40, deadline=None)
@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 3 * BAND_ROWS)),
    padding=st.sampled_from((0, 8)),
    draws=st.lists(st.tuples(st.integers(0, 47), st.integers(0, 20)), max_size=6),
    seed=st.integers(0, 1 << 30),
)
def test_a_host_that_lays_changes_over_frames_has_the_screen(
    tmp_path_factory: pytest.TempPathFactory,
    size: tuple[int, int],
    padding: int,
    draws: list[tuple[int, int]],
    seed: int,
) -> None:
    made = Framebuffer.make(tmp_path_factory.mktemp("fb") / "screen", *size, padding=padding)
    screen, rng = made.screen(), random.Random(seed)
    have: dict[str, Frame] = {}
    for top, count in [(0, 0), *draws]:
        made.draw(range(min(top, made.height), min(top + count, made.height)), rng)
        truth, capture = made.frame(), screen.capture()
        assert capture.sha256 == truth.sha256
        changes, body = screen.transfer(capture, have)
        if truth.sha256 not in have:
            if changes is not None:
                body = read_changes(have[str(changes["base"])], changes["rows"], body)  # type: ignore[arg-type]
            assert body == truth.pixels
        have = {truth.sha256: truth} if rng.random() < 0.8 else {}


def test_only_what_differs_is_sent_to_a_host_that_has_the_frame_before(framebuffer: Framebuffer) -> None:
    screen, rng = framebuffer.screen(), random.Random(1)
    first = screen.capture()
    assert screen.transfer(first, ()) == (None, bytes(10 * framebuffer.height * 3))
    framebuffer.draw(range(2, 3), rng)
    framebuffer.draw(range(BAND_ROWS, BAND_ROWS + 1), rng)
    framebuffer.draw(range(framebuffer.height - 1, framebuffer.height), rng)
    second = screen.capture()
    assert second.rows == [(0, 2 * BAND_ROWS), (3 * BAND_ROWS, 5)]
    changes, body = screen.transfer(second, [first.sha256])
    assert changes == {"base": first.sha256, "rows": second.rows}
    assert len(body) == (2 * BAND_ROWS + 5) * 10 * 3
    assert screen.transfer(second, [second.sha256]) == (None, b"")
    assert len(screen.transfer(second, ["another"])[1]) == 10 * framebuffer.height * 3


def test_an_unchanged_screen_is_the_same_capture_and_version(framebuffer: Framebuffer) -> None:
    screen = framebuffer.screen()
    first = screen.capture()
    assert (screen.capture(), screen.version) == (first, 8)
    framebuffer.draw(range(1), random.Random(2))
    assert screen.capture() != first
    assert screen.version == 9
