"""The text editor: notes, its switches, and the question it asks before it closes. Checks read files and settings."""

from __future__ import annotations

from dataclasses import replace

from agent.policies.script import WaitActive
from sandbox.evidence import SettingRequest, WindowsRequest
from verigen.bundle import Bundle
from verigen.checks.model import SettingCheck, WindowCheck
from verigen.packs.compose import Fact, Miss, Part, compose
from verigen.packs.do import asserted, click, key, keys, typed_by_setup, typing
from verigen.packs.draw import Draw
from verigen.packs.notes import APP, PREFERENCES, SWITCHES, Note, Switch, add_line, new_line, remove_line
from verigen.packs.pack import Pack
from verigen.task import PressStep, SetupStep

__all__ = ["PACK"]

TAB_WIDTHS = ("2", "3", "4", "8")


def _switch_part(switch: Switch, on: bool, *, shy: Switch) -> Part:
    """Switch it on or off.

    Args:
        shy: another switch, which near misses touch.
    """
    return Part(
        skill="editor-switch",
        app=APP,
        asks=f"turn {'on' if on else 'off'} {switch.name} in the {switch.menu} menu",
        steps=switch.flip,
        other=(key("alt", switch.menu[0].lower()), *keys(*["down"] * switch.downs), key("enter")),
        facts=(switch.fact(on),),
        misses=(
            Miss(name="the other switch", why=f"{shy.name} is switched instead", steps=shy.flip),
            Miss(name="twice", why="it is as it was", steps=(*switch.flip, *switch.flip)),
            Miss(name="both", why=f"{shy.name} must stay as it is", steps=(*switch.flip, *shy.flip)),
            Miss(
                name="only looked",
                why="the menu was opened and closed",
                steps=(click(APP, "menu", switch.menu), key("escape")),
            ),
        ),
    )


def _states(draw: Draw) -> dict[str, bool]:
    return {switch.key.replace("-", "_"): draw.coin() for switch in SWITCHES}


def _editor_switch(template: str, draw: Draw) -> Bundle:
    target, shy = draw.some(SWITCHES, 2)
    states = _states(draw)
    part = _switch_part(target, not states[target.key.replace("-", "_")], shy=shy)
    return compose(template, [Note.drawn(draw).scene(draw, **states)], [part], draw)


def _make_sure(template: str, draw: Draw) -> Bundle:
    """Stopping: one of the two switches is right already, and must stay so."""
    target, right = draw.some(SWITCHES, 2)
    on, states = draw.coin(), _states(draw)
    states[target.key.replace("-", "_")], states[right.key.replace("-", "_")] = not on, on
    part = replace(_switch_part(target, on, shy=right), skill="make-sure")
    names = [target.name, right.name] if draw.coin() else [right.name, target.name]
    says = f"Make sure that {names[0]} and {names[1]} are both turned {'on' if on else 'off'} in the editor's menus."
    return compose(template, [Note.drawn(draw).scene(draw, **states)], [part], draw, says=says)


def _two_switches(template: str, draw: Draw) -> Bundle:
    one, two, shy = draw.some(SWITCHES, 3)
    states = _states(draw)
    parts = [_switch_part(each, not states[each.key.replace("-", "_")], shy=shy) for each in (one, two)]
    return compose(template, [Note.drawn(draw).scene(draw, **states)], parts, draw)


def _tab_size_part(old: str, new: str) -> Part:
    at = TAB_WIDTHS.index(new)
    wrong = next(width for width in TAB_WIDTHS if width not in (old, new))
    to_menu = (click(APP, "menu", "Document"), click(APP, "menu", "Tab Size"))
    item = "tab-width"
    return Part(
        skill="tab-size",
        app=APP,
        asks=f"set the Tab Size in the Document menu to {new}",
        steps=(*to_menu, click(APP, "menu item", new)),
        other=(key("alt", "d"), *keys("down", "down", "right", *["down"] * at), key("enter")),
        facts=(
            Fact(
                evidence=SettingRequest(name=item, schema_id=PREFERENCES, key=item),
                check=SettingCheck(item=item, expected=f"uint32 {new}"),
            ),
        ),
        misses=(
            Miss(name="another size", why=f"it is {wrong}", steps=(*to_menu, click(APP, "menu item", wrong))),
            Miss(name="only looked", why="nothing was chosen", steps=(*to_menu, *keys("escape", "escape"))),
            Miss(
                name="typed the number",
                why="the size is a setting, not text",
                steps=(key("ctrl", "home"), typing(new), key("ctrl", "s")),
            ),
        ),
    )


def _tab_size(template: str, draw: Draw) -> Bundle:
    return compose(
        template,
        [Note.drawn(draw).scene(draw, **_states(draw))],
        [_tab_size_part("8", draw.pick(TAB_WIDTHS[:3]))],
        draw,
    )


def _switch_and_tab_size(template: str, draw: Draw) -> Bundle:
    target, shy = draw.some(SWITCHES, 2)
    states = _states(draw)
    parts = [
        _switch_part(target, not states[target.key.replace("-", "_")], shy=shy),
        _tab_size_part("8", draw.pick(TAB_WIDTHS[:3])),
    ]
    if draw.coin():
        parts.reverse()
    return compose(template, [Note.drawn(draw).scene(draw, **states)], parts, draw)


def _add_line(template: str, draw: Draw) -> Bundle:
    note = Note.drawn(draw)
    part, _ = add_line(note, new_line(note, draw))
    return compose(template, [note.scene(draw)], [part], draw)


