"""The bytebot dialect: its actions as tool uses and as bare bodies, the endings, errors that name the field."""

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
BYTEBOT = get_dialect("bytebot")
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)
XY = {"x": 100, "y": 200}
PATH = [XY, {"x": 300, "y": 400}]

INPUTS: list[tuple[str, dict[str, Any], list[Action]]] = [
    ("move_mouse", {"coordinates": XY}, [Move(point=AT)]),
    ("trace_mouse", {"path": PATH}, [Move(point=AT), Move(point=TO)]),
    (
        "trace_mouse",
        {"path": [XY], "holdKeys": ["shift"]},
        [KeyDown(key="shift"), Move(point=AT), KeyUp(key="shift")],
    ),
    ("click_mouse", {"coordinates": XY, "button": "left", "clickCount": 1}, [Click(point=AT)]),
    ("click_mouse", {"coordinates": XY, "button": "left", "clickCount": 3}, [Click(point=AT, clicks=3)]),
    (
        "click_mouse",
        {"coordinates": XY, "button": "right", "numClicks": 2},
        [Click(point=AT, button="right", clicks=2)],
    ),
    ("click_mouse", {"button": "middle"}, [Click(button="middle")]),
    ("click_mouse", {"coordinates": XY, "holdKeys": ["ctrl"]}, [Click(point=AT, modifiers=("ctrl",))]),
    ("press_mouse", {"coordinates": XY, "button": "left", "press": "down"}, [ButtonDown(point=AT)]),
    ("press_mouse", {"button": "right", "press": "up"}, [ButtonUp(button="right")]),
    ("drag_mouse", {"path": PATH, "button": "left"}, [Drag(path=(AT, TO))]),
    ("drag_mouse", {"path": [*PATH, XY], "button": "right"}, [Drag(path=(AT, TO, AT), button="right")]),
    ("drag_mouse", {"path": PATH, "holdKeys": ["shift"]}, [Drag(path=(AT, TO), modifiers=("shift",))]),
    ("scroll", {"coordinates": XY, "direction": "down", "scrollCount": 5}, [Scroll(point=AT, dy=-5)]),
    ("scroll", {"direction": "up", "numScrolls": 2}, [Scroll(dy=2)]),
    ("scroll", {"direction": "left", "scrollCount": 1, "holdKeys": ["ctrl"]}, [Scroll(dx=-1, modifiers=("ctrl",))]),
    ("scroll", {"direction": "right"}, [Scroll(dx=1)]),
    ("type_keys", {"keys": ["Control", "s"], "delay": 50}, [Press(keys=("ctrl", "s"))]),
    ("type_keys", {"keys": ["Return"]}, [Press(keys=("enter",))]),
    ("press_keys", {"keys": ["shift"], "press": "down"}, [KeyDown(key="shift")]),
    ("press_keys", {"keys": ["ctrl", "a"], "press": "up"}, [KeyUp(key="ctrl"), KeyUp(key="a")]),
    ("type_text", {"text": "< é 美\n", "delay": 10}, [TypeText(text="< é 美\n")]),
    ("paste_text", {"text": 'it\'s "x";'}, [TypeText(text='it\'s "x";')]),
    ("wait", {"duration": 1500}, [Wait(seconds=1.5)]),
    ("screenshot", {}, [Screenshot()]),
    ("cursor_position", {}, [Screenshot()]),
    ("set_task_status", {"status": "completed", "description": "saved"}, [Done()]),
    ("set_task_status", {"status": "needs_help", "description": "no such menu"}, [Infeasible(reason="no such menu")]),
    ("set_task_status", {"status": "failed"}, [Infeasible()]),
]


@pytest.mark.parametrize(("kind", "given", "actions"), INPUTS)
def test_a_form_as_a_tool_use_or_bare(kind: str, given: dict[str, Any], actions: list[Action]) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": f"computer_{kind}", "input": given}
    bare = json.dumps({"action": kind, **given})
    for text in (json.dumps(use), json.dumps({"role": "assistant", "content": [use]}), bare, f"I do it.\n{bare}"):
        turn = BYTEBOT.parse(text, VIEW)
        assert turn.error is None
        assert list(turn.actions) == actions
    assert BYTEBOT.parse(json.dumps(use), VIEW).tool_call_ids == ("toolu_1",)


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ('{"type": "tool_use", "name": "set_task_status", "input": {"status": "completed"}}', [Done()]),
        ("The total is 42.", [Answer(text="The total is 42.")]),
        ("[ANSWER] 42", [Answer(text="42")]),
        ("[INFEASIBLE] no network", [Infeasible(reason="no network")]),
        ('{"type": "text", "text": "DONE"}', [Done()]),
        (
            '[{"type": "text", "text": "I wait."}, {"type": "tool_use", "name": "computer_wait", "input": {}}]',
            [Wait(seconds=0.5)],
        ),
    ],
)
def test_a_form_of_a_whole_reply(text: str, actions: list[Action]) -> None:
    assert list(BYTEBOT.parse(text, VIEW).actions) == actions


