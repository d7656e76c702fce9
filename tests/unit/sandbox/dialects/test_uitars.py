"""The UI-TARS dialects: every call, every way to write a point, quotes and escapes as models write them."""

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

V1 = get_dialect("uitars-v1")
V15 = get_dialect("uitars")
# The sides are multiples of 28 for the one version and 1000 for the other, so that a coordinate is its pixel.
VIEW = View.unscaled(2800, 2800)
SQUARE = View.unscaled(1000, 1000)
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)

POINTS = [
    "start_box='(100,200)'",
    "start_box='(100, 200)'",
    "start_box='[100,200]'",
    "start_box='100,200'",
    "start_box='<|box_start|>(100,200)<|box_end|>'",
    "start_box='<|box_start|>[100, 200]<|box_end|>'",
    "start_box='<|object_ref_start|><|box_start|>(100,200)<|box_end|>'",
    "point='<point>100 200</point>'",
    "start_box='<point>100 200</point>'",
    "start_point='<point>100 200</point>'",
    "point='<bbox>90 190 110 210</bbox>'",
    "start_box='[90,190,110,210]'",
    "start_box='(90, 190, 110, 210)'",
    "start_box='<|box_start|>(90,190),(110,210)<|box_end|>'",
    'start_box="(100,200)"',
    "start_box=(100,200)",
    "start_box=[100, 200]",
    "start_box='(100.9,200.4)'",
    "start_box = '(100,200)' ",
]

FORMS: list[tuple[str, list[Action]]] = [
    ("click()", [Click()]),
    ("left_single(point='<point>100 200</point>')", [Click(point=AT)]),
    ("left_double(start_box='(100,200)')", [Click(point=AT, clicks=2)]),
    ("right_single(start_box='(100,200)')", [Click(point=AT, button="right")]),
    ("hover(start_box='(100,200)')", [Move(point=AT)]),
    ("drag(start_box='(100,200)', end_box='(300,400)')", [Drag(path=(AT, TO))]),
    ("drag(start_point='<point>100 200</point>', end_point='<point>300 400</point>')", [Drag(path=(AT, TO))]),
    ("hotkey(key='ctrl c')", [Press(keys=("ctrl", "c"))]),
    ("hotkey(key='ctrl shift t')", [Press(keys=("ctrl", "shift", "t"))]),
    ("hotkey(key='ctrl+c')", [Press(keys=("ctrl", "c"))]),
    ("hotkey(key='ctrl + c')", [Press(keys=("ctrl", "c"))]),
    ("hotkey(key='ctrl +')", [Press(keys=("ctrl", "+"))]),
    ("hotkey(key='ctrl shift+t')", [Press(keys=("ctrl", "shift", "t"))]),
    ("hotkey(key='cmd a')", [Press(keys=("super", "a"))]),
    ("hotkey(key='page down')", [Press(keys=("pagedown",))]),
    ("hotkey(hotkey='enter')", [Press(keys=("enter",))]),
    ("press(key='a')", [Press(keys=("a",))]),
    ("press(key='arrowdown')", [Press(keys=("down",))]),
    ("press(key='+')", [Press(keys=("+",))]),
    ("keydown(key='shift')", [KeyDown(key="shift")]),
    ("keyup(key='shift')", [KeyUp(key="shift")]),
    ("release(key='shift')", [KeyUp(key="shift")]),
    ("keyup(key='ctrl shift')", [KeyUp(key="shift"), KeyUp(key="ctrl")]),
    ("scroll(start_box='(100,200)', direction='down')", [Scroll(point=AT, dy=-5)]),
    ("scroll(point='<point>100 200</point>', direction='Up')", [Scroll(point=AT, dy=5)]),
    ("scroll(direction='left')", [Scroll(dx=-5)]),
    ("scroll(direction=right)", [Scroll(dx=5)]),
    ("wait()", [Wait(seconds=5)]),
    ("type(content='hello')", [TypeText(text="hello")]),
    ('type(content="it\'s")', [TypeText(text="it's")]),
    ("type(content='it\\'s')", [TypeText(text="it's")]),
    ("type(content='it's')", [TypeText(text="it's")]),
    ("type(content='say \"x\", (or) it's fine; y')", [TypeText(text='say "x", (or) it\'s fine; y')]),
    ("type(content='print('a', 'b')')", [TypeText(text="print('a', 'b')")]),
    ("type(content='line1\nline2')", [TypeText(text="line1\nline2")]),
    ("type(content='line1\\nline2')", [TypeText(text="line1\nline2")]),
    ("type(content='python main\\n')", [TypeText(text="python main\n")]),
    ("type(content='python main\\\\n')", [TypeText(text="python main\n")]),
    ("type(content='C:\\\\new')", [TypeText(text="C:\\new")]),
    ("type(content='C:\\\\new\\\\n')", [TypeText(text="C:\\new\n")]),
    ("type(content='\\d+ \\u00e9 \\x41')", [TypeText(text="\\d+ é A")]),
    ("type(content='<point>1 2</point>')", [TypeText(text="<point>1 2</point>")]),
    ("type(content='Action: click()')", [TypeText(text="Action: click()")]),
    ("type(content='a)\nAction: wait()\n')", [TypeText(text="a)\nAction: wait()\n")]),
    ("finished()", [Done()]),
    ("finished(content='')", [Done()]),
    ("finished(content='Done.')", [Done()]),
    ("finished(content='It\\'s 42')", [Answer(text="It's 42")]),
    ("finished(content='[INFEASIBLE] no such file')", [Infeasible(reason="no such file")]),
    ("call_user()", [Infeasible(reason="the model hands over to the user")]),
    ("call_user(content='log in first')", [Infeasible(reason="log in first")]),
]


