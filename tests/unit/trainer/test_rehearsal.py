"""Rehearsing demonstrations between updates by reinforcement."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch

from agent.engines.tokens import Vocabulary
from tests.support.tiny_policy import SIZE
from trainer.config import small_harness
from trainer.learner import LearnerSettings
from trainer.learner_process import TeachSettings, _LearnerService, _Start
from trainer.losses import ClipRange
from trainer.plans import Plan, PlannedTurn

PLAN = Plan(instruction="press enter", turns=(PlannedTurn(target="", text="press enter"),))
PLANS_ALONE = TeachSettings(batch=0, pointing=0, plans=1)


def service(tmp_path: Path) -> _LearnerService:
    """A learner that has read one plan."""
    start = _Start(
        source=(Vocabulary(width=64, height=32, words=("press", "enter")), SIZE, 0),
        settings=LearnerSettings(lr=1e-2, warmup_steps=0),
        harness=small_harness(),
        clip=ClipRange(),
        blobs=tmp_path / "blobs",
        weights=tmp_path / "weights",
    )
    made = _LearnerService(start)
    made.demonstrate([], {}, [PLAN])
    return made


def test_an_update_and_its_rehearsal_make_one_version(tmp_path: Path) -> None:
    """Staleness is counted in versions: rehearsal must not make attempts older than the updates that they missed."""
    learner = service(tmp_path)
    learner.rehearse(5, PLANS_ALONE)
    path, version = learner.publish()
    losses = []
    for number in range(1, 4):
        metrics = learner.update([])
        assert metrics["version"] == number
        losses.append(metrics["rehearsal_loss"])
    assert losses[2] < losses[0], "it remembers better"
    later, version = learner.publish()
    assert (version, later.name) == (3, "v3"), "the engine is given what rehearsal made"
    assert not path.exists()


def test_without_rehearsal_an_update_from_nothing_moves_nothing(tmp_path: Path) -> None:
    learner = service(tmp_path)
    before = learner._learner.weights()
    assert learner.update([])["version"] == 0
    after = learner._learner.weights()
    assert all(torch.equal(before[name], after[name]) for name in before)
