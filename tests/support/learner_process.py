"""Trains a tiny policy by itself, so that a test can kill it: `python -m tests.support.learner_process DIR STEPS`.

It goes on from the newest checkpoint in DIR, saves one after every fourth step, and prints the step when it is saved.
What is trained on is drawn from the learner's own random state, so a resumed run draws what the killed one would have.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from tests.support.tiny_policy import learner_of, make_policy, noise_frame, pointing_batch
from trainer.checkpoints import CheckpointStore
from trainer.metrics import JsonlSink, MetricsLog

SAVE_EVERY = 4


def train(directory: Path, num_steps: int) -> None:
    """Train up to a step."""
    torch.manual_seed(0)
    frames = {frame.sha256: frame for frame in map(noise_frame, range(6))}
    learner, objective = learner_of(make_policy(), frames)
    store = CheckpointStore(directory / "checkpoints")
    latest = store.latest()
    if latest is not None:
        assert learner.restore(latest) == {"note": "kept"}
    with MetricsLog([JsonlSink(directory / "metrics.jsonl", resume_step=learner.step)]) as log:
        while learner.step < num_steps:
            values = learner.update(pointing_batch(learner, frames), objective)
            log.write(learner.step, values | {"noise": float(torch.rand(()))})
            if learner.step % SAVE_EVERY == 0:
                store.save(learner.step, lambda path: learner.save(path, extra={"note": "kept"}))
                sys.stdout.write(f"saved {learner.step}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
