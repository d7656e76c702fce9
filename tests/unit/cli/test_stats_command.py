"""`frontdesk tasks stats`: outcomes, the map, and what it says when there is none."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from frontier import FrontierSampler
from store import Catalog, Home
from tests.support.command_line import CommandLine
from tests.support.sampling import play, pool
from tests.support.trajectories import make_bundle_row, make_episode_row
from trainer.practice import keep_sampler


def fill(home: Path, *names: str) -> None:
    sampler = FrontierSampler(pool(20), seed=0)
    for version in range(30):
        play(sampler, sampler.plan(64, version), lambda task, n: n if task < "task-2" else n // 2, version=version)
    with Catalog.open(Home(home).ensure().catalog_url) as catalog:
        catalog.add_bundle(make_bundle_row("task-0", name="a-mastered-task"))
        catalog.add_episode(make_episode_row("e1", task_id="task-0", actor="qwen"))
        for name in names:
            keep_sampler(catalog, name, sampler)


def test_the_map_is_drawn_three_ways(frontdesk: CommandLine, tmp_path: Path) -> None:
    fill(frontdesk.home, "run-1")
    shown = frontdesk("tasks stats --frontier --json").json
    assert shown["source"] == "run-1"
    assert sum(shown["map"]["states"].values()) == 20
    assert shown["events"][0]["reason"].endswith(".")
    text = frontdesk("tasks stats --frontier").out
    assert "FRONTIER" in text
    assert "cell-0" in text
    assert "Lately" in text
    png = tmp_path / "deep" / "map.png"
    assert frontdesk(f"tasks stats --frontier --png {png}").code == 0
    with Image.open(png) as image:
        assert image.size[0] > 400
        colors = image.getcolors(maxcolors=100_000)
    assert colors is not None
    assert len(colors) > 10, "tasks are shaded"


def test_outcomes_and_one_actors_map(frontdesk: CommandLine) -> None:
    fill(frontdesk.home)
    ran = frontdesk("tasks stats")
    assert "a-mastered-task" in ran.out
    assert frontdesk("tasks stats --json").json["outcomes"][0]["actor"] == "qwen"
    shown = frontdesk("tasks stats --frontier --actor qwen --json").json
    assert shown["source"] == "episodes of qwen"
    assert len(shown["map"]["tasks"]) == 1


def test_what_is_missing_is_said(frontdesk: CommandLine) -> None:
    assert "No episode" in frontdesk("tasks stats").out
    ran = frontdesk("tasks stats --frontier")
    assert ran.code == 2
    assert "--actor" in ran.err
    assert frontdesk("tasks stats --png map.png").code == 2
    assert frontdesk("tasks stats --frontier --actor nobody").code == 2
    fill(frontdesk.home, "run-1", "run-2")
    ran = frontdesk("tasks stats --frontier")
    assert "run-1, run-2" in ran.err
    assert frontdesk("tasks stats --frontier --sampler run-2 --json").json["source"] == "run-2"
