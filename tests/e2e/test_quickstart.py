"""The quickstart on a small budget: the whole way from tasks to a report, twice, and interrupted in between."""

from __future__ import annotations

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
    ran = frontdesk("quickstart --rollouts 1 --desktops 3 --json")
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

    again = frontdesk("quickstart --rollouts 1")
    assert again.code == 0
    assert "These attempts were finished before" in again.out
    assert count(frontdesk.home) == 4 * NUM_TASKS


def test_an_interrupted_quickstart_goes_on_where_it_was(frontdesk: CommandLine) -> None:
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(frontdesk.home)}
    argv = [sys.executable, "-c", "from cli.main import run; run()", "quickstart", "--rollouts", "1", "--desktops", "2"]
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

    ran = frontdesk("quickstart --rollouts 1 --desktops 3")
    assert ran.code == 0, ran.out + ran.err
    assert count(frontdesk.home) == 4 * NUM_TASKS
    assert len([line for line in ran.err.splitlines() if "turn" in line]) == 4 * NUM_TASKS - kept


def test_a_killed_quickstart_leaves_nothing_running(frontdesk: CommandLine) -> None:
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(frontdesk.home)}
    argv = [sys.executable, "-c", "from cli.main import run; run()", "quickstart", "--rollouts", "1", "--desktops", "2"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        ends_at = time.monotonic() + 60
        while not list(frontdesk.home.glob("run/frontdesk-*/*/ctl/probe.sock")):
            assert time.monotonic() < ends_at, "no desktop was started in 60 s"
            time.sleep(0.05)
        started.kill()
    assert wait_until_gone(frontdesk.home) == []
