"""The tape's files: what survives, what is refused, what is shared."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from sandbox.backends.tape import Entry, Tape, pack, root_key, state_key
from sandbox.desktop import DesktopSpec
from sandbox.errors import BadRequest, RecordingMiss

SPEC = DesktopSpec(width=160, height=120)


def entry(parent: str, number: int) -> Entry:
    request = {"call": "spawn", "argv": [str(number)]}
    return Entry(key=state_key(parent, request), parent=parent, request=request, answer=number, error=None, seconds=0.5)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A tape of two entries in a row and one blob."""
    path = tmp_path / "tape"
    with Tape.record(path) as tape:
        root = tape.add_root(SPEC, "image-1", 100.0)
        first = tape.add(entry(root.key, 1))
        tape.add(entry(first.key, 2))
        tape.add_blob(b"blob")
    return path


def contents(tape: Tape) -> tuple[object, object]:
    return tape.roots, tape.entries


def test_what_was_recorded_is_read_back(directory: Path) -> None:
    with Tape.open(directory) as tape:
        root = tape.roots[root_key(SPEC)]
        assert (root.image_digest, root.started, root.spec) == ("image-1", 100.0, SPEC)
        first = entry(root.key, 1)
        assert list(tape.entries.values()) == [first, entry(first.key, 2)]
        assert tape.known(root.key) == [first.request]
        assert tape.known("nowhere") == []


def test_a_key_covers_the_request_and_all_before_it() -> None:
    keys = {
        state_key("a", {"x": 1}),
        state_key("a", {"x": 2}),
        state_key("b", {"x": 1}),
        state_key("a", {"y": 1}),
        root_key(SPEC),
        root_key(DesktopSpec(width=161, height=120)),
    }
    assert len(keys) == 6
    assert state_key("a", {"x": 1, "y": 2}) == state_key("a", {"y": 2, "x": 1})


def test_a_recording_is_continued_and_the_first_answer_stays(directory: Path) -> None:
    with Tape.record(directory) as tape:
        root = tape.add_root(SPEC, "image-1", 999.0)
        assert root.started == 100.0
        first = entry(root.key, 1)
        other = Entry(**{**{name: getattr(first, name) for name in Entry.__slots__}, "answer": 77})
        assert tape.add(other) == first
        tape.add(entry(first.key, 3))
    with Tape.open(directory) as tape:
        assert [request["argv"] for request in tape.known(first.key)] == [["2"], ["3"]]
        assert tape.entries[first.key].answer == 1


def test_another_image_needs_another_tape(directory: Path) -> None:
    with Tape.record(directory) as tape, pytest.raises(BadRequest, match="new directory"):
        tape.add_root(SPEC, "image-2", 0.0)


@pytest.mark.parametrize("torn", [b"{", b'{"key": "abc"', b'{"a": 1}'])
def test_a_last_line_cut_short_is_ignored_and_removed_by_the_next_recording(directory: Path, torn: bytes) -> None:
    index = directory / "index.jsonl"
    whole = index.read_bytes()
    index.write_bytes(whole + torn)
    with Tape.open(directory) as tape:
        before = contents(tape)
    with Tape.record(directory) as tape:
        assert contents(tape) == before
        assert index.read_bytes() == whole
        tape.add(entry(root_key(SPEC), 9))
    with Tape.open(directory) as tape:
        assert len(tape.entries) == 3


def test_every_prefix_of_an_index_is_a_tape_or_no_tape_yet(directory: Path) -> None:
    index = directory / "index.jsonl"
    whole = index.read_bytes()
    header = whole.index(b"\n") + 1
    for end in {*range(0, len(whole), 13), header - 1, header, header + 1, len(whole) - 1}:
        index.write_bytes(whole[:end])
        if end < header:
            with pytest.raises(BadRequest, match="no header"):
                Tape.open(directory)
        else:
            with Tape.open(directory) as tape:
                assert len(tape.entries) == max(0, whole[:end].count(b"\n") - 2)


DAMAGE = [(line, how) for line in (1, 2, 3, 4) for how in ("garbage", "list", "swapped", "lost")]
DAMAGE.remove((4, "lost"))  # losing the last line is losing the last answer
DAMAGE += [(3, "request"), (4, "request")]


@pytest.mark.parametrize(("line", "how"), DAMAGE)
def test_damage_before_the_end_is_refused_with_the_line(directory: Path, line: int, how: str) -> None:
    index = directory / "index.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    if how == "lost":
        del lines[line - 1]
    elif how == "swapped":
        lines[line - 1] = lines[line - 1].replace("1", "3")
    elif how == "request":
        lines[line - 1] = json.dumps({**json.loads(lines[line - 1]), "request": {"call": "other"}}) + "\n"
    else:
        lines[line - 1] = "garbage\n" if how == "garbage" else "[1, 2]\n"
    index.write_text("".join(lines))
    for open_it in (Tape.open, Tape.record):
        with pytest.raises(BadRequest, match=rf"line {line} |version 3"):
            open_it(directory)


def test_an_unknown_version_is_refused(directory: Path) -> None:
    index = directory / "index.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join([json.dumps({"format": "frontdesk-tape", "version": 2}) + "\n", *lines[1:]]))
    for open_it in (Tape.open, Tape.record):
        with pytest.raises(BadRequest, match="version 2, and this Frontdesk plays version 1"):
            open_it(directory)


def test_what_is_no_tape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", "b")
    for name in ("absent", "empty", "text", "other.zip"):
        with pytest.raises(BadRequest, match="there is no tape at"):
            Tape.open(tmp_path / name)


def test_one_process_records_at_a_time(directory: Path) -> None:
    with Tape.record(directory):
        with pytest.raises(BadRequest, match="another process records"):
            Tape.record(directory)
        Tape.open(directory).close()
    Tape.record(directory).close()


def test_a_tape_that_is_only_read_is_not_written(directory: Path) -> None:
    with Tape.open(directory) as tape, pytest.raises(BadRequest, match=r"Tape\.record"):
        tape.add(entry(root_key(SPEC), 9))


def test_bytes_are_stored_once_and_checked(directory: Path) -> None:
    with Tape.record(directory) as tape:
        (path,) = (directory / "blobs").iterdir()
        written = path.stat()
        name = tape.add_blob(b"blob")
        assert name == path.name
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
        assert tape.blob(name) == b"blob"
        other = tape.add_blob(b"other")
    (directory / "blobs" / other).write_bytes((directory / "blobs" / name).read_bytes())
    with Tape.open(directory) as tape:
        for wrong in (other, "0" * 64, "../index.jsonl"):
            with pytest.raises(RecordingMiss, match="lost a part"):
                tape.blob(wrong)


def test_a_packed_tape_plays_the_same_and_packs_to_the_same_bytes(directory: Path, tmp_path: Path) -> None:
    (directory / "blobs" / ".half").write_bytes(b"cut short")
    pack(directory, tmp_path / "a.zip")
    (directory / "index.jsonl").touch()
    pack(directory, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with Tape.open(directory) as loose, Tape.open(tmp_path / "a.zip") as packed:
        assert contents(loose) == contents(packed)
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            index, blob = archive.namelist()
        assert index == "index.jsonl"
        name = blob.removeprefix("blobs/")
        assert packed.blob(name) == loose.blob(name) == b"blob"
