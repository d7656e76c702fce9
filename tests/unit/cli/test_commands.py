"""Every command that needs no desktop: its JSON, its text, its exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from store import BlobStore, Catalog, Home, TrajectoryStore
from tests.support.command_line import CommandLine
from tests.support.screen import make_frame
from tests.support.trajectories import make_trajectory
from verigen.bundle import load_bundle, shipped_bundles
from verigen.sets import read_sets

SHIPPED = [folder.name for folder in shipped_bundles()]


def test_doctor(frontdesk: CommandLine) -> None:
    ran = frontdesk("doctor --json")
    found = {finding["name"]: finding for finding in ran.json["findings"]}
    assert set(next(iter(found.values()))) == {"name", "status", "detail", "required", "fix"}
    assert ran.code == (0 if ran.json["ready"] else 1)
    assert ran.json["ready"] == all(one["status"] != "missing" for one in found.values() if one["required"])


def test_doctor_fails_where_something_required_is_missing(
    frontdesk: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.doctor._which", lambda program: None)
    ran = frontdesk("doctor")
    assert ran.code == 1
    assert "apt-get install bubblewrap" in ran.out
    assert "Desktops cannot run here yet" in ran.out
    assert frontdesk("quickstart").code == 1


def test_image_list_without_images_names_the_command_to_build_them(frontdesk: CommandLine) -> None:
    assert frontdesk("image list --json").json == {"images": [], "unbuilt": ["light", "office"]}
    assert "frontdesk image build light" in frontdesk("image list").out


def test_desk_list_without_desks(frontdesk: CommandLine) -> None:
    assert frontdesk("desk list --json").json == {"desks": []}
    assert "frontdesk desk open" in frontdesk("desk list").out
    assert frontdesk("desk close --all --json").json == {"closed": []}


def test_tasks_list_shows_what_is_shipped(frontdesk: CommandLine) -> None:
    tasks = frontdesk("tasks list --json").json["tasks"]
    assert [task["name"] for task in tasks] == [*SHIPPED, *(task.bundle.task.name for task in read_sets())]
    assert {task["origin"] for task in tasks} == {"shipped"}
    assert {task["proof"] for task in tasks} == {None}
    app = tasks[0]["apps"][0]
    of_app = frontdesk(f"tasks list --app {app} --json").json["tasks"]
    assert of_app[0]["name"] == SHIPPED[0]
    assert {app in task["apps"] for task in of_app} == {True}
    held_out = frontdesk("tasks list --split held-out --json").json["tasks"]
    assert {task["id"] for task in held_out} == {task.bundle.id for task in read_sets() if task.split == "held-out"}


def test_a_task_is_found_by_name_id_and_folder(frontdesk: CommandLine) -> None:
    bundle, _ = load_bundle(shipped_bundles()[0])
    for ref in (bundle.task.name, bundle.id, bundle.id[:8], str(shipped_bundles()[0])):
        assert frontdesk(f"tasks show {ref} --json").json["id"] == bundle.id
    assert bundle.task.name in frontdesk(f"tasks show {bundle.id}").out
    ran = frontdesk("tasks show no-such-task")
    assert (ran.code, "frontdesk tasks list" in ran.err) == (2, True)


def test_a_task_goes_out_changes_and_comes_back_as_another(frontdesk: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert frontdesk(f"tasks export {SHIPPED[0]} {folder}").code == 0
    refused = frontdesk(f"tasks export {SHIPPED[0]} {folder}")
    assert (refused.code, "choose another" in refused.err) == (2, True)
    document = json.loads((folder / "bundle.json").read_text())
    document["task"]["name"] = "my-own-task"
    (folder / "bundle.json").write_text(json.dumps(document))
    (imported,) = frontdesk(f"tasks import {folder} --split held-out --json").json["tasks"]
    assert (imported["name"], imported["new"]) == ("my-own-task", True)
    assert frontdesk(f"tasks import {folder} --json").json["tasks"][0]["new"] is False
    *_, listed = frontdesk("tasks list --split held-out --json").json["tasks"]
    assert (listed["id"], listed["origin"]) == (imported["id"], "catalog")
    assert "my-own-task" in frontdesk("tasks show my-own-task").out


def test_a_broken_bundle_names_its_field(frontdesk: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text('{"task": {"name": "X"}}')
    ran = frontdesk(f"tasks import {tmp_path}")
    assert ran.code == 2
    assert "task.name" in ran.err
    assert "Traceback" not in ran.err


def test_verify_wants_to_know_what(frontdesk: CommandLine) -> None:
    ran = frontdesk("tasks verify")
    assert (ran.code, "--all" in ran.err) == (2, True)


def test_a_model_needs_an_endpoint_and_an_oracle_does_not(frontdesk: CommandLine) -> None:
    ran = frontdesk(f"episodes run {SHIPPED[0]} --actor model")
    assert (ran.code, "--base-url and --model" in ran.err) == (2, True)
    ran = frontdesk(f"episodes run {SHIPPED[0]} --model x")
    assert (ran.code, "for --actor model" in ran.err) == (2, True)
    ran = frontdesk(f"episodes run {SHIPPED[0]} --actor nobody")
    assert (ran.code, "oracle" in ran.err) == (2, True)


def store(frontdesk: CommandLine) -> TrajectoryStore:
    home = Home(frontdesk.home).ensure()
    return TrajectoryStore(home.trajectories, BlobStore(home.blobs), Catalog.open(home.catalog_url))


def test_episodes_are_listed_and_shown(frontdesk: CommandLine, tmp_path: Path) -> None:
    kept = store(frontdesk)
    blobs = BlobStore(frontdesk.home / "blobs")
    frame = blobs.put(make_frame(1, width=200, height=100).encode())
    kept.commit(make_trajectory("e-good", frames=(frame, frame)))
    kept.commit(make_trajectory("e-lost", frames=(frame,), outcome="infra_error"))
    listed = frontdesk("episodes list --json").json["episodes"]
    assert {row["id"] for row in listed} == {"e-good", "e-lost"}
    assert [row["id"] for row in frontdesk("episodes list --outcome infra_error --json").json["episodes"]] == ["e-lost"]
    assert "No episode fits" in frontdesk("episodes list --actor nobody").out

    shown = frontdesk(f"episodes show e-g --frames {tmp_path / 'frames'} --json").json
    assert (shown["id"], shown["num_segments"], len(shown["frames"])) == ("e-good", 2, 2)
    assert all(Path(path).is_file() for path in shown["frames"])
    text = frontdesk("episodes show e-good").out
    assert "reward 1" in text
    assert "tokens were not recorded" in text
    lost = frontdesk("episodes show e-lost").out
    assert "no reward" in lost
    assert "teaches nothing" in lost
    missing = frontdesk("episodes show nope")
    assert (missing.code, "frontdesk episodes list" in missing.err) == (2, True)


def test_gc_tells_first_and_removes_when_asked(frontdesk: CommandLine) -> None:
    kept = store(frontdesk)
    blobs = BlobStore(frontdesk.home / "blobs")
    live = blobs.put(make_frame(1).encode())
    dead = blobs.put(b"nobody refers to this")
    kept.commit(make_trajectory("e-1", frames=(live,)))
    for path in (frontdesk.home / "blobs").glob("??/*"):
        os.utime(path, (1, 1))
    told = frontdesk("gc --json").json
    assert told["free_bytes"] > 0
    assert blobs.has(dead)
    assert "frontdesk gc --apply" in frontdesk("gc").out
    done = frontdesk("gc --apply --json").json
    assert (blobs.has(dead), blobs.has(live), done["free_bytes"]) == (False, True, 0)
    assert any("1 blob" in line for line in done["done"])


def test_bench_lists_and_refuses_what_there_is_not(frontdesk: CommandLine) -> None:
    known = frontdesk("bench --json").json["benchmarks"]
    assert {"cli", "desktops"} <= set(known)
    assert all(about.endswith(".") for about in known.values())
    ran = frontdesk("bench nothing")
    assert (ran.code, "cli" in ran.err) == (2, True)


def test_wrong_options_are_bad_input(frontdesk: CommandLine) -> None:
    assert frontdesk("desk open --size big").code == 2
    assert frontdesk("desk open --size 10x10").code == 2
    assert frontdesk("desk open --no-such-option").code == 2
    assert frontdesk("no-such-command").code == 2
    assert frontdesk("desk do").code == 2


def test_an_unusable_home_is_one_message(frontdesk: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTDESK_HOME", "/proc/nowhere")
    ran = frontdesk("tasks list")
    assert ran.code == 2
    assert "Set FRONTDESK_HOME" in ran.err
    assert "Traceback" not in ran.err


def test_a_failure_with_json_is_one_json_document(frontdesk: CommandLine) -> None:
    ran = frontdesk("desk shot --json")
    assert ran.code == 2
    assert ran.json["error"]["type"] == "BadRequest"
    assert ran.err == ""


def test_ctrl_c_says_how_to_go_on(frontdesk: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(home: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sandbox.doctor.examine", interrupt)
    ran = frontdesk("quickstart --fresh --seed 3")
    assert ran.code == 130
    assert ran.err.splitlines()[-1] == "  frontdesk quickstart --seed 3"
