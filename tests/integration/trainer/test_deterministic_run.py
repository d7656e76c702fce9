"""A deterministic run with an engine and a learner in their own processes: recorded, then played back and killed twice.

The weights, the optimiser, what the sampler knows, the ledger and the metrics of the two must be equal to the bit. That
a checkpoint which leaves something out would show is tested in tests/unit/trainer/test_deterministic.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.deterministic_run import CONFIG
from trainer.checkpoints import CheckpointStore

pytestmark = pytest.mark.timeout(900)

HOUSE = Path(__file__).resolve().parents[3]


def start(root: Path, tape: Path, mode: str, death: str = "") -> int:
    """The exit code of a run on this tape."""
    argv = [sys.executable, "-W", "error", "-m", "tests.support.deterministic_run", str(root), str(tape), mode, death]
    ran = subprocess.run(
        argv, env=os.environ | {"PYTHONPATH": str(HOUSE)}, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode


def result(root: Path) -> dict[str, Any]:
    """Everything that two runs must have in common."""
    last = CheckpointStore(root / "run" / "checkpoints").latest()
    assert last is not None
    state = json.loads((last / "learner.json").read_text("utf-8"))
    for timed in ("seconds", "tally"):
        del state["extra"][timed]
    tensors = {path.name: path.read_bytes() for path in last.glob("*.safetensors")}
    metrics = (root / "run" / "metrics.jsonl").read_text("utf-8")
    records = {path.name for path in (root / "trajectories").rglob("*") if path.is_file()}
    return {"name": last.name, "state": state, "tensors": tensors, "metrics": metrics, "records": records}


def test_a_run_that_is_played_back_and_killed_makes_the_weights_of_the_recorded_one(tmp_path: Path) -> None:
    whole, killed, tape = tmp_path / "whole", tmp_path / "killed", tmp_path / "tape"
    assert start(whole, tape, "record") == 0
    assert start(killed, tape, "play", "attempts:6") == -signal.SIGKILL, "in the middle of a group"
    assert not list((killed / "run" / "checkpoints").glob("step-*")), "the kill was to come before any checkpoint"
    assert start(killed, tape, "play", "checkpoint") == -signal.SIGKILL
    assert start(killed, tape, "play") == 0
    expected, found = result(whole), result(killed)
    assert expected["name"] == f"step-{CONFIG.practice.updates:08d}"
    assert len(expected["tensors"]) == 2
    assert len(expected["metrics"].splitlines()) == CONFIG.practice.updates
    assert len(expected["state"]["extra"]["ledger"]) >= CONFIG.practice.updates * 2
    for part in expected:
        assert found[part] == expected[part], part
    run = json.loads((killed / "run" / "run.json").read_text("utf-8"))
    assert run["starts"] == 3
