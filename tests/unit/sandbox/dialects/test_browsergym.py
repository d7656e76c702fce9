"""The BrowserGym dialect: its functions of coordinates, the refused others, errors that name the field."""

from __future__ import annotations

import pytest

from sandbox.actions import (
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
)
from sandbox.dialects import Inexpressible, View, get_dialect

VIEW = View.unscaled(1920, 1080)
BROWSERGYM = get_dialect("browsergym")
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)

FORMS: list[tuple[str, list[Action]]] = [
    ("mouse_move(100, 200)", [Move(point=AT)]),
    ("mouse_move(x=100.5, y=200.5)", [Move(point=AT)]),
    ("mouse_click(100, 200)", [Click(point=AT)]),
    ("mouse_click(100, 200, 'right')", [Click(point=AT, button="right")]),
    ("mouse_click(100, 200, button='middle')", [Click(point=AT, button="middle")]),
    ("mouse_dblclick(100, 200)", [Click(point=AT, clicks=2)]),
    ("mouse_dblclick(100, 200, button='right')", [Click(point=AT, clicks=2, button="right")]),
    ("mouse_down(100, 200)", [ButtonDown(point=AT)]),
    ("mouse_up(300, 400, 'right')", [ButtonUp(point=TO, button="right")]),
    ("mouse_drag_and_drop(100, 200, 300, 400)", [Drag(path=(AT, TO))]),
    ("mouse_drag_and_drop(from_x=100, from_y=200, to_x=300, to_y=400)", [Drag(path=(AT, TO))]),
    ("scroll(0, 240)", [Scroll(dy=-2)]),
    ("scroll(delta_x=-120, delta_y=-100)", [Scroll(dx=-1, dy=1)]),
    ("scroll(50, 0)", [Scroll(dx=1)]),
    ("keyboard_press('Enter')", [Press(keys=("enter",))]),
    ("keyboard_press('Control+a')", [Press(keys=("ctrl", "a"))]),
    ("keyboard_press('ControlOrMeta+Shift+ArrowDown')", [Press(keys=("ctrl", "shift", "down"))]),
    ("keyboard_press('+')", [Press(keys=("+",))]),
    ("keyboard_down('Shift')", [KeyDown(key="shift")]),
    ("keyboard_up('Shift')", [KeyUp(key="shift")]),
    ("keyboard_type('a;b (c)')", [TypeText(text="a;b (c)")]),
    ("keyboard_insert_text('美\\n')", [TypeText(text="美\n")]),
    ('keyboard_type("""two\nlines""")', [TypeText(text="two\nlines")]),
    ("noop()", [Wait(seconds=1)]),
    ("noop(500)", [Wait(seconds=0.5)]),
    ("noop(wait_ms=90000)", [Wait(seconds=60), Wait(seconds=30)]),
    ("send_msg_to_user('42')", [Answer(text="42")]),
    ("send_msg_to_user('')", [Answer(text="")]),
    ("send_msg_to_user('DONE')", [Done()]),
    ("send_msg_to_user('[INFEASIBLE] no network')", [Infeasible(reason="no network")]),
    ("report_infeasible('no network')", [Infeasible(reason="no network")]),
    ("report_infeasible(reason='')", [Infeasible()]),
    ("DONE", [Done()]),
    ("```python\nmouse_click(100, 200)\n```", [Click(point=AT)]),
    ("```\nmouse_click(100, 200)", [Click(point=AT)]),
    ("I click it.\nmouse_click(100, 200)", [Click(point=AT)]),
    ("<think>fill('a', 'b')</think>\nmouse_click(100, 200)", [Click(point=AT)]),
    ("mouse_move(100, 200)\nkeyboard_type('x')", [Move(point=AT), TypeText(text="x")]),
    ("for key in ['a', 'b']:\n    keyboard_press(key)", [Press(keys=("a",)), Press(keys=("b",))]),
    ("x = 50\nmouse_click(x * 2, x * 4)", [Click(point=AT)]),
    ("from browsergym import mouse_click\nmouse_click(100, 200)", [Click(point=AT)]),
]


