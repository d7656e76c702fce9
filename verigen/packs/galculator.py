"""The calculator. Its display exists nowhere but on the screen, so checks read it through accessibility.

Its buttons are clicked: it loses keys that come faster than its window is drawn.
"""

from __future__ import annotations

from itertools import pairwise

from agent.policies.script import ScriptStep
from sandbox.evidence import AccessibilityRequest
from verigen.bundle import Bundle
from verigen.checks.model import AccessibilityCheck
from verigen.packs.compose import Fact, Miss, Part, Scene, compose
from verigen.packs.do import asserted, click, key, typing
from verigen.packs.draw import Draw
from verigen.packs.pack import Pack
from verigen.packs.words import NO_SUCH_MENUS
from verigen.task import ExecStep, PressStep, TextFileStep

__all__ = ["APP", "PACK", "display", "scene", "sum_part"]

APP = "galculator"
CONFIG = TextFileStep(
    path=".config/galculator/galculator.conf",
    text="""\
[general]

display_result_font="Sans Bold 14"
display_module_number=false
display_module_angle=false
display_module_notation=false
display_module_arith=false
display_module_open=false
button_width=26
button_height=17
mode=0
""",
)
NO_TIPS = ExecStep(
    argv=("/bin/sh", "-c", "sed -i '/\"tooltip_text\"/d' /usr/share/galculator/ui/*_gtk3.ui"), as_user="root"
)
"""A button's tip opens on the button below it, and takes the next click."""
DISPLAY = AccessibilityRequest(name="display", app=APP, role="text")


def scene() -> Scene:
    """The calculator with 0 on its display."""
    return Scene(app=APP, argv=(APP,), takes=(246, 220), before=(CONFIG, NO_TIPS), keeps=(display("0"),))


def display(text: str) -> Fact:
    """What the display shows in the end."""
    return Fact(evidence=DISPLAY, check=AccessibilityCheck(item="display", expected=text))


def sum_part(a: int, op: str, b: int, *, skill: str, first: tuple[ScriptStep, ...] = ()) -> Part:
    """Work out `a op b`.

    Args:
        op: `+`, `-`, `*` or `/`; a division must come out even.
        first: steps that must come before, e.g. to clear the display.
    """
    result = _worked_out(a, op, b)
    wrong = "-" if op == "+" else "+"
    other = _pushed(f"{b}{op}{a}=") if op in "+*" else _by_keyboard(f"{a}{op}{b}=")
    return Part(
        skill=skill,
        app=APP,
        asks=f"work out {a} {op} {b} with the calculator and leave the result on its display",
        steps=(*first, *_pushed(f"{a}{op}{b}=")),
        other=(*first, *other),
        facts=(display(str(result)),),
        misses=(
            Miss(name="no equals", why="the sum is entered, not worked out", steps=(*first, *_pushed(f"{a}{op}{b}"))),
            Miss(name="off by one", why="another number", steps=(*first, *_pushed(f"{a}{op}{b + 1}="))),
            Miss(name="wrong sign", why="another operation", steps=(*first, *_pushed(f"{a}{wrong}{b}="))),
        ),
        about={"sum": f"{a}{op}{b}"},
    )


