"""What a session demonstrates, and what it says of a checkpoint that it cannot go on from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from cli.errors import FAILED, explain
from sandbox.hub import Lender
from store import BlobStore, TrajectoryStore
from tests.support.practice import FakeDesktops, FakeEngine, FakeLearner, Stage
from trainer import session
from trainer.config import Practice, RunConfig, TaskChoice, WarmStart
from trainer.errors import NothingToDo, TrainerError
from trainer.session import Session, _restore
from verigen.packs import load_packs


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda saved: saved["sampler"].update(kind="older"), "older"),
        (lambda saved: saved["sampler"].pop("config"), "frontier"),
        (lambda saved: saved["sampler"].pop("news"), "news"),
        (lambda saved: saved.update(wishes=1), "wishes"),
    ],
)
async def test_what_another_version_saved_is_one_sentence_and_a_way_on(
    tmp_path: Path, spoil: object, said: str
) -> None:
    stage = Stage(tmp_path, updates=2, sampler="frontier")
    learner, engine = FakeLearner(), FakeEngine()
    loop = await stage.run(learner, FakeDesktops(stage.store, engine), engine)
    saved = learner.saved[-1][2]
    assert callable(spoil)
    spoil(saved)
    with pytest.raises(TrainerError, match=said) as caught:
        _restore(loop, saved, Path("/runs/one/step-2"))
    failure = explain(caught.value)
    assert failure.exit_code == FAILED
    assert failure.message.startswith("practice cannot go on from /runs/one/step-2: ")
    assert failure.message.endswith('under another name with `policy = "/runs/one/step-2"`')


def narrowed(tmp_path: Path, *templates: str) -> Session:
    return Session(
        config=RunConfig(
            name="narrow",
            tasks=TaskChoice(templates=("mousepad/*",)),
            warm_start=WarmStart(templates=templates),
        ),
        tasks=[],
        root=tmp_path / "run",
        hub=cast(Lender, None),
        store=cast(TrajectoryStore, None),
        blobs=cast(BlobStore, None),
        blobs_at=tmp_path / "blobs",
        packs=load_packs(),
    )


def test_the_warm_start_can_be_narrowed_to_a_part_of_what_is_practised(tmp_path: Path) -> None:
    assert narrowed(tmp_path, "*/two-switches", "galculator/*")._demonstrated().templates == ("mousepad/two-switches",)
    assert narrowed(tmp_path)._demonstrated().templates == ("mousepad/*",)


def test_a_warm_start_that_nothing_practised_belongs_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToDo, match=r"warm_start\.templates allows galculator/\*, .* leave the key out"):
        narrowed(tmp_path, "galculator/*")._demonstrated()


async def test_rehearsal_with_a_policy_of_another_vocabulary_is_refused_before_anything_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "read_format", lambda start: object())
    made = narrowed(tmp_path)
    config = made.config.model_copy(update={"policy": "/policies/published", "practice": Practice(rehearsal=1)})
    with pytest.raises(ValueError, match=r"practice\.rehearsal needs .* /policies/published has another: leave it out"):
        await replace(made, config=config).run()
