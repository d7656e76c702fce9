"""The pyautogui dialect: every call, the idioms, and what is refused."""

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

VIEW = View.unscaled(1920, 1080)
PYAUTOGUI = get_dialect("pyautogui")
AT = Point(x=3, y=4)
TO = Point(x=30, y=40)

CALLS: list[tuple[str, list[Action]]] = [
    ("pyautogui.click(3, 4)", [Click(point=AT)]),
    ("pyautogui.click(x=3, y=4, duration=0.5, tween=pyautogui.easeInOutQuad)", [Click(point=AT)]),
    ("pyautogui.click((3, 4))", [Click(point=AT)]),
    ("pyautogui.click([3, 4])", [Click(point=AT)]),
    ("pyautogui.click(3.9, 4.2)", [Click(point=AT)]),
    ("pyautogui.click()", [Click()]),
    ("pyautogui.click(None, None)", [Click()]),
    ("pyautogui.click(3, 4, 2, 0.1, 'right')", [Click(point=AT, clicks=2, button="right")]),
    ("pyautogui.click(3, 4, clicks=7)", [Click(point=AT, clicks=3), Click(point=AT, clicks=3), Click(point=AT)]),
    ("pyautogui.click(3, 4, button=pyautogui.MIDDLE)", [Click(point=AT, button="middle")]),
    ("pyautogui.click(button='back')", [Click(button="back")]),
    ("pyautogui.leftClick(3, 4)", [Click(point=AT)]),
    ("pyautogui.rightClick(3, 4)", [Click(point=AT, button="right")]),
    ("pyautogui.middleClick()", [Click(button="middle")]),
    ("pyautogui.doubleClick(3, 4)", [Click(point=AT, clicks=2)]),
    ("pyautogui.doubleClick(button='right')", [Click(clicks=2, button="right")]),
    ("pyautogui.tripleClick(3, 4, interval=0.1)", [Click(point=AT, clicks=3)]),
    ("pyautogui.moveTo(3, 4, 2, pyautogui.easeInQuad)", [Move(point=AT)]),
    ("pyautogui.moveTo(3, 4); pyautogui.moveRel(27, 36)", [Move(point=AT), Move(point=TO)]),
    ("pyautogui.click(30, 40); pyautogui.move(-27, -36)", [Click(point=TO), Move(point=AT)]),
    ("pyautogui.click(3, 40); pyautogui.move(xOffset=27)", [Click(point=Point(x=3, y=40)), Move(point=TO)]),
    ("pyautogui.click(3, 40); pyautogui.moveTo(30, None)", [Click(point=Point(x=3, y=40)), Move(point=TO)]),
    ("pyautogui.dragTo(30, 40, duration=1, button='left')", [Drag(path=(TO,))]),
    ("pyautogui.moveTo(3, 4)\npyautogui.dragTo(30, 40, button='right')", [Drag(path=(AT, TO), button="right")]),
    ("pyautogui.moveTo(3, 4)\npyautogui.dragRel(27, 36, 0.5)", [Drag(path=(AT, TO))]),
    ("pyautogui.moveTo(3, 4)\npyautogui.drag((27, 36))", [Drag(path=(AT, TO))]),
    ("pyautogui.click(3, 4)\npyautogui.dragTo(30, 40)", [Click(point=AT), Drag(path=(TO,))]),
    ("pyautogui.mouseDown()", [ButtonDown()]),
    ("pyautogui.mouseDown(3, 4, 'right')", [ButtonDown(point=AT, button="right")]),
    ("pyautogui.mouseUp(button='middle')", [ButtonUp(button="middle")]),
    ("pyautogui.scroll(-5)", [Scroll(dy=-5)]),
    ("pyautogui.vscroll(5, x=3, y=4)", [Scroll(point=AT, dy=5)]),
    ("pyautogui.hscroll(5, 3, 4)", [Scroll(point=AT, dx=5)]),
    ("pyautogui.scroll(-250)", [Scroll(dy=-100), Scroll(dy=-100), Scroll(dy=-50)]),
    ("pyautogui.write('a;b')", [TypeText(text="a;b")]),
    ('pyautogui.typewrite("it\'s\\n", interval=0.05)', [TypeText(text="it's\n")]),
    ("pyautogui.write('''one\ntwo''')", [TypeText(text="one\ntwo")]),
    (r"pyautogui.write('C:\\new')", [TypeText(text="C:\\new")]),
    (r"pyautogui.write(r'C:\new')", [TypeText(text=r"C:\new")]),
    (r"pyautogui.write('\d+')", [TypeText(text=r"\d+")]),
    ("pyautogui.write('美 é 😀')", [TypeText(text="美 é 😀")]),
    ("pyautogui.write(['a', 'left', 'enter'])", [Press(keys=("a",)), Press(keys=("left",)), Press(keys=("enter",))]),
    ("pyautogui.press('enter')", [Press(keys=("enter",))]),
    ("pyautogui.press('\\n')", [Press(keys=("enter",))]),
    ("pyautogui.press(' ')", [Press(keys=("space",))]),
    ("pyautogui.press(['tab', 'Return'])", [Press(keys=("tab",)), Press(keys=("enter",))]),
    ("pyautogui.press('tab', presses=3, interval=0.1)", [Press(keys=("tab",))] * 3),
    ("pyautogui.hotkey('ctrl', 's')", [Press(keys=("ctrl", "s"))]),
    ("pyautogui.hotkey(*['ctrl', 'shift', 't'], interval=0.1)", [Press(keys=("ctrl", "shift", "t"))]),
    ("pyautogui.hotkey(['ctrl', 's'])", [Press(keys=("ctrl", "s"))]),
    ("pyautogui.hotkey('ctrl+c')", [Press(keys=("ctrl", "c"))]),
    ("pyautogui.hotkey('ctrl', '+')", [Press(keys=("ctrl", "+"))]),
    ("pyautogui.hotkey('command', 'a')", [Press(keys=("super", "a"))]),
    ("pyautogui.keyDown('ctrl')", [KeyDown(key="ctrl")]),
    (
        "pyautogui.keyDown('ctrl')\npyautogui.press('c')\npyautogui.keyUp('ctrl')",
        [KeyDown(key="ctrl"), Press(keys=("c",)), KeyUp(key="ctrl")],
    ),
    ("with pyautogui.hold('ctrl'):\n    pyautogui.click(3, 4)", [Click(point=AT, modifiers=("ctrl",))]),
    (
        "with pyautogui.hold(['ctrl', 'shift']):\n  pyautogui.moveTo(3, 4)\n  pyautogui.dragTo(30, 40)",
        [Drag(path=(AT, TO), modifiers=("ctrl", "shift"))],
    ),
    (
        "with pyautogui.hold('ctrl'):\n  with pyautogui.hold('shift'):\n    pyautogui.scroll(2)",
        [Scroll(dy=2, modifiers=("ctrl", "shift"))],
    ),
    ("with pyautogui.hold('shift'):\n    pyautogui.press('left')", [Press(keys=("shift", "left"))]),
    (
        "pyautogui.moveTo(3, 4)\nwith pyautogui.hold('ctrl'):\n    pyautogui.dragTo(30, 40)",
        [Move(point=AT), Drag(path=(TO,), modifiers=("ctrl",))],
    ),
    (
        "with pyautogui.hold(['ctrl', 'alt']):\n    pyautogui.click()\n    pyautogui.scroll(1)",
        [KeyDown(key="ctrl"), KeyDown(key="alt"), Click(), Scroll(dy=1), KeyUp(key="alt"), KeyUp(key="ctrl")],
    ),
    (
        "with pyautogui.hold('shift'):\n    pyautogui.press(['left', 'up'])",
        [KeyDown(key="shift"), Press(keys=("left",)), Press(keys=("up",)), KeyUp(key="shift")],
    ),
    ("with pyautogui.hold('a'):\n    time.sleep(1.5)", [Press(keys=("a",), hold_s=1.5)]),
    ("with pyautogui.hold(['ctrl', 's']):\n    pass", [Press(keys=("ctrl", "s"))]),
    ("pyautogui.sleep(1.5)", [Wait(seconds=1.5)]),
    ("import time\ntime.sleep(2)", [Wait(seconds=2)]),
    ("pyautogui.screenshot()", [Screenshot()]),
]

