"""The Anthropic dialects: every action of three versions, every envelope, endings, and errors that name the field."""

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
NAMES = ("anthropic", "anthropic-20250124", "anthropic-20241022")
ANTHROPIC = get_dialect("anthropic")
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)


def use(action: str, **fields: Any) -> str:
    given = {"action": action, **fields}
    return json.dumps({"type": "tool_use", "id": "toolu_1", "name": "computer", "input": given})


XY = [100, 200]
CLICK = use("left_click", coordinate=XY)

FORMS: list[tuple[str, list[Action]]] = [
    (use("key", text="ctrl+s"), [Press(keys=("ctrl", "s"))]),
    (use("key", text="Return"), [Press(keys=("enter",))]),
    (use("key", text="Page_Down"), [Press(keys=("pagedown",))]),
    (use("key", text="super"), [Press(keys=("super",))]),
    (use("key", text="ctrl+plus"), [Press(keys=("ctrl", "+"))]),
    (use("key", text="ctrl++"), [Press(keys=("ctrl", "+"))]),
    (use("key", text="+"), [Press(keys=("+",))]),
    (use("key", text=" "), [Press(keys=("space",))]),
    (use("key", text="ctrl+S"), [Press(keys=("ctrl", "S"))]),
    (use("key", text="alt+Tab"), [Press(keys=("alt", "tab"))]),
    (use("key", text="KP_Enter"), [Press(keys=("kp_enter",))]),
    (use("key", text="XF86AudioRaiseVolume"), [Press(keys=("volumeup",))]),
    (use("key", text="Down Down ctrl+a"), [Press(keys=("down",)), Press(keys=("down",)), Press(keys=("ctrl", "a"))]),
    (use("type", text="it's <b>é</b>\n"), [TypeText(text="it's <b>é</b>\n")]),
    (use("mouse_move", coordinate=XY), [Move(point=AT)]),
    (CLICK, [Click(point=AT)]),
    (use("left_click"), [Click()]),
    (use("left_click", coordinate=XY, text="ctrl+shift"), [Click(point=AT, modifiers=("ctrl", "shift"))]),
    (use("left_click", coordinate=XY, key="shift"), [Click(point=AT, modifiers=("shift",))]),
    (use("left_click", coordinate=XY, text=None), [Click(point=AT)]),
    (use("left_click_drag", coordinate=[300, 400]), [Drag(path=(TO,))]),
    (use("left_click_drag", start_coordinate=XY, coordinate=[300, 400]), [Drag(path=(AT, TO))]),
    (use("right_click", coordinate=XY), [Click(point=AT, button="right")]),
    (use("middle_click"), [Click(button="middle")]),
    (use("double_click", coordinate=XY), [Click(point=AT, clicks=2)]),
    (use("triple_click", coordinate=XY), [Click(point=AT, clicks=3)]),
    (use("screenshot"), [Screenshot()]),
    (use("cursor_position"), [Screenshot()]),
    (use("left_mouse_down"), [ButtonDown()]),
    (use("left_mouse_up"), [ButtonUp()]),
    (use("left_mouse_up", coordinate=XY), [ButtonUp(point=AT)]),
    (use("scroll", coordinate=XY, scroll_direction="down", scroll_amount=3), [Scroll(point=AT, dy=-3)]),
    (use("scroll", scroll_direction="up", scroll_amount=3), [Scroll(dy=3)]),
    (use("scroll", coordinate=XY, scroll_direction="left", scroll_amount=3), [Scroll(point=AT, dx=-3)]),
    (use("scroll", coordinate=XY, scroll_direction="right", scroll_amount=0), [Scroll(point=AT)]),
    (use("scroll", coordinate=XY, scroll_direction="down", scroll_amount=5.0), [Scroll(point=AT, dy=-5)]),
    (
        use("scroll", coordinate=XY, scroll_direction="down", scroll_amount=3, text="ctrl"),
        [Scroll(point=AT, dy=-3, modifiers=("ctrl",))],
    ),
    (use("hold_key", text="shift+a", duration=1.5), [Press(keys=("shift", "a"), hold_s=1.5)]),
    (use("wait", duration=2), [Wait(seconds=2)]),
    (use("wait", duration=100), [Wait(seconds=60), Wait(seconds=40)]),
    # envelopes
    (f"[{CLICK}]", [Click(point=AT)]),
    (f'[{{"type": "text", "text": "I click."}}, {CLICK}]', [Click(point=AT)]),
    (f'{{"role": "assistant", "content": [{CLICK}, {CLICK}]}}', [Click(point=AT)] * 2),
    (f'{{"type": "message", "id": "msg_1", "content": [{CLICK}]}}', [Click(point=AT)]),
    ('{"action": "left_click", "coordinate": [100, 200]}', [Click(point=AT)]),
    ('I click.\n```json\n{"action": "left_click", "coordinate": [100, 200]}\n```\nSo.', [Click(point=AT)]),
    ('{"name": "computer", "input": {"action": "left_click", "coordinate": {"x": 100, "y": 200}}}', [Click(point=AT)]),
    # endings
    ("Done!", [Done()]),
    ('[{"type": "text", "text": "The file is saved. DONE"}]', [Done()]),
    ('{"role": "assistant", "content": "DONE."}', [Done()]),
    ('[{"type": "text", "text": "[INFEASIBLE] no such app"}]', [Infeasible(reason="no such app")]),
    ('[{"type": "text", "text": "It is 42."}]', [Answer(text="It is 42.")]),
    (
        '[{"type": "thinking", "thinking": "[INFEASIBLE]", "signature": "s"}, {"type": "text", "text": "It is 42."}]',
        [Answer(text="It is 42.")],
    ),
    (f'[{{"type": "text", "text": "[INFEASIBLE]? No."}}, {CLICK}]', [Click(point=AT)]),
    (f'[{CLICK}, {{"type": "text", "text": "DONE"}}]', [Click(point=AT), Done()]),
    (f'[{CLICK}, {{"type": "text", "text": "Then I am done."}}]', [Click(point=AT)]),
]


