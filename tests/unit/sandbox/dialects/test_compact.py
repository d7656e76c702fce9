"""The compact dialect: every form, and errors that teach."""

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
from sandbox.dialects import View, get_dialect

VIEW = View.unscaled(1280, 720)
COMPACT = get_dialect("compact")
AT = Point(x=100, y=200)
TO = Point(x=300, y=400)

FORMS: list[tuple[str, Action]] = [
    ("click 100 200", Click(point=AT)),
    ("Click  100\t200 ", Click(point=AT)),
    ("click", Click()),
    ("click ctrl", Click(modifiers=("ctrl",))),
    ("click 100 200 ctrl+shift", Click(point=AT, modifiers=("ctrl", "shift"))),
    ("click 100 200 Control + Shift", Click(point=AT, modifiers=("ctrl", "shift"))),
    ("click 100 200 U0035", Click(point=AT, modifiers=("5",))),
    ("double 100 200", Click(point=AT, clicks=2)),
    ("triple 100 200", Click(point=AT, clicks=3)),
    ("right 100 200", Click(point=AT, button="right")),
    ("right 100 200 x2 alt", Click(point=AT, button="right", clicks=2, modifiers=("alt",))),
    ("middle", Click(button="middle")),
    ("back 100 200", Click(point=AT, button="back")),
    ("forward 100 200", Click(point=AT, button="forward")),
    ("move 100 200", Move(point=AT)),
    ("down 100 200", ButtonDown(point=AT)),
    ("down", ButtonDown()),
    ("up right", ButtonUp(button="right")),
    ("up 100 200 middle", ButtonUp(point=AT, button="middle")),
    ("drag 100 200 300 400", Drag(path=(AT, TO))),
    ("drag 300 400", Drag(path=(TO,))),
    ("drag 100 200 300 400 100 200 right ctrl", Drag(path=(AT, TO, AT), button="right", modifiers=("ctrl",))),
    ("drag 100 200 left left", Drag(path=(AT,), modifiers=("left",))),
    ("scroll 100 200 0 -5", Scroll(point=AT, dy=-5)),
    ("scroll 3 0", Scroll(dx=3)),
    ("scroll 100 200 0 -5 ctrl", Scroll(point=AT, dy=-5, modifiers=("ctrl",))),
    ("type hello world", TypeText(text="hello world")),
    ("type   it's (a; b) \\n # no thought ", TypeText(text="it's (a; b) \\n # no thought")),
    (r'type "one\ntwo"', TypeText(text="one\ntwo")),
    (r'type " \"x\" \\ é"', TypeText(text=' "x" \\ é')),
    ("type 'quoted'", TypeText(text="'quoted'")),
    ("press ctrl+s", Press(keys=("ctrl", "s"))),
    ("press ctrl++", Press(keys=("ctrl", "+"))),
    ("press plus", Press(keys=("+",))),
    ("press Page Down", Press(keys=("pagedown",))),
    ("press 5", Press(keys=("5",))),
    ("hold ctrl+a 1.5", Press(keys=("ctrl", "a"), hold_s=1.5)),
    ("hold a 0.12345678901", Press(keys=("a",), hold_s=0.12345678901)),
    ("hold + 2", Press(keys=("+",), hold_s=2)),
    ("keydown Shift_L", KeyDown(key="shift")),
    ("keyup +", KeyUp(key="+")),
    ("wait", Wait()),
    ("wait 1.5", Wait(seconds=1.5)),
    ("wait 0.30000000000000004", Wait(seconds=0.1 + 0.2)),
    ("shot", Screenshot()),
    ("done", Done()),
    ("infeasible", Infeasible()),
    ("infeasible there is no such file", Infeasible(reason="there is no such file")),
    ("answer 42 km", Answer(text="42 km")),
    ('answer ""', Answer(text="")),
]

