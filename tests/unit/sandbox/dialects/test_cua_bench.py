"""The cua-bench dialect: its actions by both names, the words, errors that name the field."""

from __future__ import annotations

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

VIEW = View.unscaled(1920, 1080)
CUA_BENCH = get_dialect("cua-bench")
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)

CALLS: list[tuple[str, str, list[Action]]] = [
    ("Click", "(x=100, y=200)", [Click(point=AT)]),
    ("Click", "(100, 200)", [Click(point=AT)]),
    ("RightClick", "(x=100, y=200)", [Click(point=AT, button="right")]),
    ("DoubleClick", "(x=100, y=200)", [Click(point=AT, clicks=2)]),
    ("MiddleClick", "(x=100, y=200)", [Click(point=AT, button="middle")]),
    ("MoveTo", "(x=100, y=200)", [Move(point=AT)]),
    ("MoveTo", "(x=100, y=200, duration=0.5)", [Move(point=AT)]),
    ("Drag", "(from_x=100, from_y=200, to_x=300, to_y=400)", [Drag(path=(AT, TO))]),
    ("Drag", "(100, 200, 300, 400, duration=1.0)", [Drag(path=(AT, TO))]),
    ("Scroll", "(direction='down', amount=240)", [Scroll(dy=-2)]),
    ("Scroll", "(direction='up', amount=100)", [Scroll(dy=1)]),
    ("Scroll", "('left', 120)", [Scroll(dx=-1)]),
    ("Scroll", "(direction='right')", [Scroll(dx=1)]),
    ("Scroll", "()", [Scroll(dy=-1)]),
    ("Key", "(key='Enter')", [Press(keys=("enter",))]),
    ("Key", "('+')", [Press(keys=("+",))]),
    ("Type", "(text='it\\'s; (x)')", [TypeText(text="it's; (x)")]),
    ("Hotkey", "(keys=['ctrl', 's'])", [Press(keys=("ctrl", "s"))]),
    ("Hotkey", "('ctrl+s')", [Press(keys=("ctrl", "s"))]),
    ("Wait", "(seconds=2.5)", [Wait(seconds=2.5)]),
    ("Wait", "()", [Wait(seconds=1)]),
    ("Done", "()", [Done()]),
]


@pytest.mark.parametrize(("name", "arguments", "actions"), CALLS)
def test_a_form_by_either_name(name: str, arguments: str, actions: list[Action]) -> None:
    for text in (
        f"{name}{arguments}",
        f"{name}Action{arguments}",
        f"I do it.\n```python\n{name}{arguments}\n```",
        f"<think>Done()</think>\n{name}{arguments}",
        f"import cua_bench as cb\ncb.{name}Action{arguments}",
    ):
        turn = CUA_BENCH.parse(text, VIEW)
        assert turn.error is None
        assert list(turn.actions) == actions


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("DONE", [Done()]),
        ("FAIL", [Infeasible()]),
        ("WAIT", [Wait(seconds=1)]),
        ("The task is finished. DONE", [Done()]),
        ("Click(100, 200)\nDone()", [Click(point=AT), Done()]),
        ("for i in range(2):\n    Key('tab')", [Press(keys=("tab",))] * 2),
    ],
)
def test_a_form_of_a_whole_reply(text: str, actions: list[Action]) -> None:
    assert list(CUA_BENCH.parse(text, VIEW).actions) == actions


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Click()", "line 1: x: Click needs it"),
        ("Click(x=None, y=2)", "x: must be a number, not null"),
        ("Click(x='1', y=2)", "x: must be a number, not the text '1'"),
        ("Click(x=-5, y=2)", "x: the point (-5, 2) is outside"),
        ("Click(x=1, y=2, clicks=3)", "clicks: Click has no such argument"),
        ("Drag(1, 2, 3)", "to_y: Drag needs it"),
        ("Scroll(direction='in')", "direction: must be one of up, down, left, right"),
        ("Scroll('up', amount=-3)", "amount: must be from 0"),
        ("Key('')", "key: it needs a key"),
        ("Hotkey(keys=[])", "keys: it needs a key"),
        ("Hotkey(keys=['ctrl', None])", "keys: must be a list of key names"),
        ("Hotkey(keys=['contrl', 's'])", "there is no key 'contrl'"),
        ("Type(text=None)", "text: must be a text, not null"),
        ("Wait(seconds=-1)", "seconds: must be from 0"),
        ("Done(1)", "Done got 1 arguments; it takes none"),
        ("Done()\nClick(1, 2)", "nothing can follow it"),
        ("Jump(1, 2)", "the name 'Jump' is not known"),
        ("import os\nos.system('true')", "`os` cannot be imported; there are cua_bench"),
        ("I look around.", "there is no code in the reply"),
    ],
)
def test_anything_else_is_an_error(text: str, part: str) -> None:
    turn = CUA_BENCH.parse(text, VIEW)
    assert turn.actions == ()
    assert part in str(turn.error)


@pytest.mark.parametrize(
    ("action", "lines"),
    [
        (Click(point=AT), ["Click(x=100, y=200)"]),
        (Click(point=AT, clicks=3), ["Click(x=100, y=200)"] * 3),
        (Click(point=AT, button="right", clicks=2), ["RightClick(x=100, y=200)"] * 2),
        (Drag(path=(AT, TO)), ["Drag(from_x=100, from_y=200, to_x=300, to_y=400)"]),
        (
            Scroll(point=AT, dx=1, dy=-2),
            [
                "MoveTo(x=100, y=200)",
                "Scroll(direction='down', amount=240)",
                "Scroll(direction='right', amount=120)",
            ],
        ),
        (Press(keys=("enter",)), ["Key(key='enter')"]),
        (Press(keys=("ctrl", "s")), ["Hotkey(keys=['ctrl', 's'])"]),
        (Screenshot(), ["Wait(seconds=0)"]),
        (Answer(text="42"), ["Done()"]),
        (Infeasible(reason="no"), ["FAIL"]),
    ],
)
def test_actions_are_written_in_its_words(action: Action, lines: list[str]) -> None:
    assert CUA_BENCH.render(action, VIEW).split("\n") == lines


@pytest.mark.parametrize(
    "action", [Click(), Click(point=AT, modifiers=("ctrl",)), ButtonDown(point=AT), KeyDown(key="a"), Drag(path=(AT,))]
)
def test_what_has_no_words(action: Action) -> None:
    with pytest.raises(Inexpressible, match="has no words"):
        CUA_BENCH.render(action, VIEW)