PYTHON: list[tuple[str, list[Action]]] = [
    ("import pyautogui\nimport time, pyperclip\npyautogui.click(3, 4)", [Click(point=AT)]),
    ("import pyautogui as pg\npg.click(3, 4)", [Click(point=AT)]),
    ("from pyautogui import click, press as p\nclick(3, 4)\np('a')", [Click(point=AT), Press(keys=("a",))]),
    ("from pyautogui import *\nfrom time import *\nclick(3, 4)\nsleep(1)", [Click(point=AT), Wait(seconds=1)]),
    ("pyautogui.PAUSE = 0.5\npyautogui.FAILSAFE = False\npyautogui.click()", [Click()]),
    ("x, y = 3, 4\npyautogui.click(x, y)", [Click(point=AT)]),
    ("x = y = 4\ny -= 0; x -= 1\npyautogui.click(x, y)", [Click(point=AT)]),
    ("p = (3, 4)\npyautogui.click(p[0], p[-1])", [Click(point=AT)]),
    ("w, h = pyautogui.size()\npyautogui.click(w / 640, h // 270)", [Click(point=AT)]),
    ("pyautogui.click(int(3.5), round(-3.6 * -1))", [Click(point=AT)]),
    ("pyautogui.click(2 + 1, 2 * 5 % 6)", [Click(point=AT)]),
    ("pyautogui.moveTo(3, 4)\nx, y = pyautogui.position()\npyautogui.click(x, y)", [Move(point=AT), Click(point=AT)]),
    ("text = 'ab' * 2 + '\\n'\npyautogui.write(text)", [TypeText(text="abab\n")]),
    ("pyautogui.write('n' + str(2 + 3))", [TypeText(text="n5")]),
    ("for i in range(2):\n  pyautogui.press('tab');  time.sleep(1)", [Press(keys=("tab",)), Wait(seconds=1)] * 2),
    ("for key in ['tab', 'up']:\n    pyautogui.press(key)", [Press(keys=("tab",)), Press(keys=("up",))]),
    ("for x, y in [(3, 4), (30, 40)]:\n    pyautogui.click(x, y)", [Click(point=AT), Click(point=TO)]),
    ("for c in 'ab':\n    pyautogui.press(c)", [Press(keys=("a",)), Press(keys=("b",))]),
    ("for i in range(2):\n  for j in range(2):\n    pyautogui.click()", [Click()] * 4),
    ("pyautogui.press(['down'] * 3)", [Press(keys=("down",))] * 3),
    ("print('clicking', pyautogui.position())\npyautogui.click()\nprint(str(1))", [Click()]),
    ("'''a comment'''\n# another\npyautogui.click()\npass", [Click()]),
    ("    pyautogui.click()\n    pyautogui.press('a')", [Click(), Press(keys=("a",))]),
    ("pyperclip.copy('é美')\npyautogui.hotkey('ctrl', 'v')", [TypeText(text="é美")]),
    (
        "pyperclip.copy('x')\npyautogui.click(3, 4)\npyautogui.hotkey('ctrl', 'shift', 'v')\npyautogui.press('enter')",
        [Click(point=AT), TypeText(text="x"), Press(keys=("enter",))],
    ),
    (
        "pyperclip.copy('x')\npyautogui.hotkey('ctrl', 'v')\nfor key in 'cv':\n    pyautogui.hotkey('ctrl', key)",
        [TypeText(text="x"), Press(keys=("ctrl", "c")), Press(keys=("ctrl", "v"))],
    ),
    ("pyautogui.hotkey('ctrl', 'v')", [Press(keys=("ctrl", "v"))]),
]

