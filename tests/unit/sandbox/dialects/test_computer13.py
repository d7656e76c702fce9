"""The computer13 dialect: the thirteen actions flat and nested, the three words, errors that name the field."""

from __future__ import annotations

import json
from typing import Any

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
COMPUTER13 = get_dialect("computer13")
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)
WAIT = Wait(seconds=2)

PARAMETERS: list[tuple[str, dict[str, Any], list[Action]]] = [
    ("MOVE_TO", {"x": 100, "y": 200}, [Move(point=AT)]),
    ("MOVE_TO", {"x": 100.5, "y": 200.5}, [Move(point=AT)]),
    ("CLICK", {}, [Click()]),
    ("CLICK", {"x": 100, "y": 200}, [Click(point=AT)]),
    ("CLICK", {"button": "right"}, [Click(button="right")]),
    ("CLICK", {"num_clicks": 2}, [Click(clicks=2)]),
    ("CLICK", {"x": 100, "y": 200, "button": "middle", "num_clicks": 3}, [Click(point=AT, button="middle", clicks=3)]),
    ("MOUSE_DOWN", {}, [ButtonDown()]),
    ("MOUSE_DOWN", {"button": "right"}, [ButtonDown(button="right")]),
    ("MOUSE_UP", {"button": "left"}, [ButtonUp()]),
    ("RIGHT_CLICK", {"x": 100, "y": 200}, [Click(point=AT, button="right")]),
    ("RIGHT_CLICK", {}, [Click(button="right")]),
    ("DOUBLE_CLICK", {"x": 100, "y": 200}, [Click(point=AT, clicks=2)]),
    ("DRAG_TO", {"x": 300, "y": 400}, [Drag(path=(TO,))]),
    ("SCROLL", {"dx": 0, "dy": 5}, [Scroll(dy=5)]),
    ("SCROLL", {"dy": -5}, [Scroll(dy=-5)]),
    ("SCROLL", {"dx": 3, "dy": 0}, [Scroll(dx=3)]),
    ("SCROLL", {"dx": 0, "dy": -150}, [Scroll(dy=-100), Scroll(dy=-50)]),
    ("TYPING", {"text": "< é 美\n"}, [TypeText(text="< é 美\n")]),
    ("PRESS", {"key": "enter"}, [Press(keys=("enter",))]),
    ("PRESS", {"key": "'"}, [Press(keys=("'",))]),
    ("PRESS", {"key": "\\"}, [Press(keys=("\\",))]),
    ("PRESS", {"key": "\n"}, [Press(keys=("enter",))]),
    ("KEY_DOWN", {"key": "shiftleft"}, [KeyDown(key="shift")]),
    ("KEY_UP", {"key": "ctrlright"}, [KeyUp(key="ctrl_r")]),
    ("HOTKEY", {"keys": ["ctrl", "s"]}, [Press(keys=("ctrl", "s"))]),
    ("HOTKEY", {"keys": "ctrl+s"}, [Press(keys=("ctrl", "s"))]),
    ("WAIT", {}, [WAIT]),
    ("DONE", {}, [Done()]),
    ("FAIL", {}, [Infeasible()]),
]


@pytest.mark.parametrize(("kind", "parameters", "actions"), PARAMETERS)
def test_a_form_with_parameters_flat_or_nested(kind: str, parameters: dict[str, Any], actions: list[Action]) -> None:
    flat = json.dumps({"action_type": kind, **parameters})
    nested = json.dumps({"action_type": kind, "parameters": parameters})
    for text in (
        flat,
        nested,
        f"```json\n{flat}\n```",
        f"I do it.\n```\n{nested}",
        f"[{flat}]",
        f"<think>FAIL</think>{flat}",
    ):
        turn = COMPUTER13.parse(text, VIEW)
        assert turn.error is None
        assert list(turn.actions) == actions


MOVE = '{"action_type": "MOVE_TO", "x": 100, "y": 200}'
DRAG = '{"action_type": "DRAG_TO", "x": 300, "y": 400}'
FORMS: list[tuple[str, list[Action]]] = [
    ("WAIT", [WAIT]),
    ("DONE", [Done()]),
    ("FAIL", [Infeasible()]),
    ("Done.", [Done()]),
    ("fail", [Infeasible()]),
    ("**DONE**", [Done()]),
    ("```\nDONE\n```", [Done()]),
    ('"DONE"', [Done()]),
    ("The task is finished.\nDONE", [Done()]),
    ("The task is finished. DONE", [Done()]),
    (f"{MOVE}\nDONE", [Move(point=AT), Done()]),
    (f"WAIT\n{MOVE}", [WAIT, Move(point=AT)]),
    (f'[{MOVE}, "WAIT", {{"action_type": "DONE"}}]', [Move(point=AT), WAIT, Done()]),
    (f"{MOVE}\n{DRAG}", [Drag(path=(AT, TO))]),
    (f"[{MOVE}, {DRAG}]", [Drag(path=(AT, TO))]),
    (f"{DRAG}\n{MOVE}", [Drag(path=(TO,)), Move(point=AT)]),
    ('{"action_type": "click", "x": 100, "y": 200}', [Click(point=AT)]),
]


