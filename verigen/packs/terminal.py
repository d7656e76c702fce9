"""The terminal: one-line commands. Checks read which files there are and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.policies.script import ScriptStep
from verigen.bundle import Bundle
from verigen.packs.compose import Fact, Miss, Part, Scene, compose
from verigen.packs.do import file_fact, glob_fact, key, typed_by_setup, typing
from verigen.packs.draw import Draw
from verigen.packs.pack import Pack
from verigen.packs.words import ITEMS, STEMS
from verigen.task import ExecStep, PressStep, SetupStep, TextFileStep

__all__ = ["APP", "PACK", "Home", "make_folder", "move"]

APP = "xfce4-terminal"
FOLDERS = ("Desktop", "Documents", "Downloads", "Pictures")


@dataclass(frozen=True, kw_only=True, slots=True)
class Home:
    """What is in the home folder, where the terminal stands."""

    files: dict[str, str]
    """Text of each file, by name."""
    folders: tuple[str, ...] = ()
    """Besides those that every home has."""

    @classmethod
    def drawn(cls, draw: Draw) -> Home:
        """Two files."""
        return cls(files={name: f"{draw.lines(1)[0]}\n" for name in draw.file_names(2)})

    @property
    def fact(self) -> Fact:
        """That exactly these are there."""
        return glob_fact("home", "[!.]*", *FOLDERS, *self.files, *self.folders)

    @property
    def scene(self) -> Scene:
        """The terminal."""
        return Scene(
            app=APP,
            argv=(APP, "--geometry", "38x7", "--hide-menubar", "--disable-server"),
            size=(250, 110),
            before=tuple(TextFileStep(path=name, text=text) for name, text in self.files.items()),
            keeps=(self.fact,),
        )


def _command_part(
    skill: str, asks: str, command: str, other: str, facts: tuple[Fact, ...], wrong: str, *shortcuts: Miss
) -> Part:
    """One command.

    Args:
        other: another command that does the same.
        wrong: one that does something else.
    """
    return Part(
        skill=skill,
        app=APP,
        asks=asks,
        steps=(typing(command), key("enter")),
        other=(typing(f"{other}\n"),),
        facts=facts,
        misses=(
            Miss(name="not entered", why="the command was typed but not run", steps=(typing(command),)),
            Miss(name="another command", why=f"`{wrong}` does something else", steps=(typing(wrong), key("enter"))),
            Miss(name="taken back", why="the line was cleared", steps=(typing(command), key("ctrl", "c"))),
            *shortcuts,
        ),
    )


def make_folder(home: Home, name: str) -> tuple[Part, Home]:
    """Make a folder; gives the part and what is there then."""
    done = replace(home, folders=(*home.folders, name))
    part = _command_part(
        "make-folder",
        f"make a folder named {name} in the terminal with mkdir",
        f"mkdir {name}",
        f"mkdir -p ~/{name}",
        (done.fact, glob_fact("made", name, name, kind="directory")),
        f"touch {name}",
        Miss(name="in the wrong place", why="another folder", before=(ExecStep(argv=("mkdir", f"Documents/{name}")),)),
    )
    return part, done


def move(home: Home, old: str, new: str) -> tuple[Part, Home]:
    """Give a file another name; gives the part and what is there then."""
    done = replace(home, files={new if name == old else name: text for name, text in home.files.items()})
    part = _command_part(
        "move-file",
        f"rename {old} to {new} in the terminal with mv",
        f"mv {old} {new}",
        f"cp {old} {new} && rm {old}",
        (done.fact, file_fact("moved", new, home.files[old])),
        f"cp {old} {new}",
        Miss(
            name="an empty file",
            why="the old file is gone, not renamed",
            before=(ExecStep(argv=("rm", old)), TextFileStep(path=new, text="")),
        ),
    )
    return part, done


def _write(home: Home, name: str, word: str) -> Part:
    done = replace(home, files={**home.files, name: f"{word}\n"})
    return _command_part(
        "write-file",
        f"write the word {word} into a new file {name} in the terminal with echo",
        f"echo {word} > {name}",
        f"printf '{word}\\n' > {name}",
        (done.fact, file_fact("written", name, f"{word}\n")),
        f"echo {name} > {word}",
        Miss(name="an empty file", why="the word is missing", before=(TextFileStep(path=name, text=""),)),
    )


def _new_file(home: Home, draw: Draw) -> str:
    return next(name for name in draw.file_names(5) if name not in home.files)


def _make_folder(template: str, draw: Draw) -> Bundle:
    home = Home.drawn(draw)
    part, _ = make_folder(home, draw.pick(STEMS))
    return _compose(template, home, [part], draw)


def _move_file(template: str, draw: Draw) -> Bundle:
    home = Home.drawn(draw)
    part, _ = move(home, draw.pick(tuple(home.files)), _new_file(home, draw))
    return _compose(template, home, [part], draw)


def _write_file(template: str, draw: Draw) -> Bundle:
    home = Home.drawn(draw)
    return _compose(template, home, [_write(home, _new_file(home, draw), draw.pick(ITEMS))], draw)


def _folder_then_write(template: str, draw: Draw) -> Bundle:
    home = Home.drawn(draw)
    first, between = make_folder(home, draw.pick(STEMS))
    second = _write(between, _new_file(home, draw), draw.pick(ITEMS))
    return _compose(template, home, [first, second], draw)


def _stuck(template: str, draw: Draw) -> Bundle:
    """Recovery: a program waits for input and swallows what is typed."""
    home = Home.drawn(draw)
    made, _ = make_folder(home, draw.pick(STEMS))
    stop: tuple[ScriptStep, ...] = (key("ctrl", "c"),)
    after: tuple[SetupStep, ...] = (typed_by_setup("cat"), PressStep(keys=("enter",)))
    part = replace(
        made,
        skill="stop-program",
        asks=f"a program is still running in the terminal. Stop it, then {made.asks}",
        steps=(*stop, *made.steps),
        other=(key("ctrl", "d"), *made.other),
        misses=(
            Miss(name="not stopped", why="the program swallows the command", steps=made.steps),
            Miss(name="only stopped", why="nothing was made", steps=stop),
            *(replace(miss, steps=(*stop, *miss.steps)) for miss in made.misses[:2]),
        ),
        after=after,
    )
    return _compose(template, home, [part], draw)


def _no_such_file(template: str, draw: Draw) -> Bundle:
    """Refusing: the file is not there."""
    home = Home.drawn(draw)
    wanted, new = draw.some([name for name in draw.file_names(8) if name not in home.files], 2)
    moved, _ = move(home, draw.pick(tuple(home.files)), new)
    part = Part(
        skill="refuse-move",
        app=APP,
        asks=f"rename {wanted} to {new} in the terminal. If there is no {wanted}, say that it cannot be done and "
        "change nothing",
        steps=(typing("ls"), key("enter")),
        other=(typing(f"ls {wanted}\n"),),
        misses=(
            Miss(name="renames another file", why="a file lost its name", steps=moved.steps),
            Miss(name="makes it", why="the file was not there", steps=(typing(f"touch {new}"), key("enter"))),
        ),
        about={"file": wanted},
    )
    return _compose(template, home, [part], draw, feasible=False)


def _compose(template: str, home: Home, parts: list[Part], draw: Draw, *, feasible: bool = True) -> Bundle:
    return compose(template, [home.scene], parts, draw, feasible=feasible, channels="both")


PACK = Pack(
    name="terminal",
    version="1",
    makers={
        "make-folder": _make_folder,
        "move-file": _move_file,
        "write-file": _write_file,
        "folder-then-write": _folder_then_write,
        "stuck": _stuck,
        "no-such-file": _no_such_file,
    },
)
