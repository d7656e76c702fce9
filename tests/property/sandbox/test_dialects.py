"""Every dialect writes what it reads, survives anything, and keeps points where they are."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
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
    parse_action,
)
from sandbox.dialects import DIALECTS, Inexpressible, ParsedTurn, View, get_dialect
from sandbox.dialects.view import (
    CELLS_1000,
    EDGES_1,
    EDGES_1000,
    RESIZED_28,
    RESIZED_28_UITARS,
    RESIZED_32,
    Cells,
    Edges,
    Space,
)
from sandbox.keys import KEY_NAMES
from tests.support.losses import lost

# A busy machine is no failure.
STEADY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


def inside(action: Action, view: View) -> Action:
    """The action with its points moved into a smaller screen."""
    width, height = view.screen
    data = action.model_dump()
    for point in [data.get("point"), *data.get("path", ())]:
        if point is not None:
            point |= {"x": point["x"] % width, "y": point["y"] % height}
    return parse_action(data)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[View, Action]:
    """A view whose picture has every pixel of the screen or more, and an action on it."""
    screen = draw(SIZES)
    shown = draw(st.sampled_from([screen, (screen[0] * 2, screen[1] + 7)]))
    return View(screen=screen, shown=shown), draw(actions(screen))


def fine_enough(name: str, view: View) -> View:
    """The view with a screen no finer than the space in which the dialect counts."""
    space = SPACES.get(name, "shown")
    while space != "shown":
        grid = (1000, 1000) if isinstance(space, Cells | Edges) else view.size(space)
        screen = min(view.screen[0], grid[0]), min(view.screen[1], grid[1])
        if screen == view.screen:
            break
        view = View(screen=screen, shown=screen)
    return view


SPACES: dict[str, Space] = {
    "pyautogui-28": RESIZED_28,
    "qwen25": RESIZED_28,
    "uitars": RESIZED_28_UITARS,
    "qwen3-absolute": RESIZED_32,
    "qwen3": CELLS_1000,
    "uitars-v1": EDGES_1000,
}


@pytest.mark.parametrize("name", DIALECTS)
@STEADY
@given(scene=scenes())
def test_what_is_written_is_read_back(name: str, scene: tuple[View, Action]) -> None:
    view, action = scene
    view = fine_enough(name, view)
    action = inside(action, view)
    dialect = get_dialect(name)
    expected = lost(name, action)
    if expected != (action,):
        assert action.kind in dialect.lossy
    if expected is None:
        assert "cannot be written" in dialect.lossy[action.kind]
        with pytest.raises(Inexpressible):
            dialect.render(action, view)
        return
    turn = dialect.parse(dialect.render(action, view), view)
    assert turn.error is None
    assert turn.actions == expected


@pytest.mark.parametrize("name", DIALECTS)
@STEADY
@given(data=st.data())
def test_a_smaller_picture_loses_only_the_grid(name: str, data: st.DataObject) -> None:
    screen = data.draw(SIZES)
    view = View(screen=screen, shown=data.draw(st.tuples(st.integers(1, screen[0]), st.integers(1, screen[1]))))
    dialect = get_dialect(name)
    written = dialect.render(data.draw(points(screen).map(lambda point: Move(point=point))), view)
    (action,) = dialect.parse(written, view).actions
    assert dialect.render(action, view) == written


@pytest.mark.parametrize("name", DIALECTS)
@STEADY
@given(data=st.data())
def test_several_actions_are_one_turn(name: str, data: st.DataObject) -> None:
    # a Move directly before a Drag is a drag with a start for pyautogui, so the two do not meet here
    view = View.unscaled(*data.draw(SIZES))
    view = fine_enough(name, view)
    possible = actions(view.screen).filter(
        lambda a: not isinstance(a, Move) and not is_terminal(a) and lost(name, a) is not None
    )
    several = data.draw(st.lists(possible, max_size=5))
    dialect = get_dialect(name)
    turn = dialect.parse("\n".join(dialect.render(action, view) for action in [*several, Done()]), view)
    assert turn.error is None
    assert turn.actions == (*(each for action in several for each in lost(name, action) or ()), Done())


@pytest.mark.parametrize("fence", ["{}", "I do it.\n```python\n{}\n```", "```\n{}"])
@STEADY
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
    possible = actions(view.screen).filter(lambda action: lost(name, action) is not None)
    several = draw(st.lists(possible, min_size=1, max_size=4))
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
@STEADY
@given(text=st.text() | SCRAPS, size=SIZES)
def test_any_text_is_answered(name: str, text: str, size: tuple[int, int]) -> None:
    view = View.unscaled(*size)
    check(get_dialect(name).parse(text, view), text, view)


@pytest.mark.parametrize("name", DIALECTS)
@STEADY
@given(data=st.data())
def test_damaged_turns_are_answered(name: str, data: st.DataObject) -> None:
    view = View(screen=data.draw(SIZES), shown=data.draw(SIZES))
    text = data.draw(damaged(name, view))
    check(get_dialect(name).parse(text, view), text, view)


CLICKS: dict[str, str] = {
    "compact": "click {} {}",
    "pyautogui": "pyautogui.click({}, {})",
    "computer13": '{{"action_type": "CLICK", "x": {}, "y": {}}}',
    "openai": '{{"type": "computer_call", "action": {{"type": "click", "button": "left", "x": {}, "y": {}}}}}',
    "anthropic": '{{"action": "left_click", "coordinate": [{}, {}]}}',
    "bytebot": '{{"action": "click_mouse", "coordinates": {{"x": {}, "y": {}}}}}',
    "browsergym": "mouse_click({}, {})",
    "cua-bench": "Click({}, {})",
    "uitars": "click(start_box='({},{})')",
    "qwen": '{{"name": "computer_use", "arguments": {{"action": "left_click", "coordinate": [{}, {}]}}}}',
}


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "pyautogui-unit"])
@STEADY
@given(
    x=st.integers(-3000, 3000), y=st.integers(-3000, 3000), size=st.tuples(st.integers(1, 2000), st.integers(1, 2000))
)
def test_a_point_is_inside_or_an_error(name: str, x: int, y: int, size: tuple[int, int]) -> None:
    view = View.unscaled(*size)
    space = SPACES.get(name, "shown")
    over = 1 if isinstance(space, Edges) else 0
    width, height = view.size(space)
    inside = 0 <= x < width + over and 0 <= y < height + over
    form = next(form for family, form in CLICKS.items() if name.startswith(family))
    turn = get_dialect(name).parse(form.format(x, y), view)
    assert turn.actions == ((Click(point=view.point(x, y, space=space)),) if inside else ())
    assert inside or f"x goes from 0 to {width - 1 + over} and y from 0 to {height - 1 + over}" in str(turn.error)


ALL_SPACES: dict[str, Space] = {
    "shown": "shown",
    "screen": "screen",
    "resized 28": RESIZED_28,
    "resized 28, UI-TARS": RESIZED_28_UITARS,
    "resized 32": RESIZED_32,
    "0-999": CELLS_1000,
    "0-1000": EDGES_1000,
    "0-1": EDGES_1,
}


@st.composite
def views(draw: st.DrawFn) -> View:
    """Any view, also of a part of the screen."""
    screen = draw(SIZES)
    zoom = None
    if draw(st.booleans()):
        left, top = draw(st.integers(0, screen[0] - 1)), draw(st.integers(0, screen[1] - 1))
        zoom = left, top, draw(st.integers(left + 1, screen[0])), draw(st.integers(top + 1, screen[1]))
    return View(screen=screen, shown=draw(SIZES), zoom=zoom)


def part(view: View, space: Space) -> tuple[int, int, int, int]:
    return view.zoom if view.zoom is not None and space != "screen" else (0, 0, *view.screen)


@pytest.mark.parametrize("space", ALL_SPACES.values(), ids=ALL_SPACES)
@STEADY
@given(view=views(), data=st.data())
def test_there_and_back_is_within_half_a_pixel_of_the_coarser_grid(
    space: Space, view: View, data: st.DataObject
) -> None:
    left, top, right, bottom = part(view, space)
    at_x, at_y = data.draw(st.tuples(st.integers(left, right - 1), st.integers(top, bottom - 1)))
    back = view.point(*view.place(Point(x=at_x, y=at_y), space=space), space=space)
    steps = (10**6, 10**6) if space == EDGES_1 else view.size(space)
    sides = right - left, bottom - top
    for before, after, of, to in zip((at_x, at_y), (back.x, back.y), sides, steps, strict=True):
        if to >= of:
            assert after == before
        else:
            # half a unit of the space, in pixels of the screen, and half of one of the screen's for its own grid
            assert abs(after - before) <= of / to / 2 + 0.5


@pytest.mark.parametrize("space", ALL_SPACES.values(), ids=ALL_SPACES)
@STEADY
@given(view=views(), data=st.data())
def test_a_written_coordinate_is_written_again(space: Space, view: View, data: st.DataObject) -> None:
    left, top, right, bottom = part(view, space)
    point = Point(x=data.draw(st.integers(left, right - 1)), y=data.draw(st.integers(top, bottom - 1)))
    written = view.place(point, space=space)
    assert view.place(view.point(*written, space=space), space=space) == written


@STEADY
@given(screen=SIZES, shown=SIZES, data=st.data())
def test_a_point_maps_to_the_pixel_that_holds_its_centre(
    screen: tuple[int, int], shown: tuple[int, int], data: st.DataObject
) -> None:
    view = View(screen=screen, shown=shown)
    point = data.draw(points(screen))
    for at, placed, of, to in zip((point.x, point.y), view.place(point, space="shown"), screen, shown, strict=True):
        assert placed <= (at + 0.5) * to / of <= placed + 1