REFUSED = [
    ("import os", "line 1: `os` cannot be imported"),
    ("from os import system", "`os` cannot be imported"),
    ("from . import pyautogui", "cannot be imported"),
    ("import pyautogui.os", "cannot be imported"),
    ("\nwhile True:\n    pyautogui.click()", "line 2: `while` is not supported"),
    ("if 1:\n    pyautogui.click()", "`if` is not supported"),
    ("try:\n    pyautogui.click()\nexcept Exception:\n    pass", "`try` is not supported"),
    ("def f():\n    pyautogui.click()\nf()", "a function definition is not supported"),
    ("pyautogui.write(f'{1}')", "an f-string is not supported"),
    ("[pyautogui.click() for i in range(3)]", "a comprehension is not supported"),
    ("(lambda: pyautogui.click())()", "only functions of pyautogui"),
    ("__import__('os').system('ls')", "the name '__import__' is not known"),
    ("eval('1')", "the name 'eval' is not known"),
    ("open('/etc/passwd')", "the name 'open' is not known"),
    ("().__class__", "Attribute is not supported"),
    ("pyautogui.click(().__class__, 1)", "`.__class__` is not supported"),
    ("'a'.join(['b'])", "`.join` is not supported"),
    ("pyautogui.click.__globals__['os']()", "only functions of pyautogui"),
    ("pyautogui.os.system('ls')", "pyautogui.os.system is not supported"),
    ("time.time()", "time.time is not supported"),
    ("pyperclip.paste()", "pyperclip.paste is not supported"),
    ("pyautogui.locateOnScreen('a.png')", "locateOnScreen is not supported"),
    ("pyautogui.alert('hi')", "alert is not supported"),
    ("pyautogui.click('a.png')", "images cannot be searched"),
    ("pyautogui.x = 1", "an assignment to an attribute"),
    ("x[0] = 1", "this assignment"),
    ("x, y = 1, 2, 3", "2 names cannot take 3 values"),
    ("x, y = 5", "needs a list"),
    ("pyautogui.click(x, 1)", "the name 'x' is not known"),
    ("pyautogui.click(1, 2, foo=3)", "an unknown argument 'foo'"),
    ("pyautogui.click(1, 2, x=3)", "twice 'x'"),
    ("pyautogui.click(**{'x': 1})", "`**` is not supported"),
    ("pyautogui.press('a', 1, 2, 3, 4)", "got 5 arguments"),
    ("pyautogui.click('1', '2')", "images cannot be searched"),
    ("pyautogui.click(True, 2)", "x must be a number"),
    ("pyautogui.click((1, 2, 3))", "a point has two numbers"),
    ("pyautogui.click(1)", "needs the pointer's position"),
    ("pyautogui.click(5000, 10)", "x goes from 0 to 1919"),
    ("pyautogui.click(-5, 10)", "outside the screen"),
    ("pyautogui.click(1e999, 10)", "a number is too large"),
    ("pyautogui.click(float('nan'), 10)", "the name 'float' is not known"),
    ("pyautogui.click(1 / 0, 10)", "this arithmetic has no result"),
    ("pyautogui.click(2 ** 9, 1)", "this operator is not supported"),
    ("pyautogui.click(clicks=0)", "clicks must be at least 1"),
    ("pyautogui.click(button='purple')", "button must be"),
    ("pyautogui.moveTo()", "moveTo needs x and y"),
    ("pyautogui.moveRel(5, 5)", "which this code has not set"),
    ("pyautogui.dragRel(5, 5)", "which this code has not set"),
    ("pyautogui.position()", "which this code has not set"),
    ("pyautogui.moveTo(3, 4)\npyautogui.moveRel(-5, 0)", "line 2: the point (-2, 4) is outside"),
    ("pyautogui.scroll()", "clicks must be a number"),
    ("pyautogui.scroll(10**9)", "this operator"),
    ("pyautogui.scroll(1000000000)", "more than 200 actions"),
    ("pyautogui.write(5)", "write needs a text"),
    ("pyautogui.write('\\x07')", "U+0007"),
    ("pyautogui.write('a' * 20001)", "longer than 20000"),
    ("pyautogui.press('entr')", "there is no key 'entr'; the nearest are enter"),
    ("pyautogui.press([])", "press needs a text"),
    ("pyautogui.press([], presses=1000000000)", "press needs a text"),
    ("pyautogui.press('a', presses=1000)", "more than 200 actions"),
    ("pyautogui.press('a', presses=-1)", "no action in the reply"),
    ("pyautogui.hotkey()", "hotkey needs keys"),
    ("pyautogui.hotkey('ctrl', key='s')", "hotkey has no argument 'key'"),
    ("pyautogui.hotkey(*'abcdefghi')", "keys: "),
    ("pyautogui.keyDown()", "keyDown needs a text"),
    ("time.sleep(100)", "seconds: "),
    ("time.sleep('1')", "seconds must be a number"),
    ("pyautogui.hold('ctrl')", "is written `with pyautogui.hold(...):`"),
    ("with open('x'):\n    pass", "the name 'open' is not known"),
    ("with pyautogui.click():\n    pass", "there is pyautogui.hold"),
    ("pyautogui.screenshot('a.png')", "it takes none here"),
    ("pyperclip.copy('x')", "only read together with pyautogui.hotkey('ctrl', 'v')"),
    ("pyperclip.copy('x')\npyautogui.keyDown('ctrl')\npyautogui.press('v')", "only read together with"),
    ("print(pyautogui.click(1, 2))", "print is ignored, so it cannot contain"),
    ("print(x for x in open('a'))", "print is ignored, so it cannot contain"),
    ("for i in range(100000):\n    pass", "at most 1000"),
    ("for i in range(1000):\n    for j in range(1000):\n        pass", "more than 10000 steps"),
    ("for i in range(300):\n    pyautogui.click()", "more than 200 actions"),
    ("for i in 5:\n    pass", "needs a list"),
    ("for i in range(1, 2, 0):\n    pass", "zero"),
    ("for i in range(2):\n    pass\nelse:\n    pass", "For is not supported"),
    ("x = [1] * 1001", "more than 1000 items"),
    ("x = [1] * 1000\ny = [" + "*x, " * 900 + "]", "more than 1000 items"),
    ("x = " + "(" * 150 + "1" + ",)" * 150, "nested too deeply"),
    ("x = 1" + " + 1" * 500, "nested too deeply"),
    ("x = 1\n" * 2000, "longer than 4000 words"),
    ("pyautogui.click(1, 2", "cannot be read as Python: '(' was never closed"),
    ("await pyautogui.click()", "Await is not supported"),
    ("x = 5", "no action in the reply"),
    ("# DONE", "no action in the reply"),
    ("DONE\npyautogui.click()", "nothing can follow it"),
    ("hello", "'hello' is no action"),
    ("pyautogui.click(1,2)\0", "cannot be read as Python"),
]