MISTAKES = [
    ({"action": "click_mouse", "coordinates": None}, "coordinates: must be two numbers"),
    ({"action": "click_mouse", "coordinates": {"x": None, "y": 1}}, "coordinates.x: must be a number, not null"),
    ({"action": "click_mouse", "coordinates": {"x": "1", "y": 1}}, "coordinates.x: must be a number, not the text '1'"),
    ({"action": "click_mouse", "coordinates": {"x": float("nan"), "y": 1}}, "coordinates.x: must be a finite number"),
    ({"action": "click_mouse", "coordinates": {"x": -5, "y": 1}}, "coordinates: the point (-5, 1) is outside"),
    ({"action": "click_mouse", "clickCount": 4}, "clickCount: must be from 1 to 3"),
    ({"action": "click_mouse", "button": "back"}, "button: must be one of left, right, middle"),
    ({"action": "click_mouse", "clickcount": 2}, "clickcount: click_mouse has no such argument"),
    ({"action": "move_mouse"}, "coordinates: move_mouse needs it"),
    ({"action": "trace_mouse", "path": []}, "path: trace_mouse needs at least one point"),
    ({"action": "drag_mouse", "path": [XY]}, "path: drag_mouse needs at least two points, not 1"),
    ({"action": "drag_mouse", "path": [XY, {"x": 1}]}, "path[1]: a point has x and y"),
    ({"action": "press_mouse", "press": "left"}, "press: must be one of down, up"),
    ({"action": "scroll", "direction": "forward"}, "direction: must be one of up, down, left, right"),
    ({"action": "scroll"}, "direction: scroll needs it"),
    ({"action": "type_keys", "keys": []}, "keys: there must be at least one key"),
    ({"action": "type_keys", "keys": ["entr"]}, "there is no key 'entr'; the nearest are enter"),
    ({"action": "type_text", "text": None}, "text: must be a text, not null"),
    ({"action": "type_text", "text": "x", "delay": "slow"}, "delay: must be a number"),
    ({"action": "wait", "duration": -1}, "duration: must be from 0"),
    ({"action": "set_task_status", "status": "maybe"}, "status: must be one of completed, needs_help, failed"),
    ({"action": "application", "application": "firefox"}, "application is not offered; start it as a person does"),
    ({"action": "read_file", "path": "/etc/passwd"}, "read_file is not offered; open the file in a program"),
    ({"action": "write_file", "path": "/x", "data": ""}, "write_file is not offered; write the file with a program"),
    ({"action": "jump"}, "action: must be one of move_mouse, trace_mouse"),
    ({"type": "tool_use", "name": "create_task", "input": {}}, "action: must be one of move_mouse, trace_mouse"),
    ({"type": "tool_use", "name": "computer_wait", "input": 5}, "input: must be an object"),
]


@pytest.mark.parametrize(("given", "part"), MISTAKES)
def test_a_mistake_is_told_with_its_field(given: dict[str, Any], part: str) -> None:
    turn = BYTEBOT.parse(json.dumps(given), VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert turn.error.where == "tool use 1"
    assert part in turn.error.message


def test_a_mistake_is_answered_for_each_tool_use() -> None:
    turn = BYTEBOT.parse('{"type": "tool_use", "id": "a", "name": "computer_application", "input": {}}', VIEW)
    assert turn.error is not None
    (block,) = json.loads(BYTEBOT.render_result(turn.error, turn.tool_call_ids))
    assert (block["type"], block["tool_use_id"], block["is_error"]) == ("tool_result", "a", True)


@pytest.mark.parametrize(
    ("action", "uses"),
    [
        (Click(point=AT), [("computer_click_mouse", {"coordinates": XY, "button": "left", "clickCount": 1})]),
        (
            Drag(path=(AT,)),
            [
                ("computer_press_mouse", {"button": "left", "press": "down"}),
                ("computer_move_mouse", {"coordinates": XY}),
                ("computer_press_mouse", {"button": "left", "press": "up"}),
            ],
        ),
        (
            Press(keys=("ctrl", "a"), hold_s=0.5),
            [
                ("computer_press_keys", {"keys": ["ctrl"], "press": "down"}),
                ("computer_press_keys", {"keys": ["a"], "press": "down"}),
                ("computer_wait", {"duration": 500}),
                ("computer_press_keys", {"keys": ["a"], "press": "up"}),
                ("computer_press_keys", {"keys": ["ctrl"], "press": "up"}),
            ],
        ),
        (Done(), [("set_task_status", {"status": "completed", "description": ""})]),
        (Infeasible(reason="no"), [("set_task_status", {"status": "needs_help", "description": "no"})]),
    ],
)
def test_actions_are_written_in_its_words(action: Action, uses: list[tuple[str, dict[str, Any]]]) -> None:
    written = [json.loads(line) for line in BYTEBOT.render(action, VIEW).split("\n")]
    assert [(use["name"], use["input"]) for use in written] == uses


def test_what_has_no_words() -> None:
    with pytest.raises(Inexpressible, match="no button back"):
        BYTEBOT.render(Click(button="back"), VIEW)
