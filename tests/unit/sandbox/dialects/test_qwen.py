"""The Qwen dialects: every action of `computer_use`, every envelope, the spaces of coordinates, errors by field."""

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
    Move,
    Point,
    Press,
    Screenshot,
    Scroll,
    TypeText,
    Wait,
)
from sandbox.dialects import Inexpressible, View, get_dialect

NAMES = ("qwen25", "qwen3", "qwen3-absolute")
QWEN3 = get_dialect("qwen3")
# 0-999 counts its pixels, and so do both resized spaces near enough to the corner.
VIEW = View.unscaled(1000, 1000)
AT = Point(x=10, y=20)
TO = Point(x=12, y=14)


def call(action: str, **fields: Any) -> str:
    made = {"name": "computer_use", "arguments": {"action": action, **fields}}
    return f"<tool_call>\n{json.dumps(made, ensure_ascii=False)}\n</tool_call>"


XY = [10, 20]
CLICK = call("left_click", coordinate=XY)
BARE = '{"action": "left_click", "coordinate": [10, 20]}'
NAMED = f'{{"name": "computer_use", "arguments": {BARE}}}'

FORMS: list[tuple[str, list[Action]]] = [
    (call("key", keys=["ctrl", "s"]), [Press(keys=("ctrl", "s"))]),
    (call("key", keys=["enter"]), [Press(keys=("enter",))]),
    (call("key", keys=["Ctrl+S"]), [Press(keys=("ctrl", "S"))]),
    (call("key", keys="ctrl+s"), [Press(keys=("ctrl", "s"))]),
    (call("key", keys=["ctrl", "+"]), [Press(keys=("ctrl", "+"))]),
    (call("type", text='it\'s </tool_call> {"a": 1}\n'), [TypeText(text='it\'s </tool_call> {"a": 1}\n')]),
    (call("type", text="</think>"), [TypeText(text="</think>")]),
    (call("mouse_move", coordinate=XY), [Move(point=AT)]),
    (CLICK, [Click(point=AT)]),
    (call("left_click"), [Click()]),
    (call("left_click", coordinate=[10.5, 20.9]), [Click(point=AT)]),
    (call("left_click", coordinate=XY, text=""), [Click(point=AT)]),
    (call("right_click", coordinate=XY), [Click(point=AT, button="right")]),
    (call("middle_click", coordinate=XY), [Click(point=AT, button="middle")]),
    (call("double_click", coordinate=XY), [Click(point=AT, clicks=2)]),
    (call("triple_click", coordinate=XY), [Click(point=AT, clicks=3)]),
    (call("left_click_drag", coordinate=[12, 14]), [Drag(path=(TO,))]),
    (call("mouse_move", coordinate=XY) + call("left_click_drag", coordinate=[12, 14]), [Drag(path=(AT, TO))]),
    (call("scroll", pixels=-240), [Scroll(dy=-2)]),
    (call("scroll", pixels=-5), [Scroll(dy=-1)]),
    (call("scroll", pixels=360, coordinate=XY), [Scroll(point=AT, dy=3)]),
    (call("hscroll", pixels=120), [Scroll(dx=1)]),
    (call("wait", time=2), [Wait(seconds=2)]),
    (call("wait"), [Wait()]),
    (call("terminate", status="success"), [Done()]),
    (call("terminate", status="failure"), [Infeasible()]),
    (call("terminate", status="failure", text="no such file"), [Infeasible(reason="no such file")]),
    (call("answer", text="42"), [Answer(text="42")]),
    # envelopes
    (f"Action: click on Save.\n{CLICK}", [Click(point=AT)]),
    (f"<think>[INFEASIBLE]? DONE</think>\n{CLICK}", [Click(point=AT)]),
    (f"I could stop: DONE.</think>\n{CLICK}", [Click(point=AT)]),
    (f"{CLICK}\n{CLICK}", [Click(point=AT)] * 2),
    (CLICK.removesuffix("</tool_call>"), [Click(point=AT)]),
    (CLICK.removeprefix("<tool_call>\n"), [Click(point=AT)]),
    (NAMED, [Click(point=AT)]),
    (BARE, [Click(point=AT)]),
    (f"```json\n{BARE}\n```", [Click(point=AT)]),
    (f"[{NAMED}, {NAMED}]", [Click(point=AT)] * 2),
    (f'{{"name": "computer_use", "arguments": {json.dumps(BARE)}}}', [Click(point=AT)]),
    (f'{{"id": "c1", "type": "function", "function": {NAMED}}}', [Click(point=AT)]),
    (
        f'{{"role": "assistant", "tool_calls": [{{"id": "c1", "type": "function", "function": {NAMED}}}]}}',
        [Click(point=AT)],
    ),
    ("DONE", [Done()]),
    (f"{CLICK}\nDONE", [Click(point=AT), Done()]),
    ("[INFEASIBLE] no such file", [Infeasible(reason="no such file")]),
]


