"""Where two screenshots differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.desktop import Rect
from sandbox.difference import frame_difference
from sandbox.frame import Frame
from tests.support.screen import make_frame

BASE = make_frame(0x808080, width=12, height=9)


@given(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 8), st.integers(0, 2)), min_size=1))
def test_every_pixel_that_differs_in_any_colour_is_counted_once(places: set[tuple[int, int, int]]) -> None:
    pixels = bytearray(BASE.pixels)
    for x, y, channel in places:
        pixels[(y * 12 + x) * 3 + channel] += 1
    found = frame_difference(BASE, Frame.from_pixels(12, 9, bytes(pixels)))
    assert found is not None
    xs, ys = [x for x, _, _ in places], [y for _, y, _ in places]
    assert found.pixels == len({(x, y) for x, y, _ in places})
    assert found.box == Rect(x=min(xs), y=min(ys), width=max(xs) - min(xs) + 1, height=max(ys) - min(ys) + 1)


def test_equal_screens_do_not_differ_and_other_sizes_cannot_be_compared() -> None:
    assert frame_difference(BASE, make_frame(0x808080, width=12, height=9)) is None
    with pytest.raises(ValueError, match="12x9 and 13x9"):
        frame_difference(BASE, make_frame(width=13, height=9))
