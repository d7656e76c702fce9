"""A doubted task's gates on real desktops: a check that passes by luck is found out, a sound task comes back.

The attempts are fake, so that both tasks look like coin flips to the sampler; the gates are real.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frontier import FrontierSampler
from sandbox.hub import Hub
from store import Catalog
from tests.support.practice import FakeDesktops, FakeEngine, FakeLearner, Stage
from trainer.errors import NothingToDo
from trainer.gate_runs import prover_of
from trainer.tasks import TrainingTask
from verigen.bundle import Bundle
from verigen.proof import Proof
from verigen.sets import read_sets

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(600)]

LUCK = ["/bin/sh", "-c", "test $(( $(od -An -N1 -tu1 /dev/urandom) % 8 )) = 0 && echo 1 || echo 0"]


def sound() -> Bundle:
    """A generated task with as few near misses as the gates allow, which is quick."""
    found = (task.bundle for task in read_sets() if task.bundle.task.apps == ("galculator",))
    bundle = next(bundle for bundle in found if not bundle.task.feasible)
    return bundle.model_copy(update={"negatives": bundle.negatives[:4]})


def lucky() -> Bundle:
    """The same with a check that passes one time in eight, whatever was done right."""
    document: dict[str, Any] = sound().model_dump(mode="json")
    task = document["task"]
    task["evidence"].append({"type": "command", "name": "luck", "argv": LUCK})
    task["check"] = {"type": "all", "of": [task["check"], {"type": "text", "item": "luck", "expected": "1"}]}
    for example in document["examples"].values():
        answer = {"exit_code": 0, "stdout": "1\n", "stderr": ""}
        example["evidence"]["items"]["luck"] = {"status": "ok", "data": answer}
    return Bundle.model_validate(document)


async def test_the_gates_tell_a_lucky_check_from_a_sound_one(hub: Hub, tmp_path: Path) -> None:
    stage = Stage(tmp_path, updates=10_000, sampler="frontier", checkpoint_every=10_000, max_flat_groups=8)
    stage.tasks = [TrainingTask(bundle=bundle, split="train") for bundle in (lucky(), sound())]
    broken, good = (task.id for task in stage.tasks)
    proofs: dict[str, Proof] = {}
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.sqlite'}") as catalog:
        prove_on_desktops = prover_of(hub, catalog)

        async def prove(task: TrainingTask) -> Proof:
            proofs[task.id] = await prove_on_desktops(task)
            return proofs[task.id]

        def outcome(rng: Any) -> str:
            # Once both are answered everything passes, so that the run ends.
            return "pass" if len(proofs) == 2 else rng.choice(["pass", "fail"])

        engine = FakeEngine()
        desktops = FakeDesktops(stage.store, engine, outcome=outcome)
        with pytest.raises(ExceptionGroup) as caught:
            await stage.run(FakeLearner(update_s=0), desktops, engine, prove=prove)
        kept = {task: catalog.proofs(task)[0].passed for task in (broken, good)}
    assert caught.group_contains(NothingToDo, match="passed by every attempt")
    assert proofs[broken].outcome == "failed"
    assert proofs[good].passed, proofs[good].stopped_by
    assert kept == {broken: False, good: True}
    assert isinstance(stage.sampler, FrontierSampler)
    assert stage.sampler.life(broken) == "BROKEN"
    assert stage.sampler.life(good) != "QUARANTINE"
    last = [rollout.task.id for rollout in desktops.rollouts[-4:]]
    assert set(last) == {good}, "it is practised again, and the broken one no more"