@pytest.mark.parametrize(("code", "actions"), [*CALLS, *PYTHON])
def test_a_form_of_code_is_its_actions(code: str, actions: list[Action]) -> None:
    for text in (code, f"I will do it.\n```python\n{code}\n```"):
        turn = PYAUTOGUI.parse(text, VIEW)
        assert turn.error is None
        assert list(turn.actions) == actions


@pytest.mark.parametrize(("code", "part"), REFUSED)
def test_anything_else_is_refused_by_name(code: str, part: str) -> None:
    turn = PYAUTOGUI.parse(code, VIEW)
    assert turn.actions == ()
    assert turn.error is not None
    assert part in str(turn.error)


def test_deep_nesting_is_an_error_whatever_the_interpreter_thinks_of_it() -> None:
    for text in (
        "-" * 60_000 + "1",
        "-" * 3_900 + "1",
        "pyautogui.write('\ud800')",
        "(" * 60_000,
        "a" + ".b" * 30_000,
        "x = [" * 10_000,
        "not " * 16_000,
        "f(" * 30_000,
    ):
        assert PYAUTOGUI.parse(text, VIEW).error is not None


def test_long_text_can_be_typed() -> None:
    text = "It's 5 words, (more or less); " * 600
    assert PYAUTOGUI.parse(f"pyautogui.write({text!r})", VIEW).actions == (TypeText(text=text),)


