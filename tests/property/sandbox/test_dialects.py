"""Every dialect writes what it reads, survives anything, and keeps points where they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.actions import (
    MAX_SCROLL,
    MAX_WAIT_S,
    Action,
    Answer,
    ButtonDown,
    ButtonUp,
    Click,
    Done,
    Drag,
    Infeasible,
    KeyDown,
    KeyUp,
    Move,
    Point,
    Press,
    Screenshot,
    Scroll,
    TypeText,
    Wait,
    is_terminal,
)
from sandbox.dialects import DIALECTS, ParsedTurn, View, get_dialect
from sandbox.keys import KEY_NAMES

SIZES = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
AWKWARD = st.sampled_from(
    ['"', "'", "\\", "\n", "\t", ";", "(", ")", "#", "`", "```", "{", "%", " ", "\u2028", "é", "美", "😀"]
)
TEXTS = st.lists(
    st.one_of(AWKWARD, st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=5)), min_size=1, max_size=12
).map("".join)
TYPEABLE = TEXTS.filter(bool)
KEYS = st.one_of(
    st.sampled_from(KEY_NAMES), st.characters(exclude_categories=("Cc", "Cs")).filter(lambda char: char != " ")
)
MODIFIERS = st.lists(st.one_of(st.sampled_from(["ctrl", "shift", "alt", "super"]), KEYS), max_size=3).map(tuple)
BUTTONS = st.sampled_from(["left", "middle", "right", "back", "forward"])
SECONDS = st.sampled_from([1 / 3, 1e-9, 0.1 + 0.2]) | st.floats(0, MAX_WAIT_S)
TURNS = st.integers(-MAX_SCROLL, MAX_SCROLL)


def points(size: tuple[int, int]) -> st.SearchStrategy[Point]:
    return st.builds(Point, x=st.integers(0, size[0] - 1), y=st.integers(0, size[1] - 1))


def actions(size: tuple[int, int]) -> st.SearchStrategy[Action]:
    at = st.none() | points(size)
    path = st.lists(points(size), min_size=1, max_size=5).map(tuple)
    keys = st.lists(KEYS, min_size=1, max_size=8).map(tuple)
    kinds: list[st.SearchStrategy[Action]] = [
        st.builds(Move, point=points(size)),
        st.builds(Click, point=at, button=BUTTONS, clicks=st.integers(1, 3), modifiers=MODIFIERS),
        st.builds(ButtonDown, point=at, button=BUTTONS),
        st.builds(ButtonUp, point=at, button=BUTTONS),
        st.builds(Drag, path=path, button=BUTTONS, modifiers=MODIFIERS),
        st.builds(Scroll, point=at, dx=TURNS, dy=TURNS, modifiers=MODIFIERS),
        st.builds(TypeText, text=TYPEABLE),
        st.builds(Press, keys=keys, hold_s=st.just(0.0) | SECONDS),
        st.builds(KeyDown, key=KEYS),
        st.builds(KeyUp, key=KEYS),
        st.builds(Wait, seconds=SECONDS),
        st.builds(Screenshot),
        st.builds(Done),
        st.builds(Infeasible, reason=st.text()),
        st.builds(Answer, text=st.text()),
    ]
    return st.one_of(kinds)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[View, Action]:
    """A view whose picture has every pixel of the screen or more, and an action on it."""
    screen = draw(SIZES)
    shown = draw(st.sampled_from([screen, (screen[0] * 2, screen[1] + 7)]))
    return View(screen=screen, shown=shown), draw(actions(screen))


def lost(name: str, action: Action) -> tuple[Action, ...]:
    """What a dialect's declared losses make of an action."""
    if name == "pyautogui":
        match action:
            case Answer():
                return (Done(),)
            case Infeasible():
                return (Infeasible(),)
            case Drag(path=(first, second, third, *more)):
                moves = [Move(point=point) for point in (second, third, *more)]
                button = action.button
                return held(action, Move(point=first), ButtonDown(button=button), *moves, ButtonUp(button=button))
            case Scroll() if action.dx and action.dy:
                upright = Scroll(point=action.point, dy=action.dy)
                return held(action, upright, Scroll(point=action.point, dx=action.dx))
    return (action,)


def held(action: Drag | Scroll, *body: Action) -> tuple[Action, ...]:
    downs = [KeyDown(key=key) for key in action.modifiers]
    return (*downs, *body, *(KeyUp(key=key) for key in reversed(action.modifiers)))


@pytest.mark.parametrize("name", DIALECTS)
@given(scene=scenes())
def test_what_is_written_is_read_back(name: str, scene: tuple[View, Action]) -> None:
    view, action = scene
    dialect = get_dialect(name)
    expected = lost(name, action)
    if expected != (action,):
        assert action.kind in dialect.lossy
    turn = dialect.parse(dialect.render(action, view), view)
    assert turn.error is None
    assert turn.actions == expected


@pytest.mark.parametrize("name", DIALECTS)
@given(data=st.data())
def test_a_smaller_picture_loses_only_the_grid(name: str, data: st.DataObject) -> None:
    screen = data.draw(SIZES)
    view = View(screen=screen, shown=data.draw(st.tuples(st.integers(1, screen[0]), st.integers(1, screen[1]))))
    dialect = get_dialect(name)
    written = dialect.render(data.draw(points(screen).map(lambda point: Move(point=point))), view)
    (action,) = dialect.parse(written, view).actions
    assert dialect.render(action, view) == written


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=40)
@given(data=st.data())
def test_several_actions_are_one_turn(name: str, data: st.DataObject) -> None:
    # a Move directly before a Drag is a drag with a start for pyautogui, so the two do not meet here
    view = View.unscaled(*data.draw(SIZES))
    several = data.draw(
        st.lists(actions(view.screen).filter(lambda a: not isinstance(a, Move) and not is_terminal(a)), max_size=5)
    )
    dialect = get_dialect(name)
    turn = dialect.parse("\n".join(dialect.render(action, view) for action in [*several, Done()]), view)
    assert turn.error is None
    assert turn.actions == (*(each for action in several for each in lost(name, action)), Done())


