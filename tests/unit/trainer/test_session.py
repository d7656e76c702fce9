"""What a session says of a checkpoint that it cannot go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.errors import FAILED, explain
from tests.support.practice import FakeDesktops, FakeEngine, FakeLearner, Stage
from trainer.errors import TrainerError
from trainer.session import _restore


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
