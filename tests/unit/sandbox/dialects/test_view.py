"""The spaces in which coordinates are counted: their sizes, their corners and what lies outside."""

from __future__ import annotations

import pytest

from sandbox.actions import Point
from sandbox.dialects import View
from sandbox.dialects.view import (
    CELLS_1000,
    EDGES_1,
    EDGES_1000,
    RESIZED_28,
    RESIZED_28_UITARS,
    RESIZED_32,
    Resized,
    Space,
    smart_resize,
)

FULL_HD = View.unscaled(1920, 1080)


@pytest.mark.parametrize(
    ("size", "space", "resized"),
    [
        ((1920, 1080), RESIZED_28, (1932, 1092)),
        ((1280, 720), RESIZED_28, (1288, 728)),
        ((1366, 768), RESIZED_28, (1372, 756)),
        ((1280, 720), RESIZED_32, (1280, 704)),  # 22.5 patches are rounded to the even number, as the processors do
        ((1920, 1080), RESIZED_32, (1920, 1088)),
        ((800, 600), RESIZED_28, (812, 588)),
        ((14, 14), RESIZED_28, (56, 56)),  # grown to the smallest area
        ((1, 1), RESIZED_28_UITARS, (280, 280)),
        ((200, 200), RESIZED_28_UITARS, (280, 280)),
        ((200, 200), RESIZED_28, (196, 196)),
        ((8000, 6000), RESIZED_28, (4116, 3080)),  # shrunk to the largest area
        ((1000, 4), Resized(factor=28, min_pixels=1, max_pixels=10**9), (1008, 28)),
    ],
)
def test_smart_resize(size: tuple[int, int], space: Resized, resized: tuple[int, int]) -> None:
    assert smart_resize(size, space) == resized
    assert space.min_pixels <= resized[0] * resized[1] <= space.max_pixels


@pytest.mark.parametrize(
    ("space", "at", "pixel"),
    [
        ("screen", (1919, 1079), (1919, 1079)),
        ("shown", (0, 0), (0, 0)),
        (RESIZED_28, (966, 546), (960, 540)),
        (RESIZED_28, (1931, 1091), (1919, 1079)),
        (RESIZED_28, (0, 0), (0, 0)),
        (RESIZED_32, (960, 544), (960, 540)),
        (CELLS_1000, (500, 500), (960, 540)),
        (CELLS_1000, (999, 999), (1919, 1079)),
        (CELLS_1000, (0, 0), (0, 0)),
        (EDGES_1000, (500, 500), (960, 540)),
        (EDGES_1000, (1000, 1000), (1919, 1079)),
        (EDGES_1000, (0, 250.5), (0, 270)),
        (EDGES_1, (0.5, 0.25), (960, 270)),
        (EDGES_1, (1.0, 1), (1919, 1079)),
        (EDGES_1, (0, 0.9999), (0, 1079)),
    ],
)
def test_coordinates_land_where_the_family_means(space: Space, at: tuple[float, float], pixel: tuple[int, int]) -> None:
    assert FULL_HD.point(*at, space=space) == Point(x=pixel[0], y=pixel[1])


@pytest.mark.parametrize(
    ("space", "at", "limit"),
    [
        ("shown", (1920, 0), "x goes from 0 to 1919"),
        (RESIZED_28, (1932, 0), "x goes from 0 to 1931"),
        (RESIZED_32, (0, 1088), "y from 0 to 1087"),
        (CELLS_1000, (1000, 0), "x goes from 0 to 999"),
        (EDGES_1000, (1000.5, 0), "x goes from 0 to 1000"),
        (EDGES_1, (0, 1.01), "y from 0 to 1"),
        (EDGES_1, (-0.01, 0), "x goes from 0 to 1"),
        (EDGES_1000, (float("nan"), 0), "x goes from 0 to 1000"),
    ],
)
def test_what_lies_outside_is_refused(space: Space, at: tuple[float, float], limit: str) -> None:
    with pytest.raises(ValueError, match=limit):
        FULL_HD.point(*at, space=space)


def test_decimal_fractions_are_written_short() -> None:
    assert View.unscaled(100, 100).place(Point(x=49, y=0), space=EDGES_1) == (0.495, 0.005)
    assert View.unscaled(100, 100).place(Point(x=49, y=0), space=EDGES_1000) == (495, 5)


ZOOMED = View(screen=(1920, 1080), shown=(960, 540), zoom=(480, 270, 1440, 810))


def test_a_zoomed_picture_maps_to_its_part_of_the_screen() -> None:
    assert ZOOMED.point(0, 0, space="shown") == Point(x=480, y=270)
    assert ZOOMED.point(959, 539, space="shown") == Point(x=1439, y=809)
    assert ZOOMED.point(500, 500, space=CELLS_1000) == Point(x=960, y=540)
    assert ZOOMED.point(0, 0, space="screen") == Point(x=0, y=0)
    assert ZOOMED.place(Point(x=480, y=270), space="shown") == (0, 0)
    with pytest.raises(ValueError, match="outside the 960x540 part that is shown"):
        ZOOMED.place(Point(x=479, y=270), space="shown")


@pytest.mark.parametrize("zoom", [(0, 0, 0, 10), (-1, 0, 10, 10), (0, 0, 1921, 10), (5, 5, 4, 10), (0, 0, 10, 1081)])
def test_a_zoom_is_a_part_of_the_screen(zoom: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="is not inside the 1920x1080 screen"):
        View(screen=(1920, 1080), shown=(100, 100), zoom=zoom)
