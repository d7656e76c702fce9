"""The lean forward gives what transformers' own gives: logits and gradients, with several images and grids."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch
from torch import Tensor

from agent.engines.qwen3vl import language as language_module
from agent.engines.qwen3vl.checkpoint import PolicyModel
from agent.engines.qwen3vl.language import LanguageModel
from agent.engines.qwen3vl.sequences import embed, place
from agent.engines.qwen3vl.vision import Patches, VisionEncoder
from agent.engines.tokens import CompactFormat, expand_ids
from sandbox.frame import Frame
from tests.support.tiny_policy import SIZE, make_policy, noise_frame, stock_logits


def conversation(policy: PolicyModel, num_images: int, *, feedback: str = "") -> list[int]:
    form = policy.format
    ids = form.begin("", "Open the File menu, x2")
    for _ in range(num_images):
        ids += form.observation(shown=True, feedback=feedback, placeholder="", after="end")
        ids += form.encode_reply("# Save\nclick 30 20")
    return ids


def lean_logits(policy: PolicyModel, batch: Sequence[tuple[Sequence[int], Sequence[Frame]]]) -> Tensor:
    """[B, L, V] Of a padded batch."""
    plan = policy.format.images
    language = LanguageModel(policy.model)
    encoder = VisionEncoder(policy.model.model.visual)
    frames = {frame.sha256: frame for _, frames in batch for frame in frames}
    patches = [Patches(grid=plan.grid(f.width, f.height), values=plan.patches(f)) for f in frames.values()]
    images = dict(zip(frames, encoder(patches), strict=True))
    runs = []
    for compact, shown in batch:
        lengths = [plan.num_tokens(frame.width, frame.height) for frame in shown]
        ids, starts = expand_ids(compact, policy.format.image_id, lengths)
        grids = [plan.grid(frame.width, frame.height) for frame in shown]
        runs.append(place(ids, starts, [frame.sha256 for frame in shown], grids, plan.merge))
    batched = embed(language, runs, images)
    hidden = language.forward(
        batched.x_BLD, language.rotary(batched.positions_3BL), language.stack(), deepstack=batched.deepstack
    )
    return language.logits(hidden)


@pytest.mark.parametrize("patches", [{"patch": 16, "merge": 2}, {"patch": 32, "merge": 1}], ids=["merged", "large"])
@pytest.mark.parametrize("num_images", [0, 1, 3])
def test_logits_and_gradients_are_those_of_transformers(num_images: int, patches: dict[str, int]) -> None:
    policy = make_policy(sharpness=3.0, size=SIZE.model_copy(update=patches))
    ids = conversation(policy, num_images)
    frames = [noise_frame(index, width=96 if index % 2 else 64) for index in range(num_images)]
    expected = stock_logits(policy, ids, frames)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    (expected.log_softmax(-1) * weights).sum().backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad.clone() for name, p in policy.model.named_parameters() if p.grad is not None}
    policy.model.zero_grad()
    found = lean_logits(policy, [(ids, frames)])[0]
    (found.log_softmax(-1) * weights).sum().backward()  # type: ignore[no-untyped-call]
    assert expected.std() > 0.3  # far from uniform, so that agreement means something
    torch.testing.assert_close(found, expected, rtol=5e-5, atol=5e-5)
    for name, parameter in policy.model.named_parameters():
        if name in gradients:
            assert parameter.grad is not None
            difference = (parameter.grad - gradients[name]).norm() / gradients[name].norm().clamp_min(1e-12)
            assert difference < 1e-4, name
    assert len(gradients) > 20


def test_padding_and_company_change_nothing() -> None:
    policy = make_policy(sharpness=3.0)
    batch = [(conversation(policy, n, feedback="no"), [noise_frame(10 * n + i) for i in range(n)]) for n in (3, 1, 2)]
    together = lean_logits(policy, batch)
    for row, (ids, frames) in enumerate(batch):
        alone = lean_logits(policy, [(ids, frames)])[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=1e-5, atol=1e-5)


def test_a_wrong_rotation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy(sharpness=3.0)
    ids, frames = conversation(policy, 1), [noise_frame(0)]
    monkeypatch.setattr(language_module, "_rotated", lambda x, rotary: x)
    assert (lean_logits(policy, [(ids, frames)])[0] - stock_logits(policy, ids, frames)).abs().max() > 0.01


def test_the_screen_matters() -> None:
    policy = make_policy(sharpness=3.0)
    assert isinstance(policy.format, CompactFormat)
    ids = conversation(policy, 1)
    one, other = (lean_logits(policy, [(ids, [noise_frame(seed)])])[0, -1] for seed in (0, 1))
    assert (one - other).abs().max() > 1e-3
