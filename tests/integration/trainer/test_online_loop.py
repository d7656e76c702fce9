"""Practice on real desktops, with an engine and a learner in processes of their own: small, but all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from agent.engines.qwen3vl.checkpoint import build_tiny, save_policy
from agent.engines.tokens import Vocabulary
from agent.harness import Limits
from frontier.view import frontier_map
from sandbox.hub import Hub
from store import BlobStore, Catalog, TrajectoryStore
from tests.support.tiny_policy import SIZE
from trainer.config import Practice, RunConfig, small_harness
from trainer.practice import load_sampler
from trainer.session import Session, Watcher, last_checkpoint
from trainer.tasks import TrainingTask
from trainer.warm_start import draw_tasks
from verigen.packs import load_packs

pytestmark = pytest.mark.desktop


def impossible_tasks(count: int) -> list[TrainingTask]:
    """Tasks that are solved by saying so, which a policy that writes at random sometimes does."""
    drawn = draw_tasks(load_packs(["galculator"]), 40, seed=2, known=[])
    return [task for task in drawn if not task.bundle.task.feasible][:count]


async def test_a_random_policy_practises_and_its_weights_move(hub: Hub, tmp_path: Path) -> None:
    tasks = impossible_tasks(2)
    assert len(tasks) == 2
    screen = tasks[0].bundle.task.desktop
    vocabulary = Vocabulary(width=screen.width, height=screen.height, words=("one", "two"))
    save_policy(build_tiny(vocabulary, SIZE, seed=0), tmp_path / "start")
    harness = small_harness()
    config = RunConfig(
        name="tiny",
        desktops=4,
        policy=str(tmp_path / "start"),
        harness=harness.model_copy(update={"limits": Limits(max_tokens=10, max_steps=3, max_parse_errors=2)}),
        practice=Practice(updates=1, group_size=4, groups_per_update=1, checkpoint_every=1),
    )
    lines: list[str] = []
    with Catalog.open(f"sqlite:///{tmp_path / 'catalog.sqlite'}") as catalog:
        blobs = BlobStore(tmp_path / "blobs")
        store = TrajectoryStore(tmp_path / "trajectories", blobs, catalog)
        session = Session(
            config=config,
            tasks=tasks,
            root=tmp_path / "run",
            hub=hub,
            store=store,
            blobs=blobs,
            blobs_at=tmp_path / "blobs",
            catalog=catalog,
            watcher=Watcher(phase=lambda name, total: lines.append(f"{name} {total}")),
        )
        last = await session.run()
        ledger = json.loads((last / "learner.json").read_text("utf-8"))["extra"]["ledger"]
        kept, _ = load_sampler(catalog, "run")
        trained = [store.load(trajectory_id) for trajectory_id in ledger]
    assert lines == ["Practising 1"]
    assert last == last_checkpoint(tmp_path / "run")
    before, after = (load_file(next(path.glob("model*.safetensors"))) for path in (tmp_path / "start", last))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text("utf-8"))
    assert metrics["step"] == 1
    assert metrics["max_ratio"] == pytest.approx(1.0, abs=1e-4), "engine and learner speak of one distribution"
    assert metrics["staleness_max"] <= config.practice.max_staleness
    assert {attempt.outcome for attempt in trained} == {"pass", "fail"}
    assert set(frontier_map(kept)["states"]) >= {"FRONTIER"}
    assert list((tmp_path / "run" / "tensorboard").iterdir())