def _worked_out(a: int, op: str, b: int) -> int:
    return {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[op]


def _pushed(text: str) -> tuple[ScriptStep, ...]:
    return tuple(click(APP, "toggle button", char) for char in text)


def _by_keyboard(text: str) -> tuple[ScriptStep, ...]:
    """Typed; a display that is cleared first and clicked where one key would be lost for following its like."""
    if any(one == next_one for one, next_one in pairwise(text)):
        return (*_clear(), *_pushed(text))
    return tuple(typing(char) for char in text)


def _add(draw: Draw) -> tuple[int, str, int]:
    """Numbers whose sum or difference differs from both, so that no half-done work shows it."""
    a, b = draw.number(2, 60), draw.number(2, 60)
    if draw.coin() or abs(a - b) < 2 or max(a, b) == 2 * min(a, b):
        return a, "+", b
    return max(a, b), "-", min(a, b)


def _add_subtract(template: str, draw: Draw) -> Bundle:
    return compose(template, [scene()], [sum_part(*_add(draw), skill="add-subtract")], draw)


def _times(draw: Draw) -> tuple[int, str, int]:
    a, b = draw.number(3, 15), draw.number(3, 9)
    if draw.coin() or a == b:
        return a, "*", b
    return a * b, "/", b


def _multiply_divide(template: str, draw: Draw) -> Bundle:
    return compose(template, [scene()], [sum_part(*_times(draw), skill="multiply-divide")], draw)


def _square_root(template: str, draw: Draw) -> Bundle:
    root = draw.number(3, 40)
    square = str(root * root)
    part = Part(
        skill="square-root",
        app=APP,
        asks=f"take the square root of {square} with the calculator and leave it on the display",
        steps=(*_pushed(square), *_root()),
        other=(*_pushed(f"{root}*{root}="), *_root()),
        facts=(display(str(root)),),
        misses=(
            Miss(name="no root", why="only the number is entered", steps=_pushed(square)),
            Miss(name="half", why="halved", steps=_pushed(f"{square}/2=")),
            Miss(name="next", why="another number", steps=(*_pushed(str(root * root + 1)), *_root())),
            Miss(name="cleared", why="the result is cleared", steps=(*_pushed(square), *_root(), *_clear())),
        ),
        about={"root": root},
    )
    return compose(template, [scene()], [part], draw)


def _root() -> tuple[ScriptStep, ...]:
    return (click(APP, "toggle button", "sqrt"),)


def _clear() -> tuple[ScriptStep, ...]:
    return (click(APP, "toggle button", "AC"),)


def _start_over(template: str, draw: Draw) -> Bundle:
    """Recovery: somebody left half a sum behind, which would get into the result."""
    left, a, b = draw.number(3, 9), draw.number(2, 40), draw.number(2, 9)
    sign = draw.pick("+-")
    part = sum_part(a, "+", b, skill="start-over", first=_clear())
    shown = str(draw.number(2, 9))
    part = Part(
        skill=part.skill,
        app=APP,
        asks=f"the calculator is in the middle of another sum. Start over and work out {a} + {b}",
        steps=part.steps,
        other=part.other,
        facts=part.facts,
        misses=(
            Miss(name="not cleared", why="the old sum gets in", steps=part.steps[1:]),
            Miss(name="old sum", why="the old sum is ended", steps=_pushed("=")),
            *part.misses[:2],
        ),
        after=tuple(PressStep(keys=(char,)) for char in (str(left), {"+": "plus", "-": "minus"}[sign], shown)),
        asserts=(asserted(DISPLAY, AccessibilityCheck(item="display", expected=shown)),),
        about=part.about,
    )
    return compose(template, [scene()], [part], draw)


def _chain(template: str, draw: Draw) -> Bundle:
    """Order matters: the product of a sum is not a sum with a product."""
    a, b, c = draw.number(2, 30), draw.number(2, 30), draw.number(3, 9)
    summed, total = a + b, (a + b) * c
    first = sum_part(a, "+", b, skill="add-subtract")
    second = Part(
        skill="multiply-divide",
        app=APP,
        asks=f"multiply the result by {c} and leave the product on the display",
        steps=_pushed(f"*{c}="),
        other=_by_keyboard(f"*{c}="),
        facts=(display(str(total)),),
        misses=(Miss(name="added", why="added where it should be multiplied", steps=_pushed(f"+{c}=")),),
        about={"times": c},
    )
    wrong_order = Miss(
        name="no equals between", why="only the second number is multiplied", steps=_pushed(f"{a}+{b}*{c}=")
    )
    says = f"Work out {a} + {b} with the calculator, then multiply the result by {c}. Leave the product on the display."
    assert summed != total
    return compose(template, [scene()], [first, second], draw, says=says, misses=(wrong_order,))


def _no_such_menu(template: str, draw: Draw) -> Bundle:
    """Refusing: there is no such menu."""
    menu, number = draw.pick(NO_SUCH_MENUS), draw.number(2, 99)
    part = Part(
        skill="refuse-menu",
        app=APP,
        asks=f"open the calculator's {menu} menu and enter {number} there. If there is no such menu, say that it "
        "cannot be done and change nothing",
        steps=(click(APP, "menu", "Calculator"), key("escape")),
        other=(click(APP, "menu", "View"), key("escape")),
        misses=(
            Miss(name="enters it all the same", why="the number is on the display", steps=_pushed(str(number))),
            Miss(name="takes its root", why="the display changed", steps=(*_pushed(str(number)), *_root())),
        ),
        about={"menu": menu, "number": number},
    )
    return compose(template, [scene()], [part], draw, feasible=False)


PACK = Pack(
    name="galculator",
    version="1",
    makers={
        "add-subtract": _add_subtract,
        "multiply-divide": _multiply_divide,
        "square-root": _square_root,
        "start-over": _start_over,
        "sum-then-product": _chain,
        "no-such-menu": _no_such_menu,
    },
)
