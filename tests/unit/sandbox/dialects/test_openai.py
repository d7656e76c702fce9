"""The OpenAI dialects: every action, every envelope, endings in words, and errors that name the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandbox.actions import (
    Action,
    Answer,
    ButtonDown,
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
from sandbox.dialects import Inexpressible, ParseError, View, get_dialect

VIEW = View.unscaled(1920, 1080)
OPENAI = get_dialect("openai")
PREVIEW = get_dialect("openai-preview")
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)
XY = '"x": 100, "y": 200'
CLICK = '{"type": "click", "button": "left", "x": 100, "y": 200}'
CALL = f'{{"type": "computer_call", "call_id": "call_1", "action": {CLICK}, "pending_safety_checks": [{{"id": "s"}}]}}'

FORMS: list[tuple[str, list[Action]]] = [
    (CLICK, [Click(point=AT)]),
    (f'{{"type": "click", "button": "right", {XY}}}', [Click(point=AT, button="right")]),
    (f'{{"type": "click", "button": "wheel", {XY}}}', [Click(point=AT, button="middle")]),
    (f'{{"type": "click", "button": "back", {XY}}}', [Click(point=AT, button="back")]),
    (f'{{"type": "click", "button": "forward", {XY}}}', [Click(point=AT, button="forward")]),
    (f'{{"type": "click", "button": "left", {XY}, "keys": ["CTRL"]}}', [Click(point=AT, modifiers=("ctrl",))]),
    (f'{{"type": "click", "button": "left", {XY}, "keys": null}}', [Click(point=AT)]),
    (f'{{"type": "click", {XY}}}', [Click(point=AT)]),
    ('{"type": "click", "button": "left", "x": 100.7, "y": 200.2}', [Click(point=AT)]),
    ('{"type": "click", "button": "left"}', [Click()]),
    (f'{{"type": "double_click", {XY}}}', [Click(point=AT, clicks=2)]),
    (f'{{"type": "double_click", {XY}, "keys": ["shift"]}}', [Click(point=AT, clicks=2, modifiers=("shift",))]),
    ('{"type": "drag", "path": [{"x": 100, "y": 200}, {"x": 300, "y": 400}]}', [Drag(path=(AT, TO))]),
    ('{"type": "drag", "path": [[100, 200], [300, 400], [100, 200]]}', [Drag(path=(AT, TO, AT))]),
    (
        '{"type": "drag", "path": [[100, 200], [300, 400]], "keys": ["alt"]}',
        [Drag(path=(AT, TO), modifiers=("alt",))],
    ),
    ('{"type": "keypress", "keys": ["CTRL", "S"]}', [Press(keys=("ctrl", "s"))]),
    ('{"type": "keypress", "keys": ["ENTER"]}', [Press(keys=("enter",))]),
    ('{"type": "keypress", "keys": ["ARROWDOWN"]}', [Press(keys=("down",))]),
    ('{"type": "keypress", "keys": ["CTRL", "+"]}', [Press(keys=("ctrl", "+"))]),
    ('{"type": "keypress", "keys": ["ctrl+shift+t"]}', [Press(keys=("ctrl", "shift", "t"))]),
    ('{"type": "keypress", "keys": ["CTRL+A"]}', [Press(keys=("ctrl", "a"))]),
    ('{"type": "keypress", "keys": ["A"]}', [Press(keys=("A",))]),
    ('{"type": "keypress", "keys": ["CMD", "SPACE"]}', [Press(keys=("super", "space"))]),
    (f'{{"type": "move", {XY}}}', [Move(point=AT)]),
    (f'{{"type": "move", {XY}, "keys": ["SHIFT"]}}', [KeyDown(key="shift"), Move(point=AT), KeyUp(key="shift")]),
    ('{"type": "screenshot"}', [Screenshot()]),
    (f'{{"type": "scroll", {XY}, "scroll_x": 0, "scroll_y": 360}}', [Scroll(point=AT, dy=-3)]),
    (f'{{"type": "scroll", {XY}, "scroll_x": -240, "scroll_y": 0}}', [Scroll(point=AT, dx=-2)]),
    (f'{{"type": "scroll", {XY}, "scroll_x": 0, "scroll_y": -10}}', [Scroll(point=AT, dy=1)]),
    (f'{{"type": "scroll", {XY}, "scroll_y": 170}}', [Scroll(point=AT, dy=-1)]),
    (f'{{"type": "scroll", {XY}, "scroll_y": 180}}', [Scroll(point=AT, dy=-2)]),
    (f'{{"type": "scroll", {XY}, "scroll_y": 18000}}', [Scroll(point=AT, dy=-100), Scroll(point=AT, dy=-50)]),
    (
        f'{{"type": "scroll", {XY}, "scroll_x": 0, "scroll_y": 120, "keys": ["CTRL"]}}',
        [Scroll(point=AT, dy=-1, modifiers=("ctrl",))],
    ),
    ('{"type": "type", "text": "it\'s \\"x\\"\\n; C:\\\\new"}', [TypeText(text='it\'s "x"\n; C:\\new')]),
    ('{"type": "type", "text": "raw\nnewline"}', [TypeText(text="raw\nnewline")]),
    ('{"type": "wait"}', [Wait(seconds=1)]),
    # the API's envelopes
    (CALL, [Click(point=AT)]),
    (f"[{CALL}]", [Click(point=AT)]),
    (f"{CALL}\n{CALL}", [Click(point=AT)] * 2),
    (
        f'{{"type": "computer_call", "call_id": "call_1", "actions": [{CLICK}, {{"type": "wait"}}]}}',
        [Click(point=AT), Wait()],
    ),
    (f'{{"output": [{{"type": "reasoning", "summary": []}}, {CALL}]}}', [Click(point=AT)]),
    (
        f'{{"type": "function_call", "call_id": "call_1", "name": "computer", "arguments": {json.dumps(CLICK)}}}',
        [Click(point=AT)],
    ),
    (
        '{"role": "assistant", "content": "I click.", "tool_calls": [{"id": "call_1", "type": "function", "function": '
        f'{{"name": "computer", "arguments": {json.dumps(CLICK)}}}}}]}}',
        [Click(point=AT)],
    ),
    (f"I click.\n```json\n{CALL}\n```", [Click(point=AT)]),
    (f"```json\n{CALL}", [Click(point=AT)]),
    (f"<think>[INFEASIBLE]?</think>{CALL}", [Click(point=AT)]),
    # endings
    ("DONE", [Done()]),
    ("Done.", [Done()]),
    ("**DONE**", [Done()]),
    ("The file is saved. DONE", [Done()]),
    ('{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "DONE"}]}', [Done()]),
    ("FAIL", [Infeasible()]),
    ("[INFEASIBLE]", [Infeasible()]),
    ("[INFEASIBLE] there is no such file", [Infeasible(reason="there is no such file")]),
    ("[INFEASIBLE]: there is no such file", [Infeasible(reason="there is no such file")]),
    ("I looked everywhere.\n**[INFEASIBLE]** no such file", [Infeasible(reason="I looked everywhere. no such file")]),
    ("There is no such file. [INFEASIBLE]", [Infeasible(reason="There is no such file.")]),
    ("There is no such file. FAIL", [Infeasible(reason="There is no such file.")]),
    ("It is 42.", [Answer(text="It is 42.")]),
    ("[ANSWER] DONE", [Answer(text="DONE")]),
    ("I could write [INFEASIBLE] here, but it is 42", [Answer(text="I could write [INFEASIBLE] here, but it is 42")]),
    ("<think>[INFEASIBLE]</think>42", [Answer(text="42")]),
    (f'{CALL}\n{{"type": "message", "content": "DONE"}}', [Click(point=AT), Done()]),
    (f'{CALL}\n{{"type": "message", "content": "I am done when this opens."}}', [Click(point=AT)]),
    (f'{{"type": "message", "content": "[INFEASIBLE]"}}\n{CALL}', [Click(point=AT)]),
    (
        '[{"type": "reasoning", "summary": [{"type": "summary_text", "text": "[INFEASIBLE]"}]}, '
        '{"type": "message", "content": "42"}]',
        [Answer(text="42")],
    ),
]


@pytest.mark.parametrize(("text", "actions"), FORMS)
def test_a_form_is_its_actions(text: str, actions: list[Action]) -> None:
    for dialect in (OPENAI, PREVIEW):
        turn = dialect.parse(text, VIEW)
        assert turn.error is None
        assert list(turn.actions) == actions


def click(**fields: Any) -> str:
    return json.dumps({"type": "click", "button": "left", "x": 100, "y": 200} | fields)


MISTAKES = [
    (click(x=None), "x: must be a number, not null"),
    (click(x="100"), "x: must be a number, not the text '100'"),
    (click(y="__import__('os').system('ls')"), "y: must be a number, not the text"),
    (click(y=True), "y: must be a number, not true"),
    (click(x=[1, 2]), "x: must be a number, not a list"),
    (click(x=float("nan")), "x: must be a finite number"),
    (click(x=float("inf")), "x: must be a finite number"),
    (click(x=-5), "x: the point (-5, 200) is outside the screen; x goes from 0 to 1919"),
    (click(y=5000), "y: the point (100, 5000) is outside"),
    (click(y=-1), "y: the point"),
    (click(button="purple"), "button: must be one of left, right, wheel"),
    (click(button=None), "button: must be a text, not null"),
    (click(keys=["contrl"]), "keys: there is no key 'contrl'"),
    (click(keys=5), "keys: must be a list of key names"),
    (click(clicks=2), "clicks: click has no such argument"),
    (click(buton="left"), "buton: click has no such argument; did you mean 'button'"),
    ('{"type": "click", "button": "left", "x": 100}', "y: click needs it"),
    ('{"type": "move"}', "x: move needs it"),
    ('{"type": "drag", "path": []}', "path: "),
    ('{"type": "drag", "path": [{"x": 1, "y": null}]}', "path[0].y: must be a number, not null"),
    ('{"type": "drag", "path": [{"x": 1}]}', "path[0]: a point has x and y"),
    ('{"type": "drag", "path": [[1, 2, 3]]}', "path[0]: must be two numbers"),
    ('{"type": "drag"}', "path: drag needs it"),
    ('{"type": "scroll", "x": 1, "y": 2, "scroll_y": "down"}', "scroll_y: must be a number"),
    ('{"type": "scroll", "x": 1, "y": 2, "scroll_y": 1e12}', "scroll_y: must be from"),
    ('{"type": "scroll", "x": 1, "y": 2, "scroll_y": 100000000}', "too far"),
    ('{"type": "keypress", "keys": []}', "keys: keypress needs at least one key"),
    ('{"type": "keypress"}', "keys: keypress needs"),
    ('{"type": "type", "text": ""}', "text: "),
    ('{"type": "type", "text": 5}', "text: must be a text"),
    ('{"type": "type"}', "text: type needs it"),
    ('{"type": "triple_click", "x": 1, "y": 2}', "type: must be one of click, double_click"),
    ('{"type": null}', "type: must be one of"),
    ('{"type": "computer_call", "action": [1]}', "action: must be an object"),
    (f'{{"type": "computer_call", "actions": [{CLICK}, {{"type": "x"}}]}}', "call 1: actions[1].type: must be one of"),
    ('{"type": "computer_call", "actions": []}', "no action"),
    ('{"type": "function_call", "name": "bash", "arguments": "{}"}', "name: there is only the tool computer"),
    ('{"type": "function_call", "name": "computer", "arguments": "{"}', "this is not JSON"),
    ('{"type": "click", "x": 1, "x": 2}', "'x' is given twice"),
    ('{"type": "click", "x": 1,', "line 1: this is not JSON"),
    ("Now:\n{'type': 'click'}", "line 2: this is not JSON"),
    (
        f'{{"type": "message", "content": "DONE"}} {CLICK} {{"type": "message", "content": 5}}',
        "content: must be a text",
    ),
    ("<think>Hm", "ends inside its thoughts"),
    ("", "no action"),
    ('{"type": [1]}', "type: must be one of"),
    ('{"type": {}, "id": "x"}', "type: must be one of"),
    ("[" * 60_000, "brackets in the reply are not JSON"),
    ('{"a":' * 10_000, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "part"), MISTAKES)
def test_a_mistake_is_told_with_its_field(text: str, part: str) -> None:
    turn = OPENAI.parse(text, VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert part in str(turn.error)


def test_ids_and_thoughts_are_kept() -> None:
    text = f'[{{"type": "reasoning", "summary": [{{"text": "hm"}}]}}, {{"type": "message", "content": "so"}}, {CALL}]'
    turn = OPENAI.parse(text, VIEW)
    assert (turn.thought, turn.tool_call_ids, turn.raw) == ("hm\nso", ("call_1",), text)


def test_every_call_of_a_refused_reply_can_be_answered() -> None:
    turn = OPENAI.parse(f'{{"type": "computer_call", "call_id": "call_0", "action": {{"type": "x"}}}}\n{CALL}', VIEW)
    assert turn.error is not None
    assert turn.tool_call_ids == ("call_0", "call_1")
    told = OPENAI.render_result(turn.error, turn.tool_call_ids)
    assert "call 1: type: must be one of" in told
    assert "call_0, call_1" in told
    assert OPENAI.render_result(ParseError(message="no", where="")).endswith("no")


def test_calls_are_written_as_the_api_gives_them() -> None:
    three = Click(point=AT, clicks=3)
    one = {"type": "click", "button": "left", "x": 100, "y": 200}
    assert json.loads(OPENAI.render(three, VIEW)) == {"type": "computer_call", "actions": [one] * 3}
    lines = PREVIEW.render(three, VIEW).split("\n")
    assert [json.loads(line) for line in lines] == [{"type": "computer_call", "action": one}] * 3
    keys = json.loads(PREVIEW.render(Press(keys=("ctrl", "left", "S", "é")), VIEW))["action"]["keys"]
    assert keys == ["CTRL", "ARROWLEFT", "U0053", "é"]
    with pytest.raises(Inexpressible, match="button_down"):
        OPENAI.render(ButtonDown(), VIEW)
