"""Attempting and verifying tasks from the command line, on real desktops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from verigen.bundle import load_bundle, shipped_bundles

pytestmark = pytest.mark.desktop

# The one that is solved by saying that it cannot be done: its gates are the quickest.
BUNDLE = next(folder for folder in shipped_bundles() if not load_bundle(folder)[0].task.feasible)
NAME = BUNDLE.name


@pytest.mark.parametrize(("actor", "outcome"), [("oracle", "pass"), ("noop", "fail"), ("infeasible", "pass")])
def test_an_actors_attempt_is_kept_and_can_be_looked_at(
    frontdesk: CommandLine, actor: str, outcome: str, tmp_path: Path
) -> None:
    ran = frontdesk(f"episodes run {NAME} --actor {actor} --json")
    assert ran.code == 0, ran.err
    (episode,) = ran.json["episodes"]
    assert episode["outcome"] == outcome
    shown = frontdesk(f"episodes show {episode['id']} --frames {tmp_path}/frames --json").json
    assert shown["turns"][0]["frame"] is not None
    assert (tmp_path / "frames" / "final.png").is_file()
    assert NAME in frontdesk(f"episodes list --task {NAME}").out


def test_a_model_that_cannot_be_reached_is_an_infra_error(frontdesk: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "harness.toml").write_text("[limits]\nreply_limit_s = 1.0\n")
    endpoint = f"--base-url http://127.0.0.1:9/v1 --model m --harness {tmp_path}/harness.toml"
    ran = frontdesk(f"episodes run {NAME} --actor model {endpoint} --json")
    assert ran.code == 1
    (episode,) = ran.json["episodes"]
    assert (episode["outcome"], episode["reward"], episode["error"]["phase"]) == ("infra_error", None, "policy")


def test_verify_stores_a_proof_and_uses_it_again(frontdesk: CommandLine) -> None:
    ran = frontdesk(f"tasks verify {NAME}")
    assert ran.code == 0, ran.out + ran.err
    for gate in ("G0", "G1", "G2", "G3", "G4", "G5"):
        assert f"✓ {gate}" in ran.err
    assert "1 of 1 proven" in ran.out
    listed = {task["name"]: task["proof"] for task in frontdesk("tasks list --json").json["tasks"]}
    assert listed[NAME] == "passed"
    assert NAME not in [task["name"] for task in frontdesk("tasks list --unproven --json").json["tasks"]]
    assert "proof on image" in frontdesk(f"tasks show {NAME}").out
    before = frontdesk(f"tasks show {NAME} --json").json["proofs"]
    assert frontdesk(f"tasks verify {NAME} --json").json["proven"] == 1
    assert frontdesk(f"tasks show {NAME} --json").json["proofs"] == before


def test_a_task_that_is_not_proven_fails_the_command(frontdesk: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    frontdesk(f"tasks export {NAME} {folder}")
    document = json.loads((folder / "bundle.json").read_text())
    document["oracle"] = document["negatives"][0]["script"]
    (folder / "bundle.json").write_text(json.dumps(document))
    ran = frontdesk(f"tasks verify {folder}")
    assert ran.code == 1
    assert "rejected at G" in ran.err
    assert "0 of 1 proven" in ran.out
    both = frontdesk(f"tasks verify {folder} {NAME} --desktops 4 --json")
    assert (both.code, both.json["proven"]) == (1, 1)
    oracles = [task["proof"]["gates"][-1]["outcome"] for task in both.json["tasks"]]
    assert oracles == ["failed", "passed"], "proven side by side, told in the order asked for"
