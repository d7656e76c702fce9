"""Reports: what they say, that they stand alone, and that no text of a task or a model becomes markup."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import pytest
from PIL import Image

from evals import Report, build_report, render_html, render_markdown
from evals.film import MAX_FRAMES, film_of
from sandbox.frame import Frame
from store.trajectory import Trajectory, Turn
from tests.support.blobs import FakeBlobs
from tests.support.page import Page
from tests.support.trajectories import make_trajectory

EVIL = '<script>alert("x")</script> & | `code` [link](http://evil.example)'


def turn(index: int, frame: str | None, *actions: dict[str, Any], **changes: Any) -> Turn:
    fields: dict[str, Any] = {
        "index": index,
        "frame": frame,
        "cursor": (0, 0),
        "visible": (index,),
        "raw": "",
        "actions": actions,
        "timings_ms": {"policy": 500.0, "parse": 1.0, "step": 250.0},
    }
    return Turn(**(fields | changes))


@pytest.fixture
def blobs() -> FakeBlobs:
    return FakeBlobs()


def keep(blobs: FakeBlobs, shade: int, *, width: int = 720, height: int = 400) -> str:
    pixels = shade.to_bytes(3, "big") * (width * height)
    return blobs.put(Frame.from_pixels(width, height, pixels).encode())


@pytest.fixture
def trajectories(blobs: FakeBlobs) -> list[Trajectory]:
    white, blue = keep(blobs, 0xFFFFFF), keep(blobs, 0x0000FF)
    click = {"kind": "click", "point": {"x": 600, "y": 200}}
    turns = (
        turn(0, white, click, action_errors=(EVIL,)),
        turn(1, blue, {"kind": "type", "text": EVIL}),
        turn(2, blue, {"kind": "done"}),
    )
    return [
        make_trajectory(
            "o1",
            task_id="task-1",
            instruction=EVIL,
            turns=turns,
            final_frame=blue,
            seconds=4.0,
            timings_ms={"setup": 1000.0, "grade": 250.0},
        ),
        make_trajectory("o2", task_id="task-2", turns=turns[:1], seconds=1.0),
        make_trajectory(
            "n1", task_id="task-1", instruction=EVIL, actor="noop", outcome="fail", reward=0.0, seconds=1.0
        ),
        make_trajectory("n2", task_id="task-2", actor="noop", outcome="infra_error", stop_reason="infra_error"),
    ]


@pytest.fixture
def report(trajectories: list[Trajectory], blobs: FakeBlobs) -> Report:
    return build_report(trajectories, title="Nightly <run>", blobs=blobs, names={"task-2": "Second task"})


def test_a_report_says_what_is_known_and_what_is_not(report: Report) -> None:
    assert report.table.total("oracle").passed == 2
    assert report.names == {"task-1": EVIL, "task-2": "Second task"}
    (pair,) = report.comparisons
    assert (pair.first, pair.second, pair.num_tasks, pair.method) == ("oracle", "noop", 1, "McNemar")
    assert [note for note in report.notes if "infeasible" in note]
    assert not [note for note in report.notes if "doing nothing" in note]
    assert [note for note in report.notes if note.startswith("1 of the attempts ended by infra errors")]
    oracle = report.times["oracle"]
    assert (oracle.num_attempts, oracle.num_turns, oracle.total_s) == (2, 4, 5.0)
    assert oracle.seconds == {"setup": 1.0, "policy": 2.0, "desktop": 1.0, "grade": 0.25, "other": 0.75}
    assert [film.actor for film in report.films] == ["oracle", "noop"]
    assert report.films[0].num_turns == 3, "the longer of two passes is shown"


def test_missing_baselines_and_repeats_are_said(trajectories: list[Trajectory], blobs: FakeBlobs) -> None:
    repeated = [*trajectories[:1], trajectories[0].model_copy(update={"id": "o9"})]
    notes = build_report(repeated, title="t", blobs=blobs).notes
    assert any("doing nothing" in note for note in notes)
    assert any("too narrow" in note for note in notes)


def test_films_show_the_action_where_it_points(trajectories: list[Trajectory], blobs: FakeBlobs) -> None:
    film = film_of(trajectories[0], blobs)
    assert [frame.title for frame in film.frames] == ["turn 1", "turn 2", "turn 3", "end"]
    assert [frame.did for frame in film.frames] == ["click 600 200", f"type {EVIL}", "done", ""]
    assert film.frames[0].note == EVIL
    first, last = film.frames[0], film.frames[-1]
    assert (first.width, first.height) == (360, 200)
    with Image.open(io.BytesIO(base64.b64decode(first.image.partition(",")[2]))) as picture:
        pixels = picture.convert("RGB")
    assert pixels.size == (360, 200)
    marked = [(x, y) for x in range(360) for y in range(200) if pixels.getpixel((x, y)) != (255, 255, 255)]
    assert marked
    assert all(abs(x - 300) < 40 and abs(y - 100) < 40 for x, y in marked), "the mark is where the click was"
    with Image.open(io.BytesIO(base64.b64decode(last.image.partition(",")[2]))) as picture:
        assert picture.convert("RGB").getcolors() == [(360 * 200, (0, 0, 255))]


def test_long_attempts_are_thinned_evenly(blobs: FakeBlobs) -> None:
    name = keep(blobs, 1, width=8, height=8)
    long = make_trajectory(turns=tuple(turn(k, name, {"kind": "wait"}) for k in range(50)))
    titles = [frame.title for frame in film_of(long, blobs).frames]
    assert len(titles) == MAX_FRAMES
    assert (titles[0], titles[-1]) == ("turn 1", "turn 50")
    assert len(set(titles)) == MAX_FRAMES


def test_actions_outside_the_screen_are_still_shown(blobs: FakeBlobs) -> None:
    name = keep(blobs, 1, width=100, height=100)
    outside = make_trajectory(turns=(turn(0, name, {"kind": "click", "point": {"x": 500, "y": 500}}),))
    (frame,) = film_of(outside, blobs).frames
    assert "500" in frame.did


def test_markdown_has_every_number(report: Report) -> None:
    text = render_markdown(report)
    assert text.startswith("# Nightly \\<run\\>\n")
    assert report.table.task_set_hash[:12] in text
    assert "| oracle | 2/2 | 1.00 | 0.34 to 1.00 | 0 |" in text
    assert "| noop | 0/1 | 0.00 | 0.00 to 0.79 | 1 |" in text
    assert "| Second task | 1/1 | (1 infra) |" in text
    assert "| oracle | noop | 1 | +1.00 | 1 | McNemar |" in text
    assert "| oracle | 2 | 4 | 2.5 | 20% | 40% | 20% | 5% | 15% |" in text
    assert "* turn 1: `click 600 200`" in text
    outside_code = re.sub(r"(?<!\\)`[^`]*`", "", text)
    assert "turn 1: " in outside_code
    assert not re.search(r"(?<!\\)<script>|\]\(http", outside_code.replace("\\]", ""))


def test_the_page_is_whole_and_stands_alone(report: Report) -> None:
    html = render_html(report)
    page = Page(html)
    assert page.open == []
    assert "script" not in page.tags
    assert all(source.startswith("data:image/png;base64,") for source in page.fetched)
    assert len(page.fetched) == sum(len(film.frames) for film in report.films)
    assert not re.search(r"url\(|@import", html)
    assert EVIL in page.text, "the text is shown as it is"
    for words in ("Nightly <run>", "Second task", "1 infra", "McNemar", "34% to 100%", "type <script>"):
        assert words in page.text
    assert "prefers-color-scheme: dark" in html
    assert "$" not in html, "no slot of the template is left"


def test_the_page_parser_finds_markup_that_was_not_escaped(report: Report) -> None:
    broken = render_html(report).replace("&lt;script&gt;", "<script>").replace("&lt;/script&gt;", "</script>")
    assert "script" in Page(broken).tags


def test_reports_are_deterministic(trajectories: list[Trajectory], blobs: FakeBlobs) -> None:
    one, other = [build_report(trajectories, title="t", blobs=blobs) for _ in range(2)]
    assert render_html(one) == render_html(other)
    assert render_markdown(one) == render_markdown(other)


def test_an_empty_report_renders(blobs: FakeBlobs) -> None:
    empty = build_report([], title="nothing", blobs=blobs)
    assert "0 tasks" in render_markdown(empty)
    assert Page(render_html(empty)).open == []
