"""Mouse and keys as a page in Chromium is told of them, at every edge of what an action can say."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import pytest

from sandbox.actions import Click, Drag, Move, Point, Press, Scroll
from sandbox.desktop import Desktop
from tests.support.office import Seen

pytestmark = [pytest.mark.desktop, pytest.mark.office]


@pytest.fixture(scope="module")
async def seen(office: Desktop) -> AsyncIterator[Seen]:
    page = Seen(office)
    await page.open()
    yield page
    await office.exec(["pkill", "-KILL", "-f", "chromium"])


def _at(x: int, y: int) -> Point:
    return Point(x=x, y=y)


async def test_a_click_at_the_first_pixel_and_at_the_last(seen: Seen) -> None:
    told = await seen(Click(point=_at(0, 0)), Click(point=_at(1279, 719)))
    assert told["clicks"] == [[0, 0, 1, False, False], [1279, 719, 1, False, False]]


async def test_two_clicks_on_one_point_are_two_and_a_double_click_is_one(seen: Seen) -> None:
    told = await seen(Click(point=_at(300, 300)), Click(point=_at(300, 300)))
    assert [click[2] for click in told["clicks"]] == [1, 1]
    told = await seen(Click(point=_at(500, 300), clicks=2))
    assert [click[2] for click in told["clicks"]] == [1, 2]


async def test_a_drag_passes_through_every_waypoint_in_order(seen: Seen) -> None:
    angles = [2 * math.pi * number / 48 for number in range(48)]
    circle = tuple(_at(round(640 + 200 * math.cos(a)), round(360 + 200 * math.sin(a))) for a in angles)
    told = await seen(Drag(path=circle))
    path = [tuple(point) for point in told["pressed"]]
    places = [path.index((point.x, point.y)) for point in circle[1:]]
    assert places == sorted(places)
    moved = await seen(*(Move(point=point) for point in circle))
    assert moved["pressed"] == []


async def test_the_wheel_scrolls_both_ways_on_both_axes(seen: Seen) -> None:
    where = _at(640, 360)
    down = (await seen(Scroll(point=where, dy=-5)))["scrolled"]
    right = (await seen(Scroll(point=where, dx=5)))["scrolled"]
    up = (await seen(Scroll(point=where, dy=5)))["scrolled"]
    left = (await seen(Scroll(point=where, dx=-5)))["scrolled"]
    assert down[0] == 0
    assert down[1] > 100
    assert right[0] > 100
    assert right[1] == down[1]
    assert up == [right[0], 0]
    assert left == [0, 0]


async def test_modifiers_are_held_for_the_click_only(seen: Seen) -> None:
    told = await seen(Click(point=_at(200, 600), modifiers=("ctrl", "shift")), Click(point=_at(900, 600)))
    assert [click[3:] for click in told["clicks"]] == [[True, True], [False, False]]


async def test_a_chord_is_its_keys_together(seen: Seen) -> None:
    told = await seen(Press(keys=("ctrl", "shift", "y")), Press(keys=("z",)))
    assert told["keys"][-2:] == [["Y", True, True], ["z", False, False]]
    assert [key[0] for key in told["keys"][:-2]] == ["Control", "Shift"]
