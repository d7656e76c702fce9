"""The file manager: folders, names and its switches. Checks read which files there are and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.policies.script import ScriptStep, WaitActive
from sandbox.evidence import GlobRequest
from verigen.bundle import Bundle
from verigen.checks.model import GlobCheck
from verigen.packs.compose import Fact, Miss, Part, Scene, compose
from verigen.packs.do import click, file_fact, glob_fact, key, keys, typing, xfconf_fact, xfconf_file
from verigen.packs.draw import Draw
from verigen.packs.pack import Pack
from verigen.packs.words import FOLDERS, STEMS
from verigen.task import ExecStep, TextFileStep

__all__ = ["APP", "NO_ACTIONS", "PACK", "Folder", "delete", "new_folder", "rename"]

APP = "thunar"
LOOK: dict[str, str | bool] = {
    "/last-side-pane": "void",
    "/last-view": "ThunarDetailsView",
    "/last-statusbar-visible": False,
    "/last-details-view-visible-columns": "THUNAR_COLUMN_NAME,THUNAR_COLUMN_SIZE",
    "/last-toolbar-visible-buttons": "0,1,0,1,1,0,0,0,0,0,0,0,0,0,0,0,0",
    "/misc-thumbnail-mode": "THUNAR_THUMBNAIL_MODE_NEVER",
}
HIDDEN, VIEW = "/last-show-hidden", "/last-view"
NO_ACTIONS = TextFileStep(
    path=".config/Thunar/uca.xml", text='<?xml version="1.0" encoding="UTF-8"?>\n<actions>\n</actions>\n'
)
"""Custom actions. The file manager would write some of its own, under names made from the time."""
MAIN = WaitActive(app=APP, title_contains="Documents")


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """What is in the folder that the file manager shows."""

    files: dict[str, str]
    """Text of each file, by name."""
    folders: tuple[str, ...]
    hidden: bool = False
    """Whether hidden files are shown."""

    @classmethod
    def drawn(cls, draw: Draw, *, files: int = 3) -> Folder:
        """A folder with some files and one folder in it."""
        return cls(
            files={name: f"{draw.lines(1)[0]}\n" for name in draw.file_names(files)},
            folders=(draw.pick(FOLDERS),),
        )

    @property
    def fact(self) -> Fact:
        """That exactly these are there."""
        return glob_fact("documents", "Documents/*", *self.files, *self.folders)

    @property
    def scene(self) -> Scene:
        """The file manager in this folder."""
        path = ".config/xfce4/xfconf/xfce-perchannel-xml/thunar.xml"
        return Scene(
            app=APP,
            argv=(APP, "/home/user/Documents"),
            title="Documents",
            size=(230, 185),
            takes=(230, 195),
            before=(
                TextFileStep(path=path, text=xfconf_file(APP, {**LOOK, HIDDEN: self.hidden})),
                NO_ACTIONS,
                *(TextFileStep(path=f"Documents/{name}", text=text) for name, text in self.files.items()),
                *(ExecStep(argv=("mkdir", f"Documents/{name}")) for name in self.folders),
            ),
            keeps=(self.fact, xfconf_fact(APP, HIDDEN, self.hidden), xfconf_fact(APP, VIEW, str(LOOK[VIEW]))),
        )


def new_folder(folder: Folder, name: str) -> tuple[Part, Folder]:
    """Make a folder; gives the part and what is there then."""
    done = replace(folder, folders=(*folder.folders, name))
    dialog = WaitActive(app=APP, title_contains="Create New Folder")
    ask = (click(APP, "menu", "File"), click(APP, "menu item", "Create Folder..."), dialog)
    part = Part(
        skill="new-folder",
        app=APP,
        asks=f"create a folder named {name} in the Documents folder with the file manager",
        steps=(*ask, typing(name), key("enter"), MAIN),
        other=(key("ctrl", "shift", "n"), dialog, typing(name), click(APP, "push button", "Create"), MAIN),
        facts=(
            done.fact,
            Fact(
                evidence=GlobRequest(name="folder", pattern=f"Documents/{name}"),
                check=GlobCheck(item="folder", names=(name,), kind="directory"),
            ),
        ),
        misses=(
            Miss(name="another name", why="misspelt", steps=(*ask, typing(f"{name}s"), key("enter"), MAIN)),
            Miss(name="cancelled", why="nothing was made", steps=(*ask, typing(name), key("escape"))),
            Miss(
                name="a file",
                why="a file of that name is no folder",
                before=(TextFileStep(path=f"Documents/{name}", text=""),),
            ),
            Miss(
                name="in the wrong place",
                why="made in the home folder",
                before=(ExecStep(argv=("mkdir", name)),),
            ),
        ),
    )
    return part, done


def rename(folder: Folder, old: str, stem: str) -> tuple[Part, Folder]:
    """Give a file another name, its ending kept; gives the part and what is there then."""
    new = f"{stem}.txt"
    done = replace(folder, files={new if name == old else name: text for name, text in folder.files.items()})
    other = next(name for name in folder.files if name != old)
    dialog = WaitActive(app=APP, title_contains="Rename")
    renaming = (click(APP, "table cell", old), key("f2"), dialog)
    part = Part(
        skill="rename",
        app=APP,
        asks=f"rename the file {old} to {new}",
        steps=(*renaming, typing(stem), key("enter"), MAIN),
        other=(*renaming, key("ctrl", "a"), typing(new), click(APP, "push button", "Rename"), MAIN),
        facts=(done.fact, file_fact("renamed", f"Documents/{new}", folder.files[old])),
        misses=(
            Miss(name="misspelt", why="another name", steps=(*renaming, typing(f"{stem}s"), key("enter"), MAIN)),
            Miss(
                name="another file",
                why=f"{other} has the name now",
                steps=(click(APP, "table cell", other), key("f2"), dialog, typing(stem), key("enter"), MAIN),
            ),
            Miss(
                name="without its ending",
                why="the ending is lost",
                steps=(*renaming, key("ctrl", "a"), typing(stem), key("enter"), MAIN),
            ),
            Miss(
                name="an empty file",
                why="the old file is gone, not renamed",
                before=(
                    ExecStep(argv=("rm", f"Documents/{old}")),
                    TextFileStep(path=f"Documents/{new}", text=""),
                ),
            ),
        ),
    )
    return part, done


def delete(folder: Folder, name: str) -> tuple[Part, Folder]:
    """Delete a file for good; gives the part and what is there then."""
    done = replace(folder, files={one: text for one, text in folder.files.items() if one != name})
    other = next(one for one in folder.files if one != name)
    question = WaitActive(app=APP, title_contains="Attention")
    ask = (click(APP, "table cell", name), key("delete"), question)
    confirm = (click(APP, "push button", "Delete"), MAIN)
    part = Part(
        skill="delete-file",
        app=APP,
        asks=f"delete the file {name}",
        steps=(*ask, *confirm),
        other=(click(APP, "table cell", name), key("shift", "delete"), question, key("enter"), MAIN),
        facts=(done.fact,),
        misses=(
            Miss(name="cancelled", why="it is still there", steps=(*ask, click(APP, "push button", "Cancel"))),
            Miss(
                name="another file",
                why=f"{other} is gone",
                steps=(click(APP, "table cell", other), key("delete"), *confirm),
            ),
            Miss(name="not confirmed", why="the question is still open", steps=ask),
            Miss(
                name="emptied",
                why="the file is still there",
                before=(TextFileStep(path=f"Documents/{name}", text=""),),
            ),
        ),
    )
    return part, done


def _hidden_part(on: bool) -> Part:
    flip, icons = key("ctrl", "h"), key("ctrl", "1")
    return Part(
        skill="hidden-files",
        app=APP,
        asks=f"{'show' if on else 'hide'} the hidden files in the file manager with Ctrl+H",
        steps=(flip,),
        other=(key("alt", "v"), *keys(*["down"] * 7, "enter")),
        facts=(xfconf_fact(APP, HIDDEN, on),),
        misses=(
            Miss(name="another view", why="the list became icons instead", steps=(icons,)),
            Miss(name="twice", why="it is as it was", steps=(flip, flip)),
            Miss(name="and another view", why="the list must stay a list", steps=(flip, icons)),
            Miss(name="only looked", why="nothing was switched", steps=(key("alt", "v"), key("escape"))),
        ),
    )


def _hidden_files(template: str, draw: Draw) -> Bundle:
    folder = replace(Folder.drawn(draw, files=2), hidden=draw.coin())
    return compose(template, [folder.scene], [_hidden_part(not folder.hidden)], draw)


def _new_name(folder: Folder, draw: Draw) -> str:
    return draw.pick([name for name in FOLDERS if name not in folder.folders])


def _new_stem(folder: Folder, draw: Draw) -> str:
    return next(name for name in draw.file_names(6) if name not in folder.files).removesuffix(".txt")


def _new_folder(template: str, draw: Draw) -> Bundle:
    folder = Folder.drawn(draw)
    part, _ = new_folder(folder, _new_name(folder, draw))
    return compose(template, [folder.scene], [part], draw)


def _rename(template: str, draw: Draw) -> Bundle:
    folder = Folder.drawn(draw)
    part, _ = rename(folder, draw.pick(tuple(folder.files)), _new_stem(folder, draw))
    return compose(template, [folder.scene], [part], draw)


def _delete(template: str, draw: Draw) -> Bundle:
    folder = Folder.drawn(draw)
    part, _ = delete(folder, draw.pick(tuple(folder.files)))
    return compose(template, [folder.scene], [part], draw)


def _rename_then_delete(template: str, draw: Draw) -> Bundle:
    """The new name keeps the list's order: after a change of order accessibility tells where rows were."""
    folder = Folder.drawn(draw)
    order = sorted(folder.files)
    in_place = [
        (old, stem)
        for old in order
        for stem in STEMS
        if f"{stem}.txt" not in folder.files
        and sorted({*folder.files, f"{stem}.txt"} - {old}).index(f"{stem}.txt") == order.index(old)
    ]
    old, stem = draw.pick(in_place)
    first, between = rename(folder, old, stem)
    second, _ = delete(between, draw.pick([name for name in order if name != old]))
    return compose(template, [folder.scene], [first, second], draw)