@pytest.mark.parametrize(("text", "actions"), FORMS)
def test_a_form_is_its_actions(text: str, actions: list[Action]) -> None:
    for name in NAMES:
        turn = get_dialect(name).parse(text, VIEW)
        assert turn.error is None
        assert list(turn.actions) == actions


MISTAKES = [
    (use("left_click", coordinate=None), "coordinate: must be two numbers such as [100, 200], not null"),
    (use("left_click", coordinate=[1]), "coordinate: must be two numbers"),
    (use("left_click", coordinate=[1, 2, 3]), "coordinate: must be two numbers"),
    (use("left_click", coordinate="[1, 2]"), "coordinate: must be two numbers such as [100, 200], not the text"),
    (use("left_click", coordinate=[1, None]), "coordinate[1]: must be a number, not null"),
    (use("left_click", coordinate=["1", 2]), "coordinate[0]: must be a number, not the text '1'"),
    (use("left_click", coordinate=[float("nan"), 2]), "coordinate[0]: must be a finite number"),
    (use("left_click", coordinate=[-5, 10]), "coordinate: the point (-5, 10) is outside the screen"),
    (use("left_click", coordinate=[5000, 10]), "x goes from 0 to 1919"),
    (use("left_click", coordinate=XY, text="contrl"), "text: there is no key 'contrl'; the nearest are ctrl"),
    (use("left_click", coordinate=XY, clicks=2), "clicks: left_click has no such argument"),
    (use("mouse_move"), "coordinate: mouse_move needs it"),
    (use("left_click_drag", start_coordinate=XY), "coordinate: left_click_drag needs it"),
    (use("scroll", coordinate=XY, scroll_amount=3), "scroll_direction: scroll needs it"),
    (use("scroll", scroll_direction="sideways", scroll_amount=3), "scroll_direction: must be one of up, down"),
    (use("scroll", scroll_direction="up", scroll_amount=-3), "scroll_amount: must be from 0"),
    (use("scroll", scroll_direction="up", scroll_amount=1.5), "scroll_amount: must be a whole number"),
    (use("scroll", scroll_direction="up", scroll_amount="3"), "scroll_amount: must be a number"),
    (use("wait", duration=-1), "duration: must be from 0 to 100"),
    (use("wait", duration=101), "duration: must be from 0 to 100"),
    (use("wait", duration=None), "duration: must be a number, not null"),
    (use("hold_key", text="a"), "duration: hold_key needs it"),
    (use("hold_key", text="a", duration=90), "duration: must be from 0 to 60"),
    (use("key"), "text: key needs it"),
    (use("key", text="entr"), "there is no key 'entr'; the nearest are enter"),
    (use("key", text="Down entr"), "there is no key 'entr'"),
    (use("type", text=None), "text: must be a text, not null"),
    (use("zoom", region=[0, 0, 10, 10]), "action: zoom is not offered"),
    (use("fly"), "action: must be one of key, type"),
    ('{"type": "tool_use", "name": "computer", "input": {}}', "action: must be one of"),
    ('{"type": "tool_use", "name": "computer", "input": null}', "input: must be an object"),
    ('{"type": "tool_use", "name": "bash", "input": {"command": "ls"}}', "name: there is only the tool computer"),
    ('{"type": "text"}', "text: must be a text"),
    ('{"type": "tool_use", "name": "computer", "input": {"action": "key"', "this is not JSON"),
    ('{"role": "assistant", "content": []}', "no action"),
    ("", "no action"),
    ('{"action": {}}', "action: must be one of"),
    ('{"type": [], "action": []}', "action: must be one of"),
]


