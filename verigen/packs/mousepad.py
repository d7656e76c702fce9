"""The text editor: notes, its switches, and the question it asks before it closes. Checks read files and settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.policies.script import ClickWindow, ScriptStep, WaitActive
from sandbox.evidence import SettingRequest, WindowsRequest
from verigen.bundle import Bundle
from verigen.checks.model import SettingCheck, WindowCheck
from verigen.packs.compose import Fact, Miss, Part, Scene, compose
from verigen.packs.do import asserted, click, file_fact, key, keys, typed_by_setup, typing
from verigen.packs.draw import Draw
from verigen.packs.pack import Pack
from verigen.task import PressStep, SetupStep, TextFileStep

__all__ = ["APP", "PACK", "Note", "add_line", "remove_line"]

APP = "mousepad"
VIEW, PREFERENCES = "org.xfce.mousepad.preferences.window", "org.xfce.mousepad.preferences.view"


@dataclass(frozen=True, kw_only=True, slots=True)
class Switch:
    """A switch in a menu."""

    name: str
    menu: str
    downs: int
    """How often Down is pressed to get to it from the menu's first item, which the keyboard opens it on."""
    schema: str
    key: str

    def fact(self, on: bool) -> Fact:
        """That it is on, or off."""
        return Fact(
            evidence=SettingRequest(name=self.key, schema_id=self.schema, key=self.key),
            check=SettingCheck(item=self.key, expected=str(on).lower()),
        )

    @property
    def flip(self) -> tuple[ScriptStep, ...]:
        """Switch it over with the mouse."""
        return click(APP, "menu", self.menu), click(APP, "menu item", self.name)


SWITCHES = (
    Switch(name="Line Numbers", menu="View", downs=2, schema=PREFERENCES, key="show-line-numbers"),
    Switch(name="Toolbar", menu="View", downs=4, schema=VIEW, key="toolbar-visible"),
    Switch(name="Word Wrap", menu="Document", downs=0, schema=PREFERENCES, key="word-wrap"),
    Switch(name="Auto Indent", menu="Document", downs=1, schema=PREFERENCES, key="auto-indent"),
)
TAB_WIDTHS = ("2", "3", "4", "8")
MENU_HEIGHT = 211
"""The Document menu and what is above it, pixels. A menu without room opens under the pointer."""
FORGETFUL = "remember-size=false\nremember-position=false\nremember-state=false\n"
"""The editor writes no window states into its settings, at times of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A text file that is open in the editor."""

    name: str
    lines: tuple[str, ...]

    @classmethod
    def drawn(cls, draw: Draw, *, lines: int | None = None) -> Note:
        """A note with some lines."""
        (name,) = draw.file_names(1)
        return cls(name=name, lines=tuple(draw.lines(lines or draw.number(2, 4))))

    @property
    def path(self) -> str:
        return f"Documents/{self.name}"

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def fact(self) -> Fact:
        """That the file holds these lines."""
        return file_fact("note", self.path, self.text)

    def scene(self, draw: Draw, **switched: bool) -> Scene:
        """The note in the editor; switches are off unless they are given by their keys (with `_` for `-`)."""
        states = {switch.key: switched.get(switch.key.replace("-", "_"), False) for switch in SWITCHES}
        settings = "".join(
            f"[{schema.replace('.', '/')}]\n"
            + "".join(f"{one.key}={str(states[one.key]).lower()}\n" for one in SWITCHES if one.schema == schema)
            + (FORGETFUL if schema == VIEW else "")
            for schema in (PREFERENCES, VIEW)
        )
        width = draw.number(225, 250)
        return Scene(
            app=APP,
            argv=(APP, self.path),
            title=self.name,
            size=(width, draw.number(120, 150)),
            takes=(width, MENU_HEIGHT),
            before=(
                TextFileStep(path=self.path, text=self.text),
                TextFileStep(path=".config/glib-2.0/settings/keyfile", text=settings),
            ),
            keeps=(self.fact, *(switch.fact(states[switch.key]) for switch in SWITCHES)),
        )


