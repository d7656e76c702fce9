"""A policy small enough for tests, screens for it to see, and its model run by transformers itself. Needs torch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent.engines.qwen3vl.checkpoint import PolicyModel, build_tiny
from agent.engines.qwen3vl.settings import TinySize
from agent.engines.tokens import CompactFormat, ImagePlan, Vocabulary, expand_ids
from sandbox.frame import Frame
from trainer.batches import TrainingSequence
from trainer.demonstrations import pointing_sequence
from trainer.learner import Learner, LearnerSettings
from trainer.objectives import SupervisedObjective
from trainer.widgets import Widget, grounding_labels

__all__ = [
    "SIZE",
    "learner_of",
    "make_policy",
    "noise_frame",
    "pointing_batch",
    "stock_inputs",
    "stock_logits",
]

torch.set_num_threads(1)  # a second thread spins, and stalls for seconds where the cores are shared

SIZE = TinySize(
    vision_width=16, vision_layers=2, vision_heads=2, text_width=32, text_layers=2, text_heads=2, head_width=16
)
WIDGETS = (
    Widget(name="Save", left=4, top=4, right=36, bottom=20),
    Widget(name="Line Numbers", left=40, top=36, right=90, bottom=60),
)
WORDS = ("Open", "the", "File", "menu", "Save", "Line", "Numbers", "press", "click")


def make_policy(
    *, seed: int = 0, width: int = 96, height: int = 64, sharpness: float = 1.0, size: TinySize = SIZE
) -> PolicyModel:
    """A tiny random policy.

    Args:
        sharpness: factor on the language model's matrices; above 1 its distributions are far from uniform.
    """
    vocabulary = Vocabulary(width=width, height=height, bin_px=8, words=WORDS)
    policy = build_tiny(vocabulary, size, seed=seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(sharpness)
            elif "norm" in name:  # fresh norms are all ones, which would hide a weight that is not applied
                noise = torch.rand(parameter.shape, generator=torch.Generator().manual_seed(len(name)))
                parameter.mul_(0.5 + noise)
    return policy


def noise_frame(seed: int, *, width: int = 96, height: int = 64) -> Frame:
    """A frame of noise; each seed is another."""
    return Frame.from_pixels(width, height, random.Random(seed).randbytes(width * height * 3))


def stock_inputs(plan: ImagePlan, frames: Sequence[Frame]) -> tuple[Tensor, Tensor]:
    """Pixel values and grids as transformers' own processor lays them out."""
    pixels, grids = [], []
    for frame in frames:
        values = plan.patches(frame).astype(np.float32) / 127.5 - 1.0
        num_patches = len(values)
        planes = values.reshape(num_patches, 3, 1, -1).repeat(2, axis=2)  # two equal frames
        pixels.append(torch.from_numpy(planes.reshape(num_patches, -1)))
        grids.append([1, *plan.grid(frame.width, frame.height)])
    return torch.cat(pixels), torch.tensor(grids)


def stock_logits(policy: PolicyModel, compact: Sequence[int], frames: Sequence[Frame]) -> Tensor:
    """[L, V] Logits of a whole compact sequence by transformers' own forward; differentiable."""
    plan, image_id = policy.format.images, policy.format.image_id
    lengths = [plan.num_tokens(frame.width, frame.height) for frame in frames]
    ids = torch.tensor([expand_ids(compact, image_id, lengths)[0]])
    images: dict[str, Any] = {}
    if frames:
        pixels, grids = stock_inputs(plan, frames)
        images = {"pixel_values": pixels, "image_grid_thw": grids}
    out = policy.model(input_ids=ids, mm_token_type_ids=(ids == image_id).int(), use_cache=False, **images)
    logits: Tensor = out.logits[0]
    return logits


def learner_of(
    policy: PolicyModel, frames: Mapping[str, Frame], **settings: Any
) -> tuple[Learner, SupervisedObjective]:
    """A learner, and what it learns: to name and to point at two widgets that lie on every frame."""
    assert isinstance(policy.format, CompactFormat)
    vocabulary, plan = policy.format.vocabulary, policy.format.images
    labels = {name: grounding_labels(WIDGETS, vocabulary, plan, (96, 64)) for name in frames}
    learner = Learner(
        policy, LearnerSettings(**({"lr": 1e-3, "warmup_steps": 3} | settings)), frames=frames.__getitem__
    )
    return learner, SupervisedObjective(vocabulary, labels)


def pointing_batch(learner: Learner, frames: Mapping[str, Frame]) -> list[TrainingSequence]:
    """Exercises drawn by the learner's own random state."""
    assert isinstance(learner.policy.format, CompactFormat)
    sequences = []
    for name in learner.rng.sample(sorted(frames), 3):
        sequence = pointing_sequence(name, frames[name], WIDGETS, learner.policy.format, learner.rng)
        assert sequence is not None
        sequences.append(sequence)
    return sequences
