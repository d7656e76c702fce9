"""A learning run's report as page, Markdown and pictures: whole, alone, and no text of a task becomes markup."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

import evals.learning.canvas as canvas_module
from evals.learning import (
    CurvePoint,
    Evaluation,
    HeldOutTask,
    LearningReport,
    LearningRun,
    Synthesis,
    TimeUse,
    build_learning_report,
    training_curve,
    write_learning_report,
)
from evals.learning.canvas import INKS, Canvas
from evals.learning.charts import CHARTS, curve_chart, gates_chart, groups_chart, time_chart
from evals.learning.frontier_chart import STATE_INKS, frontier_chart
from evals.learning.markdown import render_learning_markdown
from evals.learning.page import render_learning_html
from frontier.lifecycle import STATES
from sandbox.frame import Frame
from store.trajectory import Turn
from tests.support.blobs import FakeBlobs
from tests.support.page import Page
from tests.support.trajectories import make_trajectory
from verigen.synth import GateYield

EVIL = '<script>alert("x")</script> & | `code` [link](http://evil.example) $title'
BLOBS = FakeBlobs()
SHOT = BLOBS.put(Frame.from_pixels(64, 48, b"\x20\x60\xa0" * (64 * 48)).encode())
FRONTIER = {
    "states": {**dict.fromkeys(STATES, 0), "FRONTIER": 2, "EASY": 1},
    "tasks": [
        {"task": "a", "cell": EVIL, "state": "FRONTIER", "success": 0.5, "groups": 3},
        {"task": "b", "cell": EVIL, "state": "FRONTIER", "success": 0.5, "groups": 0},
        {"task": "c", "cell": "files rename", "state": "EASY", "success": 0.97, "groups": 1},
    ],
}


def evaluation(name: str, letters: str, *, actor: str = "policy") -> Evaluation:
    turn = Turn(
        index=0,
        frame=SHOT,
        cursor=(0, 0),
        visible=(0,),
        raw="",
        thought=EVIL,
        actions=({"kind": "type", "text": EVIL},),
        action_errors=(EVIL,),
    )
    words = {"p": "pass", "f": "fail", "i": "infra_error"}
    found = []
    for number, letter in enumerate(letters):
        fields: dict[str, Any] = {"outcome": words[letter], "instruction": EVIL, "actor": actor, "turns": (turn,) * 4}
        if letter == "f":
            fields["reward"] = 0.0
        found.append(make_trajectory(f"{name}-{number}", task_id=f"t{number}", **fields))
    return Evaluation(name=name, trajectories=found)


def make_run(**changes: Any) -> LearningRun:
    fields: dict[str, Any] = {
        "title": f"Run {EVIL}",
        "tasks": tuple(
            HeldOutTask(id=f"t{k}", instruction=EVIL, apps=(EVIL,), skills=(EVIL, "save"), template=EVIL)
            for k in range(8)
        ),
        "evaluations": (
            evaluation("warm", "ffffffpi"),
            evaluation(EVIL, "pppppppf"),
            evaluation("noop", "ffffffff", actor="noop"),
        ),
        "pairs": (("warm", EVIL),),
        "synthesis": Synthesis(
            gates=(GateYield(gate=EVIL, reached=4, passed=3, rejected=1, unproven=2),), reproven=2, still_pass=2
        ),
        "training": training_curve([(k // 10, float(k), "pass" if k % 3 else "fail") for k in range(60)]),
        "frontier": FRONTIER,
        "time": TimeUse(
            phases={EVIL: 60.0, "practice": 7200.0},
            attempts={"policy": 9.0},
            learner={"updates": 50.0},
            practice_s=60.0,
        ),
        "notes": (EVIL,),
    }
    return LearningRun(**(fields | changes))


def build(**changes: Any) -> LearningReport:
    return build_learning_report(make_run(**changes), blobs=BLOBS)


def test_the_page_is_whole_and_stands_alone() -> None:
    html = render_learning_html(build())
    page = Page(html)
    assert page.open == []
    assert "script" not in page.tags
    assert page.tags.count("svg") == 6
    assert page.fetched
    assert all(source.startswith("data:image/png;base64,") for source in page.fetched)
    assert not re.search(r"url\(|@import", html)
    assert page.text.count(EVIL) > 10, "texts are shown as they are"
    for words in (
        "Practice raised held-out success from 1 of 7 to 7 of 8 (p = 0.031",
        "+6 / −0",
        "noop",
        "2 of 2 shipped",
    ):
        assert words in page.text
    assert "prefers-color-scheme: dark" in html


def test_a_text_that_is_not_escaped_would_be_found() -> None:
    html = render_learning_html(build())
    broken = html.replace("&lt;script&gt;", "<script>").replace("&lt;/script&gt;", "</script>")
    assert "script" in Page(broken).tags


def test_markdown_has_the_numbers_and_no_markup_of_others() -> None:
    report = build(title="Run")
    text = render_learning_markdown(report, pictures={"skills"})
    assert text.startswith("# Run\n")
    assert "![Success by skill](skills.png)" in text
    assert "learning.png" not in text, "only pictures that are there"
    assert "| noop | 0/8 | 0/8, too few for a rate | 0 to 32 % | 0 | 4.0 |" in text
    assert "| save | 8 | 1/7 | 7/8 | 0/8 |" in text
    outside_code = re.sub(r"(?<!\\)`[^`]*`", "", text)
    assert outside_code.count("script") > 5
    assert not re.search(r"(?<!\\)<", outside_code)
    assert not re.search(r"(?<!\\)\]\(http", outside_code)
    assert not [line for line in text.splitlines() if line.startswith("|") and not line.endswith("|")]


NOTHING: dict[str, Any] = {
    "tasks": (),
    "evaluations": (),
    "pairs": (),
    "synthesis": Synthesis(),
    "training": (),
    "frontier": None,
    "time": None,
}


@pytest.mark.parametrize(
    "changes",
    [
        NOTHING,
        {"pairs": (), "evaluations": (evaluation("warm", "ffpp"),), "training": ()},
        {"evaluations": (evaluation("warm", "iiii"), evaluation(EVIL, "iiii"))},
        {"evaluations": (evaluation("warm", ""), evaluation(EVIL, ""))},
        {"time": TimeUse(phases={}, attempts={}, learner={}, practice_s=0.0)},
        {"frontier": {"states": dict.fromkeys(STATES, 0), "tasks": []}},
        {"held_out": {"greedy": ()}},
    ],
)
def test_parts_that_are_missing_are_left_out(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canvas_module, "OVERSAMPLING", 1)  # fast; nobody looks at these
    report = build(**changes)
    page = Page(write_learning_report(report, tmp_path).read_text("utf-8"))
    assert page.open == []
    assert "nan" not in re.findall(r"\w+", page.text)
    referred = set(re.findall(r"\]\(([\w-]+\.png)\)", (tmp_path / "report.md").read_text("utf-8")))
    assert referred == {path.name for path in tmp_path.glob("*.png")}


def test_all_files_are_written_and_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "one"
    page = write_learning_report(build(), folder)
    names = {path.name for path in folder.iterdir()}
    charts = {f"{name}.png" for name in (*CHARTS, "frontier", "film-1", "film-2", "film-3")}
    assert names == {"report.html", "report.md", *charts}
    before = page.read_bytes()
    for name in charts:
        with Image.open(folder / name) as picture:
            assert min(picture.size) > 50
            assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 2, f"{name} shows something"
    assert write_learning_report(build(), folder).read_bytes() == before


def shapes(canvas: Canvas | None, tag: str) -> list[ElementTree.Element]:
    assert canvas is not None
    return list(ElementTree.fromstring(canvas.svg("a label")).iter(tag))


def test_the_curve_has_a_point_with_its_interval_for_each_evaluation() -> None:
    report = build()
    dots = [dot for dot in shapes(curve_chart(report), "circle") if dot.find("title") is not None]
    said = [str(dot.findtext("title")) for dot in dots]
    assert [words.rsplit("(", 1)[1] for words in said] == ["1/7)", "7/8)"]
    before, after = dots
    assert float(before.attrib["cx"]) < float(after.attrib["cx"])
    assert float(before.attrib["cy"]) > float(after.attrib["cy"]), "more success is higher up"


def test_evaluations_between_are_points_of_their_own_lines() -> None:
    at = [
        CurvePoint(updates=k, seconds=60.0 * k, episodes=8 * k, passed=k, trials=n) for k, n in enumerate((10, 0, 10))
    ]
    said = [dot.findtext("title") for dot in shapes(curve_chart(build(held_out={"greedy": tuple(at)})), "circle")]
    assert [words for words in said if words] == ["greedy: 0 % (0/10)", "greedy: 20 % (2/10)"]


def test_gates_show_what_came_through_in_proportion() -> None:
    gates = (
        GateYield(gate="G0", reached=40, passed=40, rejected=0, unproven=0),
        GateYield(gate="G4", reached=40, passed=10, rejected=30, unproven=5),
    )
    bars = shapes(gates_chart(build(synthesis=Synthesis(gates=gates))), "polygon")

    def width(bar: ElementTree.Element) -> float:
        xs = [float(point.split(",")[0]) for point in bar.attrib["points"].split()]
        return max(xs) - min(xs)

    passed = [width(bar) for bar in bars if "--pass" in bar.attrib["style"]]
    rejected = [width(bar) for bar in bars if "--fail" in bar.attrib["style"]]
    assert passed[1] == pytest.approx(passed[0] / 4)
    assert rejected == [0, pytest.approx(3 * passed[1])]


def test_the_map_has_a_dot_for_each_task_and_dots_apart() -> None:
    dots = [dot for dot in shapes(frontier_chart(build()), "circle") if dot.find("title") is not None]
    places = {(dot.attrib["cx"], dot.attrib["cy"]) for dot in dots}
    assert len(dots) == len(places) == 3
    assert set(STATES) <= set(STATE_INKS), "every state of the sampler has a colour"


def test_time_beyond_the_learner_is_waiting() -> None:
    texts = [str(text.text) for text in shapes(time_chart(build()), "text")]
    assert "updates  50 s (83 %)" in texts
    assert "the learner waits for attempts  10 s (17 %)" in texts
    assert "The whole run: 2 h 1 min by the clock" in texts


def test_drawings_are_the_same_in_both_forms() -> None:
    canvas = Canvas(width=40, height=30)
    canvas.bar(0, 0, 20, 30, "pass")
    canvas.dot(30, 15, 5, "fail", hollow=True)
    canvas.line([(0, 29), (40, 29)], "ink", width=2)
    canvas.text(20, 10, "– “ü” 漢 <b>")
    svg = ElementTree.fromstring(canvas.svg('a "label" <x>'))
    assert svg.attrib["aria-label"] == 'a "label" <x>'
    assert [child.tag for child in svg] == ["polygon", "circle", "polyline", "text"]
    assert svg[3].text == "– “ü” 漢 <b>"
    with Image.open(io.BytesIO(canvas.png())) as picture:
        pixels = picture.convert("RGB")
    assert pixels.size == (80, 60)
    assert pixels.getpixel((4, 50)) == INKS["pass"]
    assert pixels.getpixel((60, 30)) == INKS["card"], "a ring is empty inside"
    assert pixels.getpixel((79, 2)) == INKS["card"]


def test_groups_without_a_pair_show_the_one_evaluation() -> None:
    report = build(pairs=(), evaluations=(evaluation("warm", "ffffpppp"),))
    said = [str(dot.findtext("title")) for dot in shapes(groups_chart(report, "app"), "circle")]
    assert said == ["4/8"]
