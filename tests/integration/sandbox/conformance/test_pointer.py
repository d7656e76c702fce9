"""The mouse: what a canonical action does to a program, seen in the program's own events and in an editor's text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox.actions import parse_action
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import A11yNode, Settle
from tests.support.live import act, edit, sh, start, typed, wait_for

pytestmark = pytest.mark.desktop

LISTENER = """
# A window over the whole screen that writes one line per event: kind, button, x, y, state.
from Xlib import X, display
d = display.Display()
screen = d.screen()
mask = X.ButtonPressMask | X.ButtonReleaseMask | X.PointerMotionMask
w = screen.root.create_window(0, 0, screen.width_in_pixels, screen.height_in_pixels, 0, screen.root_depth,
                              override_redirect=1, background_pixel=0x336699, event_mask=mask)
w.map()
d.sync()
names = {X.ButtonPress: "down", X.ButtonRelease: "up", X.MotionNotify: "move"}
with open("events", "w", buffering=1) as out:
    print("ready", file=out)
    while True:
        e = d.next_event()
        if e.type in names:
            print(names[e.type], 0 if e.type == X.MotionNotify else e.detail, e.root_x, e.root_y, e.state, file=out)
"""


class Listener:
    """The events that a window over the whole screen got."""

    def __init__(self, desktop: OwnedDesktop) -> None:
        self._desktop = desktop
        self._seen = 1

    async def __call__(self, *actions: dict[str, Any]) -> list[tuple[str, int, int, int, int]]:
        """Execute actions and return the button events and the last moves that they caused."""
        await act(self._desktop, *actions)
        lines = (await sh(self._desktop, "cat events")).splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        events = [line.split() for line in new]
        return [(kind, int(button), int(x), int(y), int(state)) for kind, button, x, y, state in events]

    async def buttons(self, *actions: dict[str, Any]) -> list[tuple[str, int, int, int]]:
        """The presses and releases that actions caused: kind, button, x, y."""
        return [event[:4] for event in await self(*actions) if event[0] != "move"]


@pytest.fixture
async def listener(shared: OwnedDesktop) -> AsyncIterator[Listener]:
    pid = await shared.spawn(["python3", "-c", LISTENER])

    async def ready() -> bool:
        return await sh(shared, "cat events 2>/dev/null || true") == "ready\n"

    await wait_for("the listener's window", ready)
    yield Listener(shared)
    await sh(shared, f"kill {pid}; rm events")


def at(x: int, y: int) -> dict[str, int]:
    return {"x": x, "y": y}


@pytest.mark.parametrize("corner", [(0, 0), (799, 0), (0, 599), (799, 599)])
async def test_a_click_reaches_the_very_corner(listener: Listener, corner: tuple[int, int]) -> None:
    expected = [("down", 1, *corner), ("up", 1, *corner)]
    assert await listener.buttons({"kind": "click", "point": at(*corner)}) == expected


async def test_every_button_is_the_one_that_programs_know(listener: Listener) -> None:
    numbers = {"left": 1, "middle": 2, "right": 3, "back": 8, "forward": 9}
    for button, number in numbers.items():
        events = await listener.buttons({"kind": "click", "point": at(300, 200), "button": button})
        assert events == [("down", number, 300, 200), ("up", number, 300, 200)]


async def test_wheel_clicks_are_counted_and_have_directions(listener: Listener) -> None:
    for scroll, number in (({"dy": 3}, 4), ({"dy": -3}, 5), ({"dx": -3}, 6), ({"dx": 3}, 7)):
        events = await listener.buttons({"kind": "scroll", "point": at(40, 50), **scroll})
        assert events == [("down", number, 40, 50), ("up", number, 40, 50)] * 3


async def test_modifiers_are_held_during_the_click_and_not_after(listener: Listener) -> None:
    shift, control, alt = 1, 4, 8
    held = await listener({"kind": "click", "point": at(10, 20), "modifiers": ["ctrl", "shift", "alt"]})
    assert [event[4] & 0xFF for event in held if event[0] == "down"] == [shift | control | alt]
    after = await listener({"kind": "click", "point": at(10, 20)})
    assert [event[4] & 0xFF for event in after if event[0] == "down"] == [0]


async def test_a_button_stays_down_until_it_is_released(listener: Listener) -> None:
    down = {"kind": "button_down", "point": at(100, 100)}
    move, up = {"kind": "move", "point": at(150, 120)}, {"kind": "button_up"}
    assert await listener.buttons(down) == [("down", 1, 100, 100)]
    moved = await listener(move)
    assert moved[-1] == ("move", 0, 150, 120, 0x100)  # 0x100: button 1 is down
    assert await listener.buttons(up) == [("up", 1, 150, 120)]


async def test_a_drag_passes_through_its_points(listener: Listener) -> None:
    path = [at(50, 50), at(200, 50), at(200, 300)]
    events = await listener({"kind": "drag", "path": path})
    buttons = [event[:4] for event in events if event[0] != "move"]
    assert buttons == [("down", 1, 50, 50), ("up", 1, 200, 300)]
    dragged = [(x, y) for kind, _, x, y, state in events if kind == "move" and state & 0x100]
    assert (200, 50) in dragged
    assert len(dragged) > 10
    one_point = await listener({"kind": "move", "point": at(5, 5)}, {"kind": "drag", "path": [at(90, 90)]})
    assert [event[:4] for event in one_point if event[0] != "move"] == [("down", 1, 5, 5), ("up", 1, 90, 90)]


async def test_a_point_outside_is_refused_and_the_rest_is_skipped(shared: OwnedDesktop, listener: Listener) -> None:
    before = await listener.buttons({"kind": "click", "point": at(1, 1)})
    assert before
    actions: list[dict[str, Any]] = [
        {"kind": "click", "point": at(30, 30)},
        {"kind": "click", "point": at(800, 30)},
        {"kind": "click", "point": at(60, 60)},
        {"kind": "type", "text": "x"},
    ]
    done = await shared.step([parse_action(action) for action in actions], want=())
    assert [result.ok for result in done.actions] == [True, False, False, False]
    assert done.actions[1].error == "point (800, 30) is outside the screen of 800x600"
    assert [result.error for result in done.actions[2:]] == ["skipped: an earlier action was refused"] * 2
    assert await listener.buttons() == [("down", 1, 30, 30), ("up", 1, 30, 30)]
    dragged = await shared.step(
        [parse_action({"kind": "drag", "path": [at(10, 10), at(10, 600)]})],
        want=(),
    )
    assert not dragged.actions[0].ok
    assert await listener.buttons() == []


async def test_an_observation_shows_where_the_pointer_is(shared: OwnedDesktop, listener: Listener) -> None:
    before = await shared.step([parse_action({"kind": "move", "point": at(400, 300)})])
    after = await shared.step([parse_action({"kind": "move", "point": at(420, 310)})])
    assert (before.observation.cursor, after.observation.cursor) == ((400, 300), (420, 310))
    assert before.observation.frame is not None
    assert after.observation.frame is not None
    # Nothing else moves on this screen: the pointer alone makes two pictures.
    assert before.observation.frame.sha256 != after.observation.frame.sha256
    changed = _changed_box(before.observation.frame.pixels, after.observation.frame.pixels, 800)
    assert changed[0] >= 390
    assert changed[1] >= 290
    assert changed[2] <= 450
    assert changed[3] <= 345


def _changed_box(first: bytes, second: bytes, width: int) -> tuple[int, int, int, int]:
    changed = [i // 3 for i in range(0, len(first), 3) if first[i : i + 3] != second[i : i + 3]]
    xs, ys = [i % width for i in changed], [i // width for i in changed]
    return min(xs), min(ys), max(xs), max(ys)


async def test_settling_tells_change_from_stillness(shared: OwnedDesktop, listener: Listener) -> None:
    still = await shared.step([parse_action({"kind": "screenshot"})], want=())
    assert (still.settle.changed, still.settle.settled) == (False, True)
    await shared.step([parse_action({"kind": "move", "point": at(600, 500)})])
    window = (
        "from Xlib import display; import time, itertools; d = display.Display(); s = d.screen();"
        "w = s.root.create_window(700, 10, 20, 20, 0, s.root_depth, override_redirect=1, background_pixel=0); w.map();"
        "[(w.change_attributes(background_pixel=i * 999), w.clear_area(), d.sync(), time.sleep(0.01))"
        " for i in itertools.count()]"
    )
    pid = await shared.spawn(["python3", "-c", window])
    try:

        async def flickers() -> bool:
            seen = await shared.step([parse_action({"kind": "screenshot"})], want=(), settle=Settle(cap_ms=300))
            return seen.settle.changed and not seen.settle.settled and seen.settle.waited_ms >= 250

        await wait_for("the flickering window", flickers)
    finally:
        await sh(shared, f"kill {pid}")
    done = await shared.step([parse_action({"kind": "move", "point": at(710, 20)})], want=())
    assert done.settle.settled


# -- in an editor, where a double click means a word and a drag means a selection ------------------------------------

WORDS = "alphabetical betting gambling\nsecond line\n"
FIRST, LATER, SECOND_LINE = at(22, 66), at(70, 66), at(22, 84)
"""Two places in the first word, and one in the line below."""


def click(point: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"kind": "click", "point": point, **more}


async def test_a_double_click_selects_the_word(shared: OwnedDesktop) -> None:
    text = await edit(shared, click(FIRST, clicks=2), typed("X"), before=WORDS)
    assert text == WORDS.replace("alphabetical", "X")


async def test_a_triple_click_selects_the_line(shared: OwnedDesktop) -> None:
    text = await edit(shared, click(FIRST, clicks=3), typed("X"), before=WORDS)
    assert text == "X\nsecond line\n"


async def test_two_clicks_on_one_spot_are_not_a_double_click(shared: OwnedDesktop) -> None:
    text = await edit(shared, click(FIRST), click(FIRST), typed("X"), before=WORDS)
    assert len(text) == len(WORDS) + 1
    assert text.replace("X", "") == WORDS


async def test_a_drag_right_after_a_click_selects_letters_not_words(shared: OwnedDesktop) -> None:
    drag = {"kind": "drag", "path": [FIRST, LATER]}
    text = await edit(shared, click(FIRST), drag, typed("X"), before=WORDS)
    assert text.endswith("l betting gambling\nsecond line\n")
    assert text.startswith("a")
    assert 0 < len(WORDS) - len(text) < len("alphabetical")


async def test_a_click_with_shift_extends_the_selection(shared: OwnedDesktop) -> None:
    text = await edit(shared, click(FIRST), click(SECOND_LINE, modifiers=["shift"]), typed("X"), before=WORDS)
    assert text.startswith("a")
    assert "X" in text
    assert text.endswith("ond line\n")


async def test_a_drag_by_hand_selects(shared: OwnedDesktop) -> None:
    down, move = {"kind": "button_down", "point": FIRST}, {"kind": "move", "point": SECOND_LINE}
    text = await edit(shared, down, move, {"kind": "button_up"}, typed("X"), before=WORDS)
    assert text.startswith("a")
    assert text.endswith("ond line\n")


async def _nodes(desktop: OwnedDesktop, role: str) -> list[A11yNode]:
    found: list[A11yNode] = []
    stack = list((await desktop.observe(want=["a11y"])).a11y or ())
    while stack:
        node = stack.pop()
        stack.extend(node.children)
        if node.role == role:
            found.append(node)
    return found


async def test_the_wheel_and_the_right_button_in_an_editor(shared: OwnedDesktop) -> None:
    await shared.put_file("long.txt", b"line\n" * 300)
    await start(shared, ["mousepad", "long.txt"], "mousepad")

    async def scrolled() -> float:
        (bar,) = await _nodes(shared, "scroll bar")
        assert bar.value is not None
        return bar.value

    async def menu() -> bool:
        return any(node.name == "Paste" and "showing" in node.states for node in await _nodes(shared, "menu item"))

    assert await scrolled() == 0
    await act(shared, {"kind": "scroll", "point": LATER, "dy": -5})
    assert await scrolled() > 100
    await act(shared, {"kind": "scroll", "point": LATER, "dy": 5})
    assert await scrolled() < 1
    assert not await menu()
    await act(shared, click(LATER, button="right"))
    assert await menu()
    await act(shared, {"kind": "press", "keys": ["esc"]}, {"kind": "press", "keys": ["ctrl", "q"]})