def _folder_then_hidden(template: str, draw: Draw) -> Bundle:
    folder = replace(Folder.drawn(draw, files=2), hidden=draw.coin())
    made, _ = new_folder(folder, _new_name(folder, draw))
    return compose(template, [folder.scene], [made, _hidden_part(not folder.hidden)], draw)


def _no_such_file(template: str, draw: Draw) -> Bundle:
    """Refusing: the file is not there."""
    folder = Folder.drawn(draw)
    wanted = f"{_new_stem(folder, draw)}.txt"
    other = draw.pick(tuple(folder.files))
    deleted, _ = delete(folder, other)
    renamed, _ = rename(folder, other, wanted.removesuffix(".txt"))
    look: tuple[ScriptStep, ...] = (key("end"),)
    part = Part(
        skill="refuse-file",
        app=APP,
        asks=f"delete the file {wanted} from the Documents folder. If there is no such file, say that it cannot be "
        "done and change nothing",
        steps=look,
        other=(key("home"),),
        misses=(
            Miss(name="deletes another file", why="a file is gone", steps=deleted.steps),
            Miss(name="renames one", why="a file is gone", steps=renamed.steps),
        ),
        about={"file": wanted},
    )
    return compose(template, [folder.scene], [part], draw, feasible=False)


PACK = Pack(
    name="thunar",
    version="1",
    makers={
        "new-folder": _new_folder,
        "rename": _rename,
        "delete": _delete,
        "hidden-files": _hidden_files,
        "rename-then-delete": _rename_then_delete,
        "folder-then-hidden": _folder_then_hidden,
        "no-such-file": _no_such_file,
    },
)