@pytest.mark.parametrize("point", POINTS)
def test_the_forms_of_a_point(point: str) -> None:
    for dialect, view in ((V15, VIEW), (V1, SQUARE)):
        assert dialect.parse(f"Action: click({point})", view).actions == (Click(point=AT),)


@pytest.mark.parametrize(("call", "actions"), FORMS)
def test_a_form_is_its_actions(call: str, actions: list[Action]) -> None:
    for text in (call, f"Action: {call}", f"Thought: I go on. [INFEASIBLE]?\nAction: {call}"):
        for dialect, view in ((V15, VIEW), (V1, SQUARE)):
            turn = dialect.parse(text, view)
            assert turn.error is None
            assert list(turn.actions) == actions


CLICK = "click(start_box='(100,200)')"
SHAPES: list[tuple[str, list[Action], str]] = [
    (f"Thought: First.\nAction: {CLICK}\n\nwait()", [Click(point=AT), Wait(seconds=5)], "First."),
    (f"Thought: a\nAction: {CLICK}\nAction: wait()", [Click(point=AT), Wait(seconds=5)], "a"),
    (
        f"Thought: a\nAction: {CLICK}\nThought: b\nAction: finished()",
        [Click(point=AT), Done()],
        "a\nb",
    ),
    (f"Action: {CLICK}; wait()", [Click(point=AT), Wait(seconds=5)], ""),
    (f"Action: {CLICK} # the menu", [Click(point=AT)], ""),
    (f"**Thought**: a\n**Action:** {CLICK}", [Click(point=AT)], "**Thought**: a"),
    (f"action:\n{CLICK}", [Click(point=AT)], ""),
    (f"Reflection: r\nAction_Summary: s\nAction: {CLICK}", [Click(point=AT)], "Reflection: r\nAction_Summary: s"),
    (f"Action:\n```\n{CLICK}\n```", [Click(point=AT)], ""),
    (f"<think>maybe finished()</think>\nAction: {CLICK}", [Click(point=AT)], "maybe finished()"),
    (f"I choose Save.\n{CLICK}", [Click(point=AT)], "I choose Save."),
    (f"Action: {CLICK}\nThis opens it.", [Click(point=AT)], "This opens it."),
]


@pytest.mark.parametrize(("text", "actions", "thought"), SHAPES)
def test_the_form_of_a_turn(text: str, actions: list[Action], thought: str) -> None:
    turn = V15.parse(text, VIEW)
    assert turn.error is None
    assert list(turn.actions) == actions
    assert turn.thought == thought