RENDERED: list[tuple[Action, str]] = [
    (Click(point=AT), "pyautogui.click(3, 4)"),
    (Click(clicks=2, button="right"), "pyautogui.click(clicks=2, button='right')"),
    (Click(point=AT, modifiers=("ctrl",)), "with pyautogui.hold(['ctrl']):\n    pyautogui.click(3, 4)"),
    (Drag(path=(AT, TO)), "pyautogui.moveTo(3, 4)\npyautogui.dragTo(30, 40)"),
    (Scroll(point=AT, dx=2), "pyautogui.hscroll(2, 3, 4)"),
    (TypeText(text="it's\n"), 'pyautogui.write("it\'s\\n")'),
    (Press(keys=("ctrl", "s")), "pyautogui.hotkey('ctrl', 's')"),
    (Wait(seconds=2), "time.sleep(2.0)"),
    (Done(), "DONE"),
    (Infeasible(reason="no such file"), "FAIL"),
    (Answer(text="42"), "DONE"),
]


@pytest.mark.parametrize(("action", "code"), RENDERED)
def test_actions_are_written_as_agents_write_them(action: Action, code: str) -> None:
    assert PYAUTOGUI.render(action, VIEW) == code


@pytest.mark.parametrize(
    ("name", "code", "at"),
    [
        ("pyautogui-28", "pyautogui.click(966, 546)", (960, 540)),
        ("pyautogui-28", "w, h = pyautogui.size()\npyautogui.click(w - 1, h - 1)", (1919, 1079)),
        ("pyautogui-unit", "pyautogui.click(x=0.5, y=0.25)", (960, 270)),
        ("pyautogui-unit", "pyautogui.moveTo(0.25, 0.5)\npyautogui.moveRel(0.25, 0)", (960, 540)),
        ("pyautogui-unit", "w, h = pyautogui.size()\npyautogui.click(w, h)", (1919, 1079)),
    ],
)
def test_a_form_with_other_coordinates(name: str, code: str, at: tuple[int, int]) -> None:
    turn = get_dialect(name).parse(code, VIEW)
    assert turn.error is None
    assert getattr(turn.actions[-1], "point", None) == Point(x=at[0], y=at[1])


def test_fractions_outside_are_refused() -> None:
    assert "x goes from 0 to 1" in str(get_dialect("pyautogui-unit").parse("pyautogui.click(966, 546)", VIEW).error)
