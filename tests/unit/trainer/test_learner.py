"""The learner: its steps, what moves nothing, and going on after a kill to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch

from agent.engines.qwen3vl.checkpoint import load_policy
from tests.support.learner_process import train
from tests.support.tiny_policy import learner_of, make_policy, noise_frame, pointing_batch
from trainer.checkpoints import CheckpointStore
from trainer.learner import Learner
from trainer.objectives import GrpoObjective

FRAMES = {frame.sha256: frame for frame in map(noise_frame, range(6))}
HOUSE = Path(__file__).resolve().parents[3]


def snapshot(learner: Learner) -> dict[str, torch.Tensor]:
    return learner.weights()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_what_it_is_shown() -> None:
    learner, objective = learner_of(make_policy(), FRAMES, lr=3e-3)
    values = [learner.update(pointing_batch(learner, FRAMES), objective) for _ in range(40)]
    assert values[-1]["reply_loss"] < 0.5 * values[0]["reply_loss"]
    assert values[-1]["grounding_loss"] < 0.5 * values[0]["grounding_loss"]
    assert (learner.step, learner.version) == (40, 40)


def test_the_rate_warms_up_and_decays() -> None:
    learner, objective = learner_of(make_policy(), FRAMES, lr=1e-3, warmup_steps=2, decay_steps=6, final_lr=0.5)
    rates = [learner.update(pointing_batch(learner, FRAMES), objective)["lr"] for _ in range(8)]
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3, 8.75e-4, 7.5e-4, 6.25e-4, 5e-4, 5e-4])


def test_micro_batches_change_nothing() -> None:
    results = []
    for budget in (1, 10_000):
        learner, objective = learner_of(make_policy(), FRAMES, micro_batch_tokens=budget)
        values = learner.update(pointing_batch(learner, FRAMES), objective)
        results.append((values, snapshot(learner)))
    (few, split), (many, whole) = results
    for name in ("loss", "reply_loss", "grounding_loss", "grad_norm", "tokens"):
        assert few[name] == pytest.approx(many[name], rel=1e-5)
    for name in whole:
        torch.testing.assert_close(split[name], whole[name], rtol=0, atol=2e-6)


def test_equal_rewards_move_nothing_not_even_by_momentum() -> None:
    learner, supervised = learner_of(make_policy(), FRAMES, weight_decay=0.1)
    learner.update(pointing_batch(learner, FRAMES), supervised)  # momentum that would move the weights on
    before = snapshot(learner)
    values = learner.update(pointing_batch(learner, FRAMES), GrpoObjective(temperature=1.0))
    assert same(before, snapshot(learner))
    assert (values["grad_norm"], values["version"], values["sequences_taught"]) == (0.0, 1, 0)
    better = [replace(each, advantage=1.0) for each in pointing_batch(learner, FRAMES)]
    learner.update(better, GrpoObjective(temperature=1.0))
    assert not same(before, snapshot(learner))


def test_sequences_without_advantage_still_count() -> None:
    norms = []
    for extra in (False, True):
        learner, _ = learner_of(make_policy(), FRAMES)
        one, *others = pointing_batch(learner, FRAMES)
        batch = [replace(one, advantage=1.0), *(others if extra else ())]
        norms.append(learner.update(batch, GrpoObjective(temperature=1.0))["grad_norm"])
    assert norms[1] == pytest.approx(norms[0] / 3, rel=1e-5)


def test_a_step_that_is_not_finite_is_left_out_and_counted() -> None:
    learner, _ = learner_of(make_policy(), FRAMES)
    before = snapshot(learner)
    batch = [replace(each, advantage=float("inf")) for each in pointing_batch(learner, FRAMES)]
    values = learner.update(batch, GrpoObjective(temperature=1.0))
    assert values["skipped_nonfinite"] == 1
    assert same(before, snapshot(learner))
    assert learner.version == 0


def test_a_checkpoint_restores_everything(tmp_path: Path) -> None:
    learner, objective = learner_of(make_policy(), FRAMES)
    for _ in range(3):
        learner.update(pointing_batch(learner, FRAMES), objective)
    path = CheckpointStore(tmp_path).save(3, lambda to: learner.save(to, extra={"seen": [1, 2]}))
    torch.rand(3)
    expected = [learner.update(pointing_batch(learner, FRAMES), objective) for _ in range(3)]
    again, _ = learner_of(make_policy(seed=9), FRAMES)
    assert again.restore(path) == {"seen": [1, 2]}
    found = [again.update(pointing_batch(again, FRAMES), objective) for _ in range(3)]
    assert found == expected
    assert same(snapshot(again), snapshot(learner))
    served = load_policy(path).model.state_dict()
    assert served.keys() == snapshot(learner).keys()
    other, _ = learner_of(make_policy(), FRAMES, lr=5e-4)
    with pytest.raises(ValueError, match=r"lr: 0.001 -> 0.0005"):
        other.restore(path)


def test_what_is_left_out_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    learner, objective = learner_of(make_policy(), FRAMES)
    for _ in range(3):
        learner.update(pointing_batch(learner, FRAMES), objective)
    path = CheckpointStore(tmp_path).save(3, learner.save)
    learner.update(pointing_batch(learner, FRAMES), objective)
    forgetful, _ = learner_of(make_policy(), FRAMES)
    forgetful.restore(path)
    forgetful._optimizer.state.clear()  # negative control: momentum is part of what comes next
    forgetful.update(pointing_batch(forgetful, FRAMES), objective)
    assert not same(snapshot(forgetful), snapshot(learner))


def kill_after(directory: Path, num_steps: int, step: int) -> None:
    """Run the training process and kill it as soon as it has saved a step."""
    command = [sys.executable, "-m", "tests.support.learner_process", str(directory), str(num_steps)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=HOUSE, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == f"saved {step}\n":
                process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_a_killed_run_goes_on_to_the_same_weights_to_the_bit(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(whole, 40)
    kill_after(killed, 40, step=4)
    reached = CheckpointStore(killed / "checkpoints").latest()
    assert reached is not None
    assert CheckpointStore.step(reached) < 40  # what is newer than that was lost, and is made again
    train(killed, 40)
    one, other = (path for each in (whole, killed) if (path := CheckpointStore(each / "checkpoints").latest()))
    for name in ("model.safetensors", "optimizer.safetensors", "learner.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert (whole / "metrics.jsonl").read_text() == (killed / "metrics.jsonl").read_text()