@pytest.mark.parametrize("fence", ["{}", "I do it.\n```python\n{}\n```", "```\n{}"])
@given(text=TYPEABLE)
def test_text_survives_fences_and_prose(fence: str, text: str) -> None:
    dialect, view, action = get_dialect("pyautogui"), View.unscaled(10, 10), TypeText(text=text)
    turn = dialect.parse(fence.format(dialect.render(action, view)), view)
    assert turn.error is None
    assert turn.actions == (action,)


FRAGMENTS = st.sampled_from(
    [
        *("pyautogui", ".", "click", "(", ")", "[", "]", "1", ", ", "x", " = ", "for i in range(3):", "\n", "\n    "),
        *("'", '"', '"""', "\\", "```", "```python\n", "DONE", "DONE.", "WAIT", "with pyautogui.hold('a'):", "import "),
        *("time.sleep(1)", "pyperclip.copy('a')", "pyautogui.hotkey('ctrl', 'v')", "pyautogui.moveRel(1, 1)", "-", "*"),
        *("click ", "drag ", "type ", "100 ", "5000 ", "-1 ", "ctrl+", "# ", "<think>", "</think>", "9" * 30, "1e999"),
        *("\0", "\r", "\x0c", "\ud800", "é", "if x:", "lambda: ", "f'{x}'", "\\N{BULLET}", "0777", "1_0", "print("),
    ]
)
SCRAPS = st.lists(FRAGMENTS, max_size=30).map("".join)


@st.composite
def damaged(draw: st.DrawFn, name: str, view: View) -> str:
    """A valid turn with pieces cut out, doubled and put in."""
    several = draw(st.lists(actions(view.screen), min_size=1, max_size=4))
    text = "\n".join(get_dialect(name).render(action, view) for action in several)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 10)))
        text = text[:start] + draw(st.one_of(FRAGMENTS, st.text(max_size=3), st.just(text[start:end] * 2))) + text[end:]
    return text


def check(turn: ParsedTurn, text: str, view: View) -> None:
    assert turn.raw == text
    assert (turn.error is None) == bool(turn.actions)
    for action in turn.actions:
        where = getattr(action, "path", ()) or (getattr(action, "point", None),)
        assert all(point is None or (point.x < view.screen[0] and point.y < view.screen[1]) for point in where)
    if turn.error is not None:
        assert turn.error.message
        assert len(str(turn.error)) < 500


@pytest.mark.parametrize("name", DIALECTS)
@given(text=st.text() | SCRAPS, size=SIZES)
def test_any_text_is_answered(name: str, text: str, size: tuple[int, int]) -> None:
    view = View.unscaled(*size)
    check(get_dialect(name).parse(text, view), text, view)


@pytest.mark.parametrize("name", DIALECTS)
@given(data=st.data())
def test_damaged_turns_are_answered(name: str, data: st.DataObject) -> None:
    view = View(screen=data.draw(SIZES), shown=data.draw(SIZES))
    text = data.draw(damaged(name, view))
    check(get_dialect(name).parse(text, view), text, view)


@pytest.mark.parametrize("name", DIALECTS)
@given(
    x=st.integers(-3000, 3000), y=st.integers(-3000, 3000), size=st.tuples(st.integers(1, 2000), st.integers(1, 2000))
)
def test_a_point_is_inside_or_an_error(name: str, x: int, y: int, size: tuple[int, int]) -> None:
    inside = 0 <= x < size[0] and 0 <= y < size[1]
    text = {"compact": f"click {x} {y}", "pyautogui": f"pyautogui.click({x}, {y})"}[name]
    turn = get_dialect(name).parse(text, View.unscaled(*size))
    assert turn.actions == ((Click(point=Point(x=x, y=y)),) if inside else ())
    assert inside or "outside the screen" in str(turn.error)


@given(screen=SIZES, shown=SIZES, data=st.data())
def test_there_and_back_is_within_half_a_pixel_of_the_coarser_grid(
    screen: tuple[int, int], shown: tuple[int, int], data: st.DataObject
) -> None:
    view = View(screen=screen, shown=shown)
    point = data.draw(points(screen))
    back = view.point(*view.place(point, space="shown"), space="shown")
    for before, after, of, to in zip((point.x, point.y), (back.x, back.y), screen, shown, strict=True):
        if to >= of:
            assert after == before
        else:
            # half a pixel of the picture, in pixels of the screen, and half of one of the screen's for its own grid
            assert abs(after - before) <= of / to / 2 + 0.5


@given(screen=SIZES, shown=SIZES, data=st.data())
def test_a_point_maps_to_the_pixel_that_holds_its_centre(
    screen: tuple[int, int], shown: tuple[int, int], data: st.DataObject
) -> None:
    view = View(screen=screen, shown=shown)
    point = data.draw(points(screen))
    for at, placed, of, to in zip((point.x, point.y), view.place(point, space="shown"), screen, shown, strict=True):
        assert placed <= (at + 0.5) * to / of <= placed + 1
