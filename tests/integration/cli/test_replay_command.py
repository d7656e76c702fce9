"""Playing kept episodes again on real desktops: what is equal, what differs, and what is no longer there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.workspace import open_workspace
from store import Trajectory
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.desktop
TASK = "galculator-boxes-with-discount"


def keep_changed(episode: str, **changes: Any) -> str:
    """Keep a changed copy of an episode; return its id."""
    with open_workspace() as work:
        loaded = work.trajectories.load(episode)
        copy = Trajectory.model_validate(loaded.model_dump() | {"id": f"{episode}-changed-{len(changes)}"} | changes)
        work.trajectories.commit(copy)
    return copy.id


def test_an_episode_is_played_again_and_a_changed_one_differs_where_it_was_changed(
    frontdesk: CommandLine, tmp_path: Path
) -> None:
    (episode,) = frontdesk(f"episodes run {TASK} --json").json["episodes"]
    assert episode["outcome"] == "pass"
    played = frontdesk(f"episodes replay {episode['id']} --fast --json")
    assert played.code == 0, played.out
    assert played.json["same"]
    assert len(played.json["steps"]) > 5
    assert played.json["harness_known"]

    # The record says that another key was clicked than the one that was: its screens are no longer those of its log.
    turns = json.loads(frontdesk(f"episodes show {episode['id']} --json").out)["turns"]
    turns[2]["actions"] = [{"kind": "click", "point": turns[0]["actions"][0]["point"]}]
    changed = keep_changed(episode["id"], turns=turns)
    differs = frontdesk(f"episodes replay {changed} --fast --save {tmp_path}/pictures --json")
    assert differs.code == 1
    first = differs.json["first"]
    assert first["step"] == 3
    assert first["difference"]["pixels"] > 0
    assert first["facts"]["pointer"]
    assert differs.json["ending"]["score"] == {"recorded": 1.0, "now": 0.0}
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"difference.png", "now.png", "recorded.png"}


def test_what_an_episode_needs_and_is_no_longer_there_is_named(frontdesk: CommandLine) -> None:
    (episode,) = frontdesk(f"episodes run {TASK} --actor infeasible --json").json["episodes"]
    gone = keep_changed(episode["id"], image_digest="0" * 64)
    said = frontdesk(f"episodes replay {gone}")
    assert said.code == 2
    assert "the image of episode" in said.err
    assert "light 000000000000" in said.err
    without = keep_changed(episode["id"], image_digest="0" * 64, task_id="f" * 64)
    said = frontdesk(f"episodes replay {without}")
    assert said.code == 2
    assert "the task of episode" in said.err
    other = keep_changed(episode["id"], image_digest="", outcome="fail", reward=0.0)
    assert "never had a desktop" in frontdesk(f"episodes replay {other}").err
