from __future__ import annotations

import dataclasses
import io
import json
import sys
from pathlib import Path

import pytest

from cli.errors import Failure, explain
from cli.output import Output, age, facts, size, table
from cli.progress import live_progress, plain_progress
from sandbox.desktop import DesktopSpec, Rect

FAILURE = Failure(type="ImageError", message="no [image] here", fix="build it", exit_code=1)


def test_json_is_one_document_of_the_houses_types(capsys: pytest.CaptureFixture[str]) -> None:
    data = {
        "path": Path("/a/b"),
        "rect": Rect(x=1, y=2, width=3, height=4),
        "spec": DesktopSpec(width=800),
        "names": frozenset({"b", "a"}),
        "bytes": b"caf\xc3\xa9",
    }
    Output(json=True).result(data, "never shown")
    out = capsys.readouterr().out
    read = json.loads(out)
    assert "never shown" not in out
    assert (read["path"], read["names"], read["bytes"]) == ("/a/b", ["a", "b"], "café")
    assert read["rect"] == {"x": 1, "y": 2, "width": 3, "height": 4}
    assert read["spec"]["width"] == 800


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        Output(json=True).result({"what": object()})


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    shown = table(["Name", ">Size"], [("light", "1 MB"), ("office", "20 MB")])
    Output(json=False).result({"hidden": True}, "[bold]Images[/bold]", shown, facts([("one", "1")]))
    out = capsys.readouterr().out
    assert "hidden" not in out
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == "Images"
    assert lines[3:5] == ["light     1 MB", "office   20 MB"]


def test_a_failure_goes_to_stderr_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=False).failure(FAILURE, ValueError("x"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: no [image] here\nto fix it: build it\n"


def test_a_failure_is_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True).failure(FAILURE, ValueError("x"))
    read = json.loads(capsys.readouterr().out)
    assert read == {"error": {"type": "ImageError", "message": "no [image] here", "fix": "build it"}}


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_only_debug_shows_the_traceback(
    value: str, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FRONTDESK_DEBUG", value)
    try:
        raise KeyError("oops")
    except KeyError as error:
        Output(json=False).failure(explain(error), error)
    assert ("Traceback" in capsys.readouterr().err) == shown


def test_an_interruption_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=False).interrupted("frontdesk quickstart --seed 3")
    err = capsys.readouterr().err
    assert "what was finished is kept" in err
    assert "frontdesk quickstart --seed 3" in err


def test_progress_in_a_log_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Output(json=True).progress("Working", total=2) as progress:
        progress.now("first [half]")
        progress.now("first [half]")
        progress.reach(1)
        progress.finished("[green]one[/green]")
        progress.line("between")
        progress.finished()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["Working", "  first [half]", "1/2 one", "between"]


def test_progress_on_a_terminal_keeps_finished_lines_and_no_bar() -> None:
    from rich.console import Console

    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with live_progress(console, "Working", 2) as progress:
        progress.now("[half]")
        progress.reach(1)
        progress.finished("one is done")
    assert "one is done" in screen.getvalue()
    with plain_progress(console, "Plain", None) as progress:
        progress.finished("no total, no count")
    assert "no total, no count" in screen.getvalue()


def test_results_follow_a_replaced_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(json=False)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    output.result({}, "hello")
    assert stream.getvalue() == "hello\n"


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (234_000_000, "234 MB"), (1.62e9, "1.6 GB"), (3e13, "30.0 TB")],
)
def test_sizes_read_well(num_bytes: float, text: str) -> None:
    assert size(int(num_bytes)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (180, "3 min"), (9000, "2.5 h"), (400_000, "5 d")]
)
def test_ages_read_well(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_failures_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FAILURE.message = "other"  # type: ignore[misc]
