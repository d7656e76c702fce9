"""A note in the text editor: its start state with the editor's switches, and changing its lines."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.policies.script import ClickWindow, ScriptStep
from sandbox.evidence import SettingRequest
from verigen.checks.model import SettingCheck
from verigen.packs.compose import Fact, Miss, Part, Scene
from verigen.packs.do import click, file_fact, key, keys, typing
from verigen.packs.draw import Draw
from verigen.task import TextFileStep

__all__ = ["APP", "PREFERENCES", "SWITCHES", "Note", "Switch", "add_line", "new_line", "remove_line"]

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
    emptied = Miss(
        name="only emptied",
        why="an empty line is left",
        steps=(*there, key("shift", "end"), key("delete"), key("ctrl", "s")),
    )
    two_lines = Miss(name="two lines", why="one line too few", steps=(*there, delete, delete, key("ctrl", "s")))
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
            Miss(name="one letter", why="the rest of it is left", steps=(*there, key("delete"), key("ctrl", "s"))),
            # At the end of a note an empty line more or less is nothing.
            *([emptied, two_lines] if at < len(note.lines) - 1 else []),
        ),
    )
    return part, done


def new_line(note: Note, draw: Draw) -> str:
    """A line that the note does not have."""
    return draw.pick([line for line in draw.lines(6) if line not in note.lines])
