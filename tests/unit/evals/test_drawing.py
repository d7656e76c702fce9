from __future__ import annotations

from evals.drawing import INK, draw_actions, draw_difference
from sandbox.actions import Click, Done, Drag, Point, Scroll, TypeText
from sandbox.frame import Frame
from tests.support.screen import make_frame

FRAME = make_frame(0xFFFFFF, width=200, height=100)


def inked(picture: object, box: tuple[int, int, int, int]) -> bool:
    """Whether anything is drawn in a region."""
    colours = picture.crop(box).getcolors(100_000)  # type: ignore[attr-defined]
    return INK in {colour for _, colour in colours}


def test_a_click_is_marked_where_it_is_and_nowhere_else() -> None:
    picture = draw_actions(FRAME, [Click(point=Point(x=50, y=40))])
    assert inked(picture, (35, 25, 80, 55))
    assert not inked(picture, (100, 0, 200, 100))
    assert picture.size[0] == 200
    assert picture.size[1] > 100


def test_a_drag_is_a_line_and_a_scroll_points_its_way() -> None:
    drag = draw_actions(FRAME, [Drag(path=(Point(x=10, y=50), Point(x=190, y=50)))])
    assert inked(drag, (90, 45, 110, 55))
    scroll = draw_actions(FRAME, [Scroll(point=Point(x=100, y=20), dy=-5)])
    assert inked(scroll, (95, 45, 105, 58))


def test_actions_without_a_place_leave_the_screen_as_it_is() -> None:
    picture = draw_actions(FRAME, [TypeText(text="x" * 500), Done()], title="turn 3")
    assert not inked(picture, (0, 0, 200, 100))
    assert picture.size[1] > draw_actions(FRAME, [Done()]).size[1]
    assert draw_actions(FRAME, []).size == (200, 100)


def test_a_refused_point_outside_the_screen_is_drawn_all_the_same() -> None:
    assert draw_actions(FRAME, [Click(point=Point(x=5000, y=40))]).size[0] == 200


def test_what_differs_is_drawn_in_red_and_the_rest_pale() -> None:
    pixels = bytearray(FRAME.pixels)
    pixels[(40 * 200 + 50) * 3] = 254
    picture = draw_difference(FRAME, Frame.from_pixels(200, 100, bytes(pixels)))
    assert inked(picture, (50, 40, 51, 41))
    assert not inked(picture, (51, 41, 55, 45))
    assert not inked(draw_difference(FRAME, FRAME), (0, 0, 200, 100))
