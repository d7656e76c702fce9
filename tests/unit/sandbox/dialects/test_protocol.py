"""What all dialects share: views, limits, the shape of an answer, the registry."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.actions import ACTION_KINDS, Action, Click, Done, Move, Point, Wait
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


SIZES = {
    "qwen25": "1288x728",
    "pyautogui-28": "1288x728",
    "uitars": "1288 and y up to 728",
    "uitars-v1": "1000 and y up to 1000",
    "qwen3": "1000x1000",
    "qwen3-absolute": "1280x704",
    "pyautogui-unit": "fractions of the screenshot, 0 to 1,",
}
"""What a dialect says of the 1280x720 picture where it does not count its pixels."""


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_introduces_itself(name: str) -> None:
    dialect = get_dialect(name)
    assert dialect.name == name
    assert SIZES.get(name, "1280x720") in dialect.system_prompt_fragment(VIEW)
    assert "1920" not in dialect.system_prompt_fragment(VIEW)
    assert "line 2: no" in dialect.render_result(ParseError(message="no", where="line 2"))
    assert "outside" in dialect.render_result("outside")


@pytest.mark.parametrize("name", DIALECTS)
def test_losses_are_of_kinds_that_there_are(name: str) -> None:
    assert set(get_dialect(name).lossy) <= {*ACTION_KINDS, "point"}


SCHEMAS: dict[str, dict[str, Any]] = {
    "openai": {"type": "computer"},
    "openai-preview": {
        "type": "computer_use_preview",
        "display_width": 1280,
        "display_height": 720,
        "environment": "linux",
    },
    **{
        name: {
            "type": f"computer_{version}",
            "name": "computer",
            "display_width_px": 1280,
            "display_height_px": 720,
            "display_number": 1,
        }
        for name, version in [
            ("anthropic", "20251124"),
            ("anthropic-20250124", "20250124"),
            ("anthropic-20241022", "20241022"),
        ]
    },
}


@pytest.mark.parametrize("name", DIALECTS)
def test_an_api_is_given_the_tool_and_plain_text_has_none(name: str) -> None:
    schema = get_dialect(name).tool_schema(VIEW)
    if name.startswith("qwen"):
        assert schema is not None
        assert schema["function"]["name"] == "computer_use"
        assert SIZES[name] in schema["function"]["description"]
        assert "triple_click" in schema["function"]["parameters"]["properties"]["action"]["enum"]
    else:
        assert schema == SCHEMAS.get(name)


@pytest.mark.parametrize("name", [name for name in DIALECTS if name not in SIZES])
def test_coordinates_are_those_of_the_picture_shown(name: str) -> None:
    dialect = get_dialect(name)
    move = Move(point=Point(x=960, y=540))
    assert "640" in dialect.render(move, VIEW)
    assert dialect.parse(dialect.render(move, VIEW), VIEW).actions == (move,)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_point_outside_the_screen_cannot_be_written(name: str) -> None:
    with pytest.raises(ValueError, match="outside the 1920x1080 screen"):
        get_dialect(name).render(Move(point=Point(x=1920, y=0)), VIEW)


def test_ids_are_kept_of_a_turn_that_is_refused() -> None:
    def refuse(text: str) -> Reading:
        raise Rejected("no", tool_call_ids=("a", "b"))

    assert read_turn("text", refuse).tool_call_ids == ("a", "b")
    assert read_turn("text", lambda text: Reading(actions=[], tool_call_ids=("a",))).tool_call_ids == ("a",)


def test_endless_nesting_is_a_refusal_too() -> None:
    def read(text: str) -> Reading:
        return read(text)

    assert str(read_turn("text", read).error) == "the reply is nested too deeply"
