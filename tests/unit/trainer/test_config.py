"""Run files: the one in the guide is valid, and what it leaves out has defaults that work together."""

from __future__ import annotations

import re
from pathlib import Path

from agent.config import parse_toml
from trainer.config import RunConfig, small_harness
from trainer.quickstart_plan import QuickstartPlan

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "training.md"


def test_the_guides_run_file_is_valid() -> None:
    block, plan = re.findall(r"```toml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert parse_toml(QuickstartPlan, plan).run.tasks.allows_template("mousepad/two-switches")
    config = parse_toml(RunConfig, block)
    assert config.tasks.apps == ("galculator",)
    assert config.practice.minutes == 20.0
    assert config.warm_start == RunConfig(name="x").warm_start.model_copy(
        update={"draws": 120, "templates": ("*/add-*",)}
    )


def test_several_screenshots_are_seen_and_rollouts_are_sampled() -> None:
    harness = small_harness()
    assert harness.window >= 3
    assert harness.sampling.temperature > 0, "greedy attempts of one task are all alike"
    assert harness.observe == ("frame",)
    assert harness.max_side is None
