"""Tasks across applications: the work goes from window to window by the task bar, in random launching order."""

from __future__ import annotations

from dataclasses import replace

from verigen.bundle import Bundle
from verigen.packs import galculator, notes, ristretto, terminal, thunar
from verigen.packs.compose import Part, Scene, compose
from verigen.packs.draw import Draw
from verigen.packs.notes import Note
from verigen.packs.pack import Pack
from verigen.packs.thunar import Folder
from verigen.packs.words import FOLDERS, ITEMS, STEMS

__all__ = ["PACK"]


def _sum_into_note(template: str, draw: Draw) -> Bundle:
    """What one application shows is what the other needs."""
    note = Note.drawn(draw)
    summed, written, _ = _sum_and_line(note, draw)
    return _across(template, [galculator.scene(), note.scene(draw)], [summed, written], draw)


def _sum_into_note_and_folder(template: str, draw: Draw) -> Bundle:
    """Three windows."""
    note, folder = _note_in_folder(draw)
    summed, written, _ = _sum_and_line(note, draw)
    made, _ = thunar.new_folder(folder, _new_folder(folder, draw))
    scenes = [galculator.scene(), note.scene(draw), folder.scene]
    return _across(template, scenes, [summed, written, made], draw)


def _note_and_folder(template: str, draw: Draw) -> Bundle:
    note, folder = _note_in_folder(draw)
    written, _ = notes.add_line(note, _new_item(note, draw))
    made, _ = thunar.new_folder(folder, _new_folder(folder, draw))
    return _across(template, [note.scene(draw), folder.scene], _either_order([written, made], draw), draw)


def _note_and_rename(template: str, draw: Draw) -> Bundle:
    note, folder = _note_in_folder(draw)
    removed, _ = notes.remove_line(note, draw.number(0, len(note.lines) - 1))
    old = draw.pick([name for name in folder.files if name != note.name])
    stem = draw.pick([one for one in STEMS if f"{one}.txt" not in folder.files])
    renamed, _ = thunar.rename(folder, old, stem)
    return _across(template, [note.scene(draw), folder.scene], _either_order([removed, renamed], draw), draw)


def _note_and_command(template: str, draw: Draw) -> Bundle:
    note, home = Note.drawn(draw), terminal.Home.drawn(draw)
    written, _ = notes.add_line(note, _new_item(note, draw))
    made, _ = terminal.make_folder(home, draw.pick(STEMS))
    return _across(template, [note.scene(draw), home.scene], _either_order([written, made], draw), draw)


def _delete_and_command(template: str, draw: Draw) -> Bundle:
    folder, home = Folder.drawn(draw), terminal.Home.drawn(draw)
    deleted, _ = thunar.delete(folder, draw.pick(tuple(folder.files)))
    old = draw.pick(tuple(home.files))
    new = next(name for name in draw.file_names(5) if name not in home.files)
    moved, _ = terminal.move(home, old, new)
    return _across(template, [folder.scene, home.scene], _either_order([deleted, moved], draw), draw)


def _picture_and_note(template: str, draw: Draw) -> Bundle:
    album, note = ristretto.Album.drawn(draw), Note.drawn(draw)
    deleted, _ = ristretto.delete_picture(album, draw.number(0, 2))
    written, _ = notes.add_line(note, _new_item(note, draw))
    return _across(template, [album.scene, note.scene(draw)], _either_order([deleted, written], draw), draw)


def _sum_and_delete(template: str, draw: Draw) -> Bundle:
    folder = Folder.drawn(draw)
    summed = galculator.sum_part(draw.number(2, 40), "+", draw.number(2, 40), skill="add-subtract")
    deleted, _ = thunar.delete(folder, draw.pick(tuple(folder.files)))
    return _across(template, [galculator.scene(), folder.scene], _either_order([summed, deleted], draw), draw)


def _sum_and_line(note: Note, draw: Draw) -> tuple[Part, Part, Note]:
    a, b = draw.number(2, 40), draw.number(2, 40)
    summed = galculator.sum_part(a, "+", b, skill="add-subtract")
    written, done = notes.add_line(note, str(a + b))
    asks = f"add the result as a line at the end of {note.name} and save it"
    return summed, replace(written, skill="write-result", asks=asks), done


def _note_in_folder(draw: Draw) -> tuple[Note, Folder]:
    """A note, and the folder that it lies in with other files."""
    note = Note.drawn(draw, lines=3)
    others = [name for name in draw.file_names(3) if name != note.name][:2]
    files = {note.name: note.text, **{name: f"{draw.lines(1)[0]}\n" for name in others}}
    return note, Folder(files=files, folders=(draw.pick(FOLDERS),))


def _new_folder(folder: Folder, draw: Draw) -> str:
    return draw.pick([name for name in FOLDERS if name not in folder.folders])


def _new_item(note: Note, draw: Draw) -> str:
    return draw.pick([item for item in ITEMS if item not in note.lines])


def _either_order(parts: list[Part], draw: Draw) -> list[Part]:
    return draw.some(parts, len(parts))


def _across(template: str, scenes: list[Scene], parts: list[Part], draw: Draw) -> Bundle:
    """The scenes launched in random order, so that the first part's window may or may not be on top."""
    channels = {scene.app for scene in scenes}
    return compose(
        template,
        draw.some(scenes, len(scenes)),
        parts,
        draw,
        channels="both" if terminal.APP in channels else "gui",
    )


PACK = Pack(
    name="together",
    version="1",
    makers={
        "sum-into-note": _sum_into_note,
        "sum-note-folder": _sum_into_note_and_folder,
        "note-and-folder": _note_and_folder,
        "note-and-rename": _note_and_rename,
        "note-and-command": _note_and_command,
        "delete-and-command": _delete_and_command,
        "picture-and-note": _picture_and_note,
        "sum-and-delete": _sum_and_delete,
    },
)
