"""The quickstart on a small budget: its check and the whole loop, each twice, and interrupted in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from store import Catalog, Home
from tests.support.command_line import CommandLine
from tests.support.machine_state import wait_until_gone
from verigen.bundle import shipped_bundles

pytestmark = pytest.mark.desktop

HOUSE = Path(__file__).resolve().parents[2]
NUM_TASKS = len(shipped_bundles())


def count(home: Path) -> int:
    """Episodes that are kept."""
    with Catalog.open(Home(home).catalog_url) as catalog:
        return len(catalog.episodes())


def test_quickstart_says_what_it_should_and_does_nothing_twice(frontdesk: CommandLine) -> None:
    ran = frontdesk("quickstart --check --rollouts 1 --desktops 3 --json")
    assert ran.code == 0, ran.out + ran.err
    told = ran.json
    assert told["problems"] == []
    outcomes = {(one["actor"], one["task"]): one["count"] for one in told["outcomes"]}
    assert len(outcomes) == 4 * NUM_TASKS
    for (actor, task), counts in outcomes.items():
        assert counts["infra"] == 0, (actor, task)
        if actor in ("oracle", "noop"):
            assert counts["passed"] == (actor == "oracle"), (actor, task)
    report = Path(told["report"])
    assert "oracle" in (report / "report.md").read_text()
    assert (report / "report.html").read_text().count("data:image/png") > NUM_TASKS
    assert count(frontdesk.home) == 4 * NUM_TASKS
    assert wait_until_gone(frontdesk.home) == []

    again = frontdesk("quickstart --check --rollouts 1")
    assert again.code == 0
    assert "These attempts were finished before" in again.out
    assert count(frontdesk.home) == 4 * NUM_TASKS


def test_an_interrupted_quickstart_goes_on_where_it_was(frontdesk: CommandLine) -> None:
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(frontdesk.home)}
    argv = [sys.executable, "-c", "from cli.main import run; run()", "quickstart", "--check", "--desktops", "2"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        ends_at = time.monotonic() + 90
        while not (frontdesk.home / "catalog.sqlite").exists() or count(frontdesk.home) < 2:
            assert time.monotonic() < ends_at, "no episode was kept in 90 s"
            time.sleep(0.1)
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "frontdesk" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert wait_until_gone(frontdesk.home) == []
    kept = count(frontdesk.home)
    assert 2 <= kept < 4 * NUM_TASKS

    ran = frontdesk("quickstart --check --rollouts 1 --desktops 3")
    assert ran.code == 0, ran.out + ran.err
    assert count(frontdesk.home) == 4 * NUM_TASKS
    assert len([line for line in ran.err.splitlines() if "turn" in line]) == 4 * NUM_TASKS - kept


def test_a_killed_quickstart_leaves_nothing_running(frontdesk: CommandLine) -> None:
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(frontdesk.home)}
    argv = [sys.executable, "-c", "from cli.main import run; run()", "quickstart", "--check", "--desktops", "2"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        ends_at = time.monotonic() + 60
        while not list(frontdesk.home.glob("run/frontdesk-*/*/ctl/probe.sock")):
            assert time.monotonic() < ends_at, "no desktop was started in 60 s"
            time.sleep(0.05)
        started.kill()
    assert wait_until_gone(frontdesk.home) == []


PLAN = """
new_tasks = 1
proven_again = 1
held_out = 4

[run]
name = "small"

[run.tasks]
templates = ["galculator/no-such-menu", "mousepad/no-such-line"]

[run.warm_start]
plans = 40
reading = 20
demonstrations = 4
draws = 2
updates = 40

[run.practice]
updates = 0
"""


def test_the_whole_loop_goes_on_after_a_kill_and_ends_with_a_report(frontdesk: CommandLine, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    line = f"quickstart --plan {plan} --desktops 3 --json"
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(frontdesk.home)}
    argv = [sys.executable, "-c", "from cli.main import run; run()", *line.split()]
    root = frontdesk.home / "runs" / "train" / "small"
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        ends_at = time.monotonic() + 120
        while not (root / "widgets.jsonl").exists():
            assert time.monotonic() < ends_at, "nothing was demonstrated in 120 s"
            time.sleep(0.05)
        started.kill()
    assert wait_until_gone(frontdesk.home) == []

    ran = frontdesk(line)
    assert ran.code == 0, ran.out + ran.err
    told = ran.json
    assert told["learning"] == "small"
    names = ["noop", "always-infeasible", "random", "warm start, greedy", "warm start, sampled"]
    names += ["after practice, greedy", "after practice, sampled", "after practice, black screens"]
    assert list(told["success"]) == names
    assert (told["success"]["noop"], told["success"]["always-infeasible"]) == (0, 1), "all these tasks are infeasible"
    page = Path(told["learning_report"]).read_text()
    assert "warm start, greedy" in page
    assert {path.name for path in (root / "warm").iterdir()} >= {"step-00000060"}
    phases = json.loads((root / "phases.json").read_text())
    beside = "imitation, and proofs and baselines beside it"
    assert set(phases) == {"demonstrations", beside, "evaluation", "practice"}
    done = count(frontdesk.home)
    assert wait_until_gone(frontdesk.home) == []

    again = frontdesk(line)
    assert again.json["success"] == told["success"]
    assert count(frontdesk.home) == done, "a finished run is only read"
    other = plan.with_name("other.toml")
    other.write_text(PLAN.replace("updates = 40", "updates = 41"))
    refused = frontdesk(f"quickstart --plan {other} --desktops 3")
    assert refused.code == 2
    assert "was begun with another warm_start" in refused.err