@pytest.mark.parametrize(("text", "actions"), FORMS)
def test_a_form_is_its_actions(text: str, actions: list[Action]) -> None:
    for name in NAMES:
        turn = get_dialect(name).parse(text, VIEW)
        assert turn.error is None
        assert list(turn.actions) == actions


MISTAKES = [
    (call("left_click", coordinate=None), "coordinate: must be two numbers such as [100, 200], not null"),
    (call("left_click", coordinate="(1, 2)"), "coordinate: must be two numbers"),
    (call("left_click", coordinate=[1]), "coordinate: must be two numbers"),
    (call("left_click", coordinate=[1, "2"]), "coordinate[1]: must be a number, not the text '2'"),
    (call("left_click", coordinate=[float("nan"), 1]), "coordinate[0]: must be a finite number"),
    (
        call("left_click", coordinate=[1000, 1]),
        "coordinate: the point (1000, 1) is outside the screen; x goes from 0 to 999",
    ),
    (call("left_click", coordinate=[1, -1]), "coordinate: the point (1, -1) is outside"),
    (call("left_click", coordinate=XY, keys=["ctrl"]), "keys: left_click has no such argument"),
    (call("mouse_move"), "coordinate: mouse_move needs it"),
    (call("left_click_drag"), "coordinate: left_click_drag needs it"),
    (call("key"), "keys: key needs at least one key"),
    (call("key", keys=["contrl"]), "keys: there is no key 'contrl'"),
    (call("key", keys=[1]), "keys: must be a list of key names"),
    (call("key", keys=list("abcdefghi")), "keys: "),
    (call("scroll"), "pixels: scroll needs it"),
    (call("scroll", pixels="down"), "pixels: must be a number, not the text 'down'"),
    (call("wait", time=-1), "time: must be from 0 to 60"),
    (call("wait", time=None), "time: must be a number, not null"),
    (call("terminate"), "status: terminate needs it"),
    (call("terminate", status="maybe"), "status: must be one of success, failure"),
    (call("answer"), "text: answer needs it"),
    (call("type", text=None), "text: must be a text, not null"),
    (call("fly"), "action: must be one of key, type"),
    (call("left_click").replace("computer_use", "bash"), "name: there is only the function computer_use"),
    ('<tool_call>{"name": "computer_use"}</tool_call>', "action: must be one of"),
    ('<tool_call>{"name": "computer_use", "arguments": [1]}</tool_call>', "arguments: must be an object"),
    ('<tool_call>{"name": "computer_use", "arguments": "{"}</tool_call>', "this is not JSON"),
    ('<tool_call>\n{"name": "computer_use", "arguments": {"action": "key"', "line 2: this is not JSON"),
    ("I click on Save.", "there is no <tool_call> in the reply"),
    (f"<think>{CLICK}", "ends inside its thoughts"),
    ("", "there is no <tool_call>"),
    ('{"action": [[]]}', "action: must be one of"),
    (call("terminate", status="success") + CLICK, "nothing can follow it"),
]


@pytest.mark.parametrize(("text", "part"), MISTAKES)
def test_a_mistake_is_told_with_its_field(text: str, part: str) -> None:
    turn = QWEN3.parse(text, VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert part in str(turn.error)


@pytest.mark.parametrize(
    ("name", "at"), [("qwen25", [966, 546]), ("qwen3", [500, 500]), ("qwen3-absolute", [960, 544])]
)
def test_each_generation_counts_its_own_way(name: str, at: list[int]) -> None:
    view = View.unscaled(1920, 1080)
    click = Click(point=Point(x=960, y=540))
    assert get_dialect(name).parse(call("left_click", coordinate=at), view).actions == (click,)
    assert get_dialect(name).render(click, view) == call("left_click", coordinate=at)


def test_ids_and_thoughts_are_kept() -> None:
    text = f'Save it.\n{{"id": "c1", "type": "function", "function": {NAMED}}}'
    turn = QWEN3.parse(text, VIEW)
    assert (turn.thought, turn.tool_call_ids, turn.raw) == ("Save it.", ("c1",), text)


def test_a_mistake_is_told_as_the_tools_response() -> None:
    told = QWEN3.render_result("outside")
    assert told == "<tool_response>\nAn action was refused: outside\n</tool_response>"


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Drag(path=(AT, TO)), call("mouse_move", coordinate=XY) + "\n" + call("left_click_drag", coordinate=[12, 14])),
        (Scroll(dx=1, dy=-2), call("scroll", pixels=-240) + "\n" + call("hscroll", pixels=120)),
        (Click(button="right", clicks=2), "\n".join([call("right_click")] * 2)),
        (Screenshot(), call("wait", time=0)),
        (Infeasible(reason="é"), call("terminate", status="failure", text="é")),
    ],
)
def test_actions_are_written_as_these_models_write_them(action: Action, text: str) -> None:
    assert QWEN3.render(action, VIEW) == text


def test_what_has_no_words() -> None:
    for action in (ButtonDown(), KeyDown(key="a"), Click(modifiers=("ctrl",)), Press(keys=("a",), hold_s=1)):
        with pytest.raises(Inexpressible):
            QWEN3.render(action, VIEW)