def _remove_line(template: str, draw: Draw) -> Bundle:
    note = Note.drawn(draw, lines=draw.number(3, 4))
    part, _ = remove_line(note, draw.number(0, 2))
    return compose(template, [note.scene(draw)], [part], draw)


def _remove_then_add(template: str, draw: Draw) -> Bundle:
    note = Note.drawn(draw, lines=3)
    first, between = remove_line(note, draw.number(0, 2))
    second, _ = add_line(between, new_line(note, draw))
    return compose(template, [note.scene(draw)], [first, second], draw)


def _add_and_switch(template: str, draw: Draw) -> Bundle:
    target, shy = draw.some(SWITCHES, 2)
    note, states = Note.drawn(draw), _states(draw)
    line, _ = add_line(note, new_line(note, draw))
    parts = [line, _switch_part(target, not states[target.key.replace("-", "_")], shy=shy)]
    return compose(template, [note.scene(draw, **states)], parts, draw)


def _add_tab_size_switch(template: str, draw: Draw) -> Bundle:
    """Three parts."""
    target, shy = draw.some(SWITCHES, 2)
    note, states = Note.drawn(draw), _states(draw)
    line, _ = add_line(note, new_line(note, draw))
    switch = _switch_part(target, not states[target.key.replace("-", "_")], shy=shy)
    return compose(
        template, [note.scene(draw, **states)], [switch, _tab_size_part("8", draw.pick(TAB_WIDTHS[:3])), line], draw
    )


def _answer_question(template: str, draw: Draw) -> Bundle:
    """The editor asks whether to save; one of three buttons is right."""
    note = Note.drawn(draw)
    line, save = new_line(note, draw), draw.coin()
    done = replace(note, lines=(line, *note.lines)) if save else note
    buttons = {"Save": save, "Don't Save": not save, "Cancel": False}
    right = next(name for name, is_right in buttons.items() if is_right)
    closed = Fact(evidence=WindowsRequest(name="windows"), check=WindowCheck(item="windows", app=APP, open=False))
    part = Part(
        skill="answer-question",
        app=APP,
        asks=f"the editor asks about {note.name}: {'keep' if save else 'throw away'} the changes and let it close",
        steps=(click(APP, "push button", right),),
        other=(key("alt", "s"),) if save else (*keys("left", "enter"),),
        facts=(done.fact, closed),
        misses=(
            *(
                Miss(name=name, why="another button", steps=(click(APP, "push button", name),))
                for name, is_right in buttons.items()
                if not is_right
            ),
            Miss(name="escape", why="the question is put away", steps=(key("escape"),)),
        ),
        after=_asked(line),
        asserts=(asserted(closed.evidence, WindowCheck(item="windows", app=APP, title_contains="Save Changes")),),
    )
    return compose(template, [note.scene(draw)], [part], draw)


def _asked(line: str) -> tuple[SetupStep, ...]:
    """Write a line on top and try to close, so that the editor asks."""
    return typed_by_setup(line), PressStep(keys=("enter",)), PressStep(keys=("ctrl", "q"))


def _interrupted(template: str, draw: Draw) -> Bundle:
    """Recovery: the question is in the way, and the work goes on after it."""
    note = Note.drawn(draw)
    begun, line = draw.some([one for one in draw.lines(6) if one not in note.lines], 2)
    with_begun = replace(note, lines=(begun, *note.lines))
    cancel = (click(APP, "push button", "Cancel"), WaitActive(app=APP, title_contains=note.name))
    part, _ = add_line(with_begun, line, skill="go-on", first=cancel)
    part = replace(
        part,
        asks=f"the editor was about to close. Cancel that, then {part.asks}",
        other=(key("escape"), *part.steps[1:]),
        misses=(
            Miss(name="saved and closed", why="the line is missing", steps=(click(APP, "push button", "Save"),)),
            Miss(name="only cancelled", why="the line is missing", steps=cancel),
            *part.misses[:2],
        ),
        after=_asked(begun),
        asserts=(
            asserted(
                WindowsRequest(name="windows"), WindowCheck(item="windows", app=APP, title_contains="Save Changes")
            ),
        ),
    )
    return compose(template, [note.scene(draw)], [part], draw)


def _no_such_line(template: str, draw: Draw) -> Bundle:
    """Refusing: the line is not in the note."""
    note = Note.drawn(draw, lines=3)
    other, _ = remove_line(note, draw.number(0, 2))
    wanted = new_line(note, draw)
    added, _ = add_line(note, wanted)
    part = Part(
        skill="refuse-line",
        app=APP,
        asks=f"remove the line '{wanted}' from {note.name} and save it. If there is no such line, say that it cannot "
        "be done and change nothing",
        steps=(key("ctrl", "end"),),
        other=(key("ctrl", "home"),),
        misses=(
            Miss(name="removes another line", why="the note changed", steps=other.steps),
            Miss(name="adds it", why="the note changed", steps=added.steps),
        ),
        about={"line": wanted},
    )
    return compose(template, [note.scene(draw)], [part], draw, feasible=False)


PACK = Pack(
    name="mousepad",
    version="1",
    makers={
        "switch": _editor_switch,
        "make-sure": _make_sure,
        "two-switches": _two_switches,
        "tab-size": _tab_size,
        "switch-and-tab-size": _switch_and_tab_size,
        "add-line": _add_line,
        "remove-line": _remove_line,
        "remove-then-add": _remove_then_add,
        "add-and-switch": _add_and_switch,
        "switch-tab-size-add": _add_tab_size_switch,
        "answer-question": _answer_question,
        "interrupted": _interrupted,
        "no-such-line": _no_such_line,
    },
)