@pytest.mark.parametrize(("text", "actions"), FORMS)
def test_a_form_is_its_actions(text: str, actions: list[Action]) -> None:
    turn = BROWSERGYM.parse(text, VIEW)
    assert turn.error is None
    assert list(turn.actions) == actions


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("mouse_click()", "line 1: x: mouse_click needs it"),
        ("mouse_click(100)", "y: mouse_click needs it"),
        ("mouse_click('100', 200)", "x: must be a number, not the text '100'"),
        ("mouse_click(None, 200)", "x: must be a number, not null"),
        ("mouse_click(-5, 200)", "x: the point (-5, 200) is outside"),
        ("mouse_click(5, 2000)", "y: the point (5, 2000) is outside"),
        ("mouse_click(1e999, 2)", "a number is too large"),
        ("mouse_click(1, 2, 'back')", "button: must be one of left, middle, right"),
        ("mouse_click(1, 2, 'left', 4)", "mouse_click got 4 arguments; it takes x, y, button"),
        ("mouse_click(1, 2, x=3)", "x: mouse_click got it twice"),
        ("mouse_click(1, 2, clicks=3)", "clicks: mouse_click has no such argument"),
        ("mouse_click(1, mouse_move)", "y: must be a number, a text or a list"),
        ("mouse_drag_and_drop(1, 2, 3)", "to_y: mouse_drag_and_drop needs it"),
        ("mouse_drag_and_drop(1, 2, 3000, 4)", "to: the point (3000, 4) is outside"),
        ("scroll(0)", "delta_y: scroll needs it"),
        ("scroll('down', 1)", "delta_x: must be a number"),
        ("keyboard_press('')", "key: keyboard_press needs a key"),
        ("keyboard_press('Entr')", "there is no key 'Entr'; the nearest are enter"),
        ("keyboard_down('Control+a')", "key: must be one key, not 2"),
        ("keyboard_type(5)", "text: must be a text, not a number"),
        ("noop(-1)", "wait_ms: must be from 0"),
        ("mouse_move(1, 2)\nclick('a51')", "line 2: click is not offered; there are no element ids"),
        ("fill('237', 'example')", "fill is not offered; there are no element ids"),
        ("goto('http://example.com')", "goto is not offered; use the browser on the screen"),
        ("mouse_upload_file(1, 2, 'x')", "mouse_upload_file is not offered; use the file dialog"),
        ("jump(1)", "the name 'jump' is not known"),
        ("browsergym.jump(1)", "there is no function 'jump'; there are mouse_move"),
        ("__import__('os').system('true')", "the name '__import__' is not known"),
        ("eval('1')", "the name 'eval' is not known"),
        ("import os", "`os` cannot be imported; there are browsergym"),
        ("while True:\n    noop()", "`while` is not supported"),
        ("for i in range(300):\n    noop()", "more than 200 actions"),
        ("with noop(5):\n    noop()", "is not supported"),
        ("send_msg_to_user('a')\nnoop()", "nothing can follow it"),
        ("I look around.", "there is no code in the reply"),
    ],
)
def test_anything_else_is_an_error(text: str, part: str) -> None:
    turn = BROWSERGYM.parse(text, VIEW)
    assert turn.actions == ()
    assert part in str(turn.error)


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        (Click(point=AT), ["mouse_click(100, 200)"]),
        (Click(point=AT, clicks=3), ["mouse_click(100, 200)"] * 3),
        (
            Click(point=AT, modifiers=("ctrl",)),
            ["keyboard_down('Control')", "mouse_click(100, 200)", "keyboard_up('Control')"],
        ),
        (
            Drag(path=(AT, TO, AT), button="right"),
            ["mouse_down(100, 200, 'right')", "mouse_move(300, 400)", "mouse_up(100, 200, 'right')"],
        ),
        (Scroll(point=AT, dy=2), ["mouse_move(100, 200)", "scroll(0, -240)"]),
        (Press(keys=("ctrl", "+")), ["keyboard_press('Control+plus')"]),
        (Press(keys=("a",), hold_s=0.5), ["keyboard_down('a')", "noop(500)", "keyboard_up('a')"]),
        (Screenshot(), ["noop(0)"]),
        (Answer(text="it's 42"), ['send_msg_to_user("it\'s 42")']),
        (Done(), ["send_msg_to_user('DONE')"]),
        (Infeasible(reason="no"), ["report_infeasible('no')"]),
    ],
)
def test_actions_are_written_in_its_words(action: Action, lines: list[str]) -> None:
    assert BROWSERGYM.render(action, VIEW).split("\n") == lines


@pytest.mark.parametrize(
    ("action", "part"),
    [
        (Click(), "no click at the pointer"),
        (ButtonDown(), "no button_down at the pointer"),
        (Drag(path=(AT,)), "no drag at the pointer"),
        (Click(point=AT, button="back"), "no button back"),
    ],
)
def test_what_has_no_words(action: Action, part: str) -> None:
    with pytest.raises(Inexpressible, match=part):
        BROWSERGYM.render(action, VIEW)
