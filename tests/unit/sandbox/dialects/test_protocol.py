"""What all dialects share: views, limits, the shape of an answer, the registry."""

from __future__ import annotations

import pytest

from sandbox.actions import Action, Click, Done, Move, Point, Wait
from sandbox.dialects import DIALECTS, ParseError, View, get_dialect
from sandbox.dialects.protocol import MAX_ACTIONS, MAX_INPUT, Reading, Rejected, explain, read_turn

VIEW = View(screen=(1920, 1080), shown=(1280, 720))


def test_a_point_of_the_picture_lands_on_the_pixel_under_its_centre() -> None:
    assert VIEW.point(0, 0, space="shown") == Point(x=0, y=0)
    assert VIEW.point(640, 360, space="shown") == Point(x=960, y=540)
    assert VIEW.point(1279, 719, space="shown") == Point(x=1919, y=1079)
    assert VIEW.point(1919, 1079, space="screen") == Point(x=1919, y=1079)


def test_a_fraction_lies_inside_its_pixel() -> None:
    view = View.unscaled(100, 50)
    assert view.point(12.7, 0.999, space="shown") == Point(x=12, y=0)
    assert view.point(99.9, 49.9, space="shown") == Point(x=99, y=49)


@pytest.mark.parametrize("point", [(-1, 5), (-0.1, 5), (1280, 5), (5, 720), (5000, 10), (float("nan"), 5), (1e300, 5)])
def test_a_point_outside_is_refused_with_the_limits(point: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="x goes from 0 to 1279 and y from 0 to 719"):
        VIEW.point(*point, space="shown")


def test_a_point_outside_the_screen_has_no_place_in_the_picture() -> None:
    with pytest.raises(ValueError, match="1920x1080"):
        VIEW.place(Point(x=1920, y=0), space="shown")


def test_a_view_has_an_area() -> None:
    with pytest.raises(ValueError, match="at least one pixel"):
        View(screen=(10, 10), shown=(0, 10))


def test_a_refusal_is_data() -> None:
    def refuse(text: str) -> Reading:
        raise Rejected("no such thing", where="line 3")

    turn = read_turn("text", refuse)
    assert (turn.actions, turn.error, turn.raw) == ((), ParseError(message="no such thing", where="line 3"), "text")
    assert str(turn.error) == "line 3: no such thing"


def test_a_refusal_is_short_whatever_it_quotes() -> None:
    def refuse(text: str) -> Reading:
        raise ValueError(text)

    turn = read_turn("x" * 5000, refuse)
    assert turn.error is not None
    assert len(turn.error.message) < 500


@pytest.mark.parametrize(
    ("actions", "part"),
    [
        ([], "no action"),
        ([Wait()] * (MAX_ACTIONS + 1), "at most 200"),
        ([Done(), Wait()], "nothing can follow"),
        ([Done(), Done()], "nothing can follow"),
    ],
)
def test_a_turn_is_all_or_nothing(actions: list[Action], part: str) -> None:
    turn = read_turn("text", lambda text: Reading(actions=actions))
    assert turn.actions == ()
    assert turn.error is not None
    assert part in turn.error.message


def test_a_full_turn_is_kept_in_order() -> None:
    actions: list[Action] = [*[Wait()] * (MAX_ACTIONS - 1), Done()]
    turn = read_turn("text", lambda text: Reading(actions=actions, thought="why", tool_call_ids=("a",)))
    assert turn.error is None
    assert (list(turn.actions), turn.thought, turn.tool_call_ids) == (actions, "why", ("a",))


@pytest.mark.parametrize("name", DIALECTS)
def test_a_huge_reply_is_refused_unread(name: str) -> None:
    turn = get_dialect(name).parse("#" * (MAX_INPUT + 1), VIEW)
    assert turn.error is not None
    assert f"at most {MAX_INPUT}" in turn.error.message


def test_explanations_name_the_field() -> None:
    with pytest.raises(ValueError, match="seconds") as caught:
        Wait(seconds=100)
    assert explain(caught.value).startswith("seconds: ")
    with pytest.raises(ValueError, match="there is no key") as caught:
        Click(modifiers=("contrl",))
    assert explain(caught.value).startswith("there is no key 'contrl'")
    with pytest.raises(ValueError, match="x") as caught:
        Point(x=-1, y=0)
    assert explain(caught.value).startswith("x: ")


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="did you mean 'compact'") as caught:
        get_dialect("compct")
    assert all(name in str(caught.value) for name in DIALECTS)


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_introduces_itself(name: str) -> None:
    dialect = get_dialect(name)
    assert dialect.name == name
    assert "1280x720" in dialect.system_prompt_fragment(VIEW)
    assert "1920" not in dialect.system_prompt_fragment(VIEW)
    assert dialect.tool_schema() is None
    assert "line 2: no" in dialect.render_result(ParseError(message="no", where="line 2"))
    assert "outside" in dialect.render_result("outside")
    assert dialect.lossy


@pytest.mark.parametrize("name", DIALECTS)
def test_coordinates_are_those_of_the_picture_shown(name: str) -> None:
    dialect = get_dialect(name)
    move = Move(point=Point(x=960, y=540))
    assert "640" in dialect.render(move, VIEW)
    assert dialect.parse(dialect.render(move, VIEW), VIEW).actions == (move,)
    with pytest.raises(ValueError, match="outside"):
        dialect.render(Move(point=Point(x=1920, y=0)), VIEW)