def add_line(
    note: Note, line: str, *, skill: str = "add-line", first: tuple[ScriptStep, ...] = ()
) -> tuple[Part, Note]:
    """Write one more line at the end and save; gives the part and the note as it then is."""
    done = replace(note, lines=(*note.lines, line))
    at_end = (*first, key("ctrl", "end"))
    part = Part(
        skill=skill,
        app=APP,
        asks=f"add the line '{line}' at the end of {note.name} and save it",
        steps=(*at_end, typing(line), key("ctrl", "s")),
        other=(
            *first,
            ClickWindow(app=APP, title_contains=note.name, x=0.5, y=0.95),
            typing(f"{line}\n"),
            key("ctrl", "s"),
        ),
        facts=(done.fact,),
        misses=(
            Miss(
                name="at the beginning",
                why="the line is in the wrong place",
                steps=(*first, key("ctrl", "home"), typing(f"{line}\n"), key("ctrl", "s")),
            ),
            Miss(name="not saved", why="the file is as it was", steps=(*at_end, typing(line))),
            Miss(
                name="twice",
                why="one line too many",
                steps=(*at_end, typing(f"{line}\n{line}"), key("ctrl", "s")),
            ),
            Miss(
                name="into another file",
                why="the file behind the editor is another",
                before=(TextFileStep(path=f"{note.name}", text=done.text),),
            ),
        ),
    )
    return part, done


def remove_line(note: Note, at: int) -> tuple[Part, Note]:
    """Take one line out and save; gives the part and the note as it then is."""
    done = replace(note, lines=tuple(line for index, line in enumerate(note.lines) if index != at))
    there = (key("ctrl", "home"), *keys(*["down"] * at))
    next_one = (at + 1) % len(note.lines)
    elsewhere = (key("ctrl", "home"), *keys(*["down"] * next_one))
    delete = key("ctrl", "shift", "delete")
    part = Part(
        skill="remove-line",
        app=APP,
        asks=f"remove the line '{note.lines[at]}' from {note.name} and save it",
        steps=(*there, delete, key("ctrl", "s")),
        other=(*there, key("shift", "down"), key("delete"), key("ctrl", "s")),
        facts=(done.fact,),
        misses=(
            Miss(name="another line", why="the wrong line is gone", steps=(*elsewhere, delete, key("ctrl", "s"))),
            Miss(name="not saved", why="the file is as it was", steps=(*there, delete)),
            Miss(
                name="only emptied",
                why="an empty line is left",
                steps=(*there, key("shift", "end"), key("delete"), key("ctrl", "s")),
            ),
            Miss(name="two lines", why="one line too few", steps=(*there, delete, delete, key("ctrl", "s"))),
        ),
    )
    return part, done


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
    part, _ = add_line(note, _new_line(note, draw))
    return compose(template, [note.scene(draw)], [part], draw)


def _remove_line(template: str, draw: Draw) -> Bundle:
    note = Note.drawn(draw, lines=draw.number(3, 4))
    part, _ = remove_line(note, draw.number(0, 2))
    return compose(template, [note.scene(draw)], [part], draw)


def _remove_then_add(template: str, draw: Draw) -> Bundle:
    note = Note.drawn(draw, lines=3)
    first, between = remove_line(note, draw.number(0, 2))
    second, _ = add_line(between, _new_line(note, draw))
    return compose(template, [note.scene(draw)], [first, second], draw)


def _add_and_switch(template: str, draw: Draw) -> Bundle:
    target, shy = draw.some(SWITCHES, 2)
    note, states = Note.drawn(draw), _states(draw)
    line, _ = add_line(note, _new_line(note, draw))
    parts = [line, _switch_part(target, not states[target.key.replace("-", "_")], shy=shy)]
    return compose(template, [note.scene(draw, **states)], parts, draw)


def _add_tab_size_switch(template: str, draw: Draw) -> Bundle:
    """Three parts."""
    target, shy = draw.some(SWITCHES, 2)
    note, states = Note.drawn(draw), _states(draw)
    line, _ = add_line(note, _new_line(note, draw))
    switch = _switch_part(target, not states[target.key.replace("-", "_")], shy=shy)
    return compose(
        template, [note.scene(draw, **states)], [switch, _tab_size_part("8", draw.pick(TAB_WIDTHS[:3])), line], draw
    )


def _answer_question(template: str, draw: Draw) -> Bundle:
    """The editor asks whether to save; one of three buttons is right."""
    note = Note.drawn(draw)
    line, save = _new_line(note, draw), draw.coin()
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
    wanted = _new_line(note, draw)
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


def _new_line(note: Note, draw: Draw) -> str:
    return draw.pick([line for line in draw.lines(6) if line not in note.lines])


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