@pytest.mark.parametrize(("text", "actions"), FORMS)
def test_a_form_is_its_actions(text: str, actions: list[Action]) -> None:
    turn = COMPUTER13.parse(text, VIEW)
    assert turn.error is None
    assert list(turn.actions) == actions


MISTAKES = [
    ({"action_type": "CLICK", "x": None, "y": 2}, "x: must be a number, not null"),
    ({"action_type": "CLICK", "x": 1}, "y: CLICK needs it"),
    ({"action_type": "CLICK", "x": "1", "y": 2}, "x: must be a number, not the text '1'"),
    ({"action_type": "CLICK", "x": float("nan"), "y": 2}, "x: must be a finite number"),
    ({"action_type": "CLICK", "x": -5, "y": 2}, "x: the point (-5, 2) is outside"),
    ({"action_type": "CLICK", "x": 5, "y": 2000}, "y: the point (5, 2000) is outside"),
    ({"action_type": "CLICK", "num_clicks": 4}, "num_clicks: must be from 1 to 3"),
    ({"action_type": "CLICK", "num_clicks": 1.5}, "num_clicks: must be a whole number"),
    ({"action_type": "CLICK", "button": "back"}, "button: must be one of left, right, middle"),
    ({"action_type": "CLICK", "parameters": {"clicks": 2}}, "clicks: CLICK has no such argument"),
    ({"action_type": "CLICK", "parameters": [1]}, "parameters: must be an object"),
    ({"action_type": "MOVE_TO"}, "x: MOVE_TO needs it"),
    ({"action_type": "SCROLL", "dy": "up"}, "dy: must be a number"),
    ({"action_type": "SCROLL", "dy": 1e8}, "dy: must be from"),
    ({"action_type": "TYPING", "text": None}, "text: must be a text, not null"),
    ({"action_type": "TYPING", "text": "\x07"}, "U+0007"),
    ({"action_type": "PRESS"}, "key: PRESS needs it"),
    ({"action_type": "PRESS", "key": "entr"}, "key: there is no key 'entr'; the nearest are enter"),
    ({"action_type": "HOTKEY", "keys": []}, "keys: HOTKEY needs at least one key"),
    ({"action_type": "HOTKEY", "keys": ["ctrl", None]}, "keys: must be a list of key names"),
    ({"action_type": "FLY"}, "action_type: must be one of MOVE_TO, CLICK"),
    ({"x": 1}, "action_type: must be one of"),
]


@pytest.mark.parametrize(("given", "part"), MISTAKES)
def test_a_mistake_is_told_with_its_field(given: dict[str, Any], part: str) -> None:
    turn = COMPUTER13.parse(json.dumps(given), VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert turn.error.where == "action 1"
    assert part in turn.error.message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("I am done with it.", "no action"),
        ("I should say DONE at the end", "no action"),
        ("", "no action"),
        ('{"action_type": "CLICK", "x": 1', "this is not JSON"),
        ('{"action_type": "DONE"}\n' + MOVE, "nothing can follow it"),
        ('["JUMP"]', "must be an object with an action_type"),
        ("```bash\nls\n```", "no action"),
    ],
)
def test_anything_else_is_an_error(text: str, part: str) -> None:
    assert part in str(COMPUTER13.parse(text, VIEW).error)


def test_thoughts_are_kept() -> None:
    assert COMPUTER13.parse(f"<think>hm</think>I move.\n```json\n{MOVE}\n```", VIEW).thought == "hm\nI move."


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        (Click(point=AT), ['{"action_type": "CLICK", "x": 100, "y": 200}']),
        (ButtonDown(point=AT), [MOVE, '{"action_type": "MOUSE_DOWN", "button": "left"}']),
        (Drag(path=(AT, TO)), [MOVE, DRAG]),
        (Scroll(point=AT, dy=2), [MOVE, '{"action_type": "SCROLL", "dx": 0, "dy": 2}']),
        (Wait(seconds=5), ['{"action_type": "WAIT"}'] * 3),
        (Screenshot(), ['{"action_type": "WAIT"}']),
        (Answer(text="42"), ['{"action_type": "DONE"}']),
        (Infeasible(reason="no"), ['{"action_type": "FAIL"}']),
        (Press(keys=("é",)), ['{"action_type": "PRESS", "key": "é"}']),
    ],
)
def test_actions_are_written_in_its_words(action: Action, lines: list[str]) -> None:
    assert COMPUTER13.render(action, VIEW).split("\n") == lines


def test_what_has_no_words() -> None:
    with pytest.raises(Inexpressible, match="no button back"):
        COMPUTER13.render(Click(button="back"), VIEW)