MISTAKES = [
    ("click(start_box='=')", "start_box: must be a point such as '(100,200)', not '='"),
    ("click(start_box='')", "start_box: must be a point"),
    ("click(start_box=null)", "start_box: must be a point such as '(100,200)', not 'null'"),
    ("click(start_box='(nan,nan)')", "start_box: must be a point"),
    ("click(start_box='(100)')", "start_box: must be a point"),
    ("click(start_box='(1,2,3)')", "start_box: must be a point"),
    ("click(start_box='__import__(\"os\")')", "start_box: must be a point"),
    ("click(start_box='(-5,10)')", "start_box: the point (-5, 10) is outside the screen"),
    ("click(start_box='(50000,10)')", "start_box: the point (50000, 10) is outside"),
    ("click(button='left')", "button: click has no such argument"),
    ("click('(1,2)')", "arguments are written name='value'"),
    ("click(start_box='(1,2)'", "start_box: the text is not closed by '"),
    ("click(start_box=(1,2)", "the call is not closed"),
    ("click(start_box='(1,2)' end_box='(1,2)')", "start_box: must be a point"),
    ("click(start_box='(1,2)', start_box='(1,2)')", "start_box: is given twice"),
    ("click(start_box=)", "start_box: a value is written in quotes"),
    ("drag(start_box='(1,2)')", "end_box: drag needs it"),
    ("hover()", "start_box: hover needs it"),
    ("scroll(start_box='(1,2)', end_box='(3,4)')", "direction: scroll needs it"),
    ("scroll(direction='sideways')", "direction: must be one of up, down"),
    ("hotkey(key='ctrl contrl')", "key: there is no key"),
    ("hotkey(key='')", "key: "),
    ("hotkey()", "key: hotkey needs it"),
    ("type(content='')", "text: "),
    ("type()", "content: type needs it"),
    ("type(content='never closed", "content: the text is not closed by '"),
    ("long_press(point='<point>1 2</point>')", "long_press is for phones"),
    ("open_app(app_name='x')", "is for phones"),
    ("press_home()", "is for phones"),
    ("press_back()", "is for phones"),
    ("fly()", "there is no action 'fly'"),
    ("click>point>point>1 2", "there must be a call"),
    ("I click there", "there must be a call"),
    ("finished()\nwait()", "nothing can follow it"),
]


@pytest.mark.parametrize(("call", "part"), MISTAKES)
def test_a_mistake_is_told_with_its_field(call: str, part: str) -> None:
    turn = V15.parse(f"Thought: so\nAction: {call}", View.unscaled(1932, 1092))
    assert turn.actions == ()
    assert turn.error is not None
    assert part in str(turn.error)


def test_prose_alone_is_no_turn() -> None:
    turn = V15.parse("Thought: I wonder [INFEASIBLE]", VIEW)
    assert "there is no action in the reply" in str(turn.error)


def test_quotes_that_cannot_be_told_apart_are_refused_before_they_cost_much() -> None:
    tangled = "Action: " + "click(start_box='(1,2)') so\nAction: " * 1500
    turn = V15.parse(tangled, VIEW)
    assert "cannot be told apart" in str(turn.error)


def test_an_error_names_its_call() -> None:
    turn = V15.parse(f"Action: {CLICK}\n\nfly()", VIEW)
    assert turn.error is not None
    assert turn.error.where == "call 2"


@pytest.mark.parametrize(("name", "at"), [("uitars", (966, 546)), ("uitars-v1", (500, 500))])
def test_each_version_counts_its_own_way(name: str, at: tuple[int, int]) -> None:
    view = View.unscaled(1920, 1080)
    turn = get_dialect(name).parse("Action: click(start_box='({},{})')".format(*at), view)
    assert turn.actions == (Click(point=Point(x=960, y=540)),)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Click(point=AT), f"Action: {CLICK}"),
        (
            Click(point=AT, modifiers=("ctrl",)),
            f"Action: keydown(key='ctrl')\n\n{CLICK}\n\nkeyup(key='ctrl')",
        ),
        (
            Click(modifiers=("ctrl", "shift")),
            "Action: keydown(key='ctrl')\n\nkeydown(key='shift')\n\nclick()\n\nkeyup(key='shift')\n\nkeyup(key='ctrl')",
        ),
        (Click(point=AT, clicks=3), "Action: " + "\n\n".join([CLICK] * 3)),
        (TypeText(text="it's\nC:\\new\t"), "Action: type(content='it\\'s\\nC:\\\\new\\t')"),
        (TypeText(text="C:\\n"), "Action: type(content='C:\\\\\\x6e')"),
        (Press(keys=("ctrl", "+")), "Action: hotkey(key='ctrl plus')"),
        (Scroll(dy=-12), "Action: scroll(direction='down')\n\nscroll(direction='down')"),
        (Wait(seconds=12), "Action: wait()\n\nwait()"),
        (Screenshot(), "Action: wait()"),
        (Done(), "Action: finished()"),
        (Infeasible(reason="no"), "Action: finished(content='[INFEASIBLE] no')"),
        (Answer(text="Done"), "Action: finished(content='[ANSWER] Done')"),
    ],
)
def test_actions_are_written_as_these_models_write_them(action: Action, text: str) -> None:
    assert V15.render(action, VIEW) == text


def test_what_has_no_words() -> None:
    for action in (ButtonDown(), Click(button="middle"), Drag(path=(AT,)), Scroll()):
        with pytest.raises(Inexpressible):
            V15.render(action, VIEW)