@pytest.mark.parametrize(("text", "part"), MISTAKES)
def test_a_mistake_is_told_with_its_field(text: str, part: str) -> None:
    turn = ANTHROPIC.parse(text, VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert part in str(turn.error)


def test_every_tool_use_of_a_refused_reply_is_answered_as_the_api_wants_it() -> None:
    turn = ANTHROPIC.parse(f"[{CLICK.replace('toolu_1', 'toolu_0')}, {use('fly')}]", VIEW)
    assert turn.error is not None
    assert (turn.tool_call_ids, turn.error.where) == (("toolu_0", "toolu_1"), "tool use 2")
    blocks = json.loads(ANTHROPIC.render_result(turn.error, turn.tool_call_ids))
    assert [(block["type"], block["tool_use_id"], block["is_error"]) for block in blocks] == [
        ("tool_result", "toolu_0", True),
        ("tool_result", "toolu_1", True),
    ]
    assert "action: must be one of" in blocks[0]["content"]
    assert ANTHROPIC.render_result("outside") == "An action was refused: outside"


def test_ids_and_thoughts_are_kept() -> None:
    text = f'[{{"type": "thinking", "thinking": "hm"}}, {{"type": "text", "text": "so"}}, {CLICK}]'
    turn = ANTHROPIC.parse(text, VIEW)
    assert (turn.thought, turn.tool_call_ids, turn.raw) == ("hm\nso", ("toolu_1",), text)


@pytest.mark.parametrize(
    ("name", "action", "inputs"),
    [
        (
            "anthropic",
            Click(point=AT, modifiers=("ctrl",)),
            [{"action": "left_click", "coordinate": XY, "text": "ctrl"}],
        ),
        ("anthropic", Press(keys=("ctrl", "pagedown", "+")), [{"action": "key", "text": "ctrl+Page_Down+plus"}]),
        (
            "anthropic",
            ButtonDown(point=AT),
            [{"action": "mouse_move", "coordinate": XY}, {"action": "left_mouse_down"}],
        ),
        ("anthropic-20241022", Click(point=AT), [{"action": "mouse_move", "coordinate": XY}, {"action": "left_click"}]),
        (
            "anthropic-20241022",
            Drag(path=(AT, TO)),
            [{"action": "mouse_move", "coordinate": XY}, {"action": "left_click_drag", "coordinate": [300, 400]}],
        ),
        ("anthropic-20241022", Wait(seconds=4), [{"action": "screenshot"}] * 2),
    ],
)
def test_actions_are_written_as_their_version_has_them(name: str, action: Action, inputs: list[Any]) -> None:
    lines = get_dialect(name).render(action, VIEW).split("\n")
    assert [json.loads(line)["input"] for line in lines] == inputs


@pytest.mark.parametrize(
    "action", [Scroll(dy=1), Press(keys=("a",), hold_s=1), Click(modifiers=("ctrl",)), ButtonDown()]
)
def test_the_first_version_lacks_words(action: Action) -> None:
    assert ANTHROPIC.render(action, VIEW)
    with pytest.raises(Inexpressible, match="20241022"):
        get_dialect("anthropic-20241022").render(action, VIEW)