MISTAKES = [
    ("click 100", "click needs two whole numbers, e.g. `click 100 200`"),
    ("click 100 200 300", "two whole numbers"),
    ("click 100.5 200", "two whole numbers"),
    ("click 100, 200", "two whole numbers"),
    ("click (100, 200)", "two whole numbers"),
    ("click 100 99999", "y from 0 to 719"),
    ("click -1 5", "outside the screen"),
    ("click 1280 5", "x goes from 0 to 1279"),
    ("click 100 200 contrl", "there is no key 'contrl'; the nearest are ctrl"),
    ("click 100 200 x4", "there is no key"),
    ("move", "move needs two whole numbers, e.g. `move 100 200`"),
    ("move 1 2 ctrl", "move does not take 'ctrl'"),
    ("drag 1", "drag needs pairs of whole numbers"),
    ("drag 1 2 3", "drag needs pairs of whole numbers"),
    ("drag", "drag needs pairs"),
    ("down 1 2 purple", "down does not take 'purple'"),
    ("scroll 5", "scroll needs two or four whole numbers"),
    ("scroll 1 2 3", "scroll needs two or four"),
    ("scroll 0 500", "dy: "),
    ("scroll down", "scroll needs two or four"),
    ("type", "type needs a text, e.g. `type hello`"),
    ('type ""', "type needs a text"),
    ('type "hello" world', "one whole JSON string"),
    ('type "hello', "one whole JSON string"),
    (r'type "\u0007"', "U+0007"),
    ("press", "press needs the keys to press, e.g. `press enter` or `press ctrl+s`"),
    ("press ctrl+", "lacks a key"),
    ("press ctrl s", "there is no key"),
    ("press a+b+c+d+e+f+g+h+i", "keys: "),
    ("hold ctrl", "hold needs keys and seconds"),
    ("hold", "hold needs keys and seconds"),
    ("hold ctrl long", "hold needs a number of seconds"),
    ("keydown", "keydown needs one key, e.g. `keydown shift`"),
    ("keydown ctrl+s", "there is no key 'ctrl+s'"),
    ("wait soon", "wait needs a number of seconds, e.g. `wait 1.5`"),
    ("wait 100", "less than or equal to 60"),
    ("wait nan", "seconds: "),
    ("shot now", "shot does not take 'now'"),
    ("done with it", "done does not take 'with it'"),
    ("answer", "answer needs a text"),
    ("clik 1 2", "did you mean `click 100 200`"),
    ("pyautogui.click(1, 2)", "a line starts with one of click"),
    ("I am done", "a line starts with one of"),
]


@pytest.mark.parametrize(("text", "action"), FORMS)
def test_every_form_is_its_action(text: str, action: Action) -> None:
    turn = COMPACT.parse(text, VIEW)
    assert (turn.actions, turn.error) == ((action,), None)
    assert COMPACT.parse(COMPACT.render(action, VIEW), VIEW).actions == (action,)


@pytest.mark.parametrize(("text", "part"), MISTAKES)
def test_every_mistake_is_taught(text: str, part: str) -> None:
    turn = COMPACT.parse(text, VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert part in str(turn.error)
    assert turn.error.where == "line 1"


def test_lines_are_actions_and_comments_are_thought() -> None:
    turn = COMPACT.parse("# The menu is open,\r\n#so I save.\r\n\r\nclick 100 200\r\npress ctrl+s\r\n", VIEW)
    assert turn.actions == (Click(point=AT), Press(keys=("ctrl", "s")))
    assert turn.thought == "The menu is open,\nso I save."


def test_an_error_names_its_line_and_nothing_is_done() -> None:
    turn = COMPACT.parse("# go\nclick 100 200\n\nclick here", VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert turn.error.where == "line 4"


def test_thought_alone_is_no_turn() -> None:
    assert str(COMPACT.parse("# I wonder", VIEW).error) == "there is no action in the reply"


def test_nothing_follows_the_end() -> None:
    assert "nothing can follow" in str(COMPACT.parse("done\nclick 100 200", VIEW).error)
    assert COMPACT.parse("click 100 200\ndone", VIEW).actions == (Click(point=AT), Done())


def test_text_is_written_plainly_where_it_can_be() -> None:
    assert COMPACT.render(TypeText(text='it\'s 5 % "ok"'), VIEW) == 'type it\'s 5 % "ok"'
    assert COMPACT.render(TypeText(text="a\nb"), VIEW) == r'type "a\nb"'
    assert COMPACT.render(TypeText(text=" é"), VIEW) == 'type " é"'


def test_the_prompt_teaches_forms_that_parse() -> None:
    prompt = COMPACT.system_prompt_fragment(VIEW)
    taught = {line.split()[0] for line in prompt.splitlines()[1:-1]}
    assert taught == {
        *("click", "move", "drag", "down", "scroll", "type", "press", "wait", "shot", "done", "infeasible", "answer")
    }
    for line in prompt.splitlines()[1:-1]:
        assert COMPACT.parse(line.split("   ")[0].split(" / ")[0], View.unscaled(10, 10)).raw
