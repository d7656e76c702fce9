"""Losses against plain Python: values and gradients, on both sides of every clip and for both signs."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch

from trainer.losses import ClipRange, grounding_loss, grpo_loss, likelihood_loss

RATIOS = [0.1, 0.79, 0.8, 0.81, 1.0, 1.27, 1.28, 1.29, 2.9, 3.0, 3.1, 8.0]
ADVANTAGES = [2.0, 0.5, 0.0, -0.5, -2.0]


def reference(ratio: float, advantage: float, clip: ClipRange) -> tuple[float, float]:
    """Minus the objective of one token, and its derivative by logp: d ratio / d logp = ratio."""
    clipped = min(max(ratio, 1 - clip.low), 1 + clip.high)
    value, slope = ratio * advantage, ratio * advantage
    if clipped * advantage < value:
        value, slope = clipped * advantage, 0.0
    if advantage < 0 and value < clip.dual * advantage:
        value, slope = clip.dual * advantage, 0.0
    return -value, -slope


@pytest.mark.parametrize("clip", [ClipRange(), ClipRange(low=0.1, high=0.5, dual=2.0)])
def test_grpo_is_the_formula_in_value_and_gradient(clip: ClipRange) -> None:
    cases = [(ratio, advantage) for ratio in RATIOS for advantage in ADVANTAGES]
    old = torch.linspace(-3, -0.1, len(cases), dtype=torch.float64)
    # A hair off the boundary, where the two sides have different gradients.
    ratios = torch.tensor([ratio * (1 + 1e-9) for ratio, _ in cases], dtype=torch.float64)
    logp = (old + ratios.log()).requires_grad_()
    advantage = torch.tensor([a for _, a in cases], dtype=torch.float64)
    result = grpo_loss(logp, old, advantage, denominator=7.0, clip=clip)
    result.loss.backward()  # type: ignore[no-untyped-call]
    values, slopes = zip(*(reference(r * (1 + 1e-9), a, clip) for r, a in cases), strict=True)
    assert result.loss.item() == pytest.approx(math.fsum(values) / 7.0, rel=1e-9)
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([slope / 7.0 for slope in slopes], rel=1e-6, abs=1e-12)
    assert result.num_clipped == sum(s == 0 and a != 0 for s, (_, a) in zip(slopes, cases, strict=True))
    assert result.max_ratio == pytest.approx(8.0)


def test_a_symmetric_clip_is_another_loss() -> None:
    logp = torch.tensor([math.log(1.25)], dtype=torch.float64)
    wide, narrow = (
        grpo_loss(logp, torch.zeros(1), torch.ones(1), denominator=1, clip=ClipRange(high=high)).loss.item()
        for high in (0.28, 0.2)
    )
    assert (wide, narrow) == pytest.approx((-1.25, -1.2))


def test_kl_is_the_formula_in_value_and_gradient() -> None:
    logp = torch.tensor([-1.0, -2.0, -0.5], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([-1.5, -1.0, -0.5], dtype=torch.float64)
    zero = torch.zeros(3, dtype=torch.float64)
    result = grpo_loss(logp, logp.detach(), zero, denominator=3, kl_coefficient=0.1, reference_logp_N=ref)
    result.loss.backward()  # type: ignore[no-untyped-call]
    gaps = [-0.5, 1.0, 0.0]
    assert result.loss.item() == pytest.approx(0.1 * sum(math.exp(g) - g - 1 for g in gaps) / 3)
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([0.1 * (1 - math.exp(g)) / 3 for g in gaps])


def test_on_policy_nothing_is_clipped_and_equal_rewards_have_no_gradient() -> None:
    logp = torch.tensor([-1.0, -2.0], requires_grad=True)
    result = grpo_loss(logp, logp.detach(), torch.tensor([1.0, -1.0]), denominator=2)
    assert (result.num_clipped, result.sum_kl, result.max_ratio) == (0, 0, 1)
    grpo_loss(logp, logp.detach() - 1, torch.zeros(2), denominator=2).loss.backward()  # type: ignore[no-untyped-call]
    assert logp.grad is not None
    assert logp.grad.tolist() == [0.0, 0.0]


def test_missing_logprobs_are_dropped_and_counted() -> None:
    logp = torch.tensor([-1.0, -2.0, -3.0, -4.0], requires_grad=True)
    old = torch.tensor([-1.0, -math.inf, math.nan, -4.0])
    result = grpo_loss(logp, old, torch.ones(4), denominator=4)
    result.loss.backward()  # type: ignore[no-untyped-call]
    assert (result.num_tokens, result.num_dropped) == (2, 2)
    assert result.loss.item() == pytest.approx(-0.5)
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx([-0.25, 0, 0, -0.25])
    nothing = grpo_loss(logp, torch.full((4,), math.nan), torch.ones(4), denominator=4)
    assert (nothing.loss.item(), nothing.max_ratio) == (0.0, 1.0)


def test_bad_arguments_are_refused() -> None:
    zero = torch.zeros(1)
    with pytest.raises(ValueError, match="reference"):
        grpo_loss(zero, zero, zero, denominator=1, kl_coefficient=0.1)
    with pytest.raises(ValueError, match="denominator"):
        grpo_loss(zero, zero, zero, denominator=0)


def test_likelihood_and_grounding_are_cross_entropies() -> None:
    logp = torch.tensor([-1.0, -3.0], requires_grad=True)
    assert likelihood_loss(logp, torch.tensor([1.0, 0.5]), denominator=8).item() == pytest.approx(2.5 / 8)
    logits = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    kinds = [torch.tensor([0, 2, 5]), torch.tensor([6, 7]), torch.tensor([1, 8])]
    targets = torch.tensor([[2, 6, 8], [0, 7, 8], [5, 7, 1], [5, 6, 1]])
    loss, right = grounding_loss(logits, torch.stack([targets, targets], -1), kinds, denominator=10)
    expected, hits = 0.0, [0, 0, 0]
    rows = logits.detach().tolist()
    for row, wanted in zip(rows, targets.tolist(), strict=True):
        for column, (target, ids) in enumerate(zip(wanted, (k.tolist() for k in kinds), strict=True)):
            expected += math.log(sum(math.exp(row[i]) for i in ids)) - row[target]
            hits[column] += max(ids, key=lambda i: row[i]) == target
    assert loss.item() == pytest.approx(expected / 10)
    assert right.tolist() == hits
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad[:, [3, 4]].abs().max() == 0  # tokens of no kind have no part in it


def test_any_token_of_a_range_is_right() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    ids = torch.tensor([0, 1, 2, 3])
    loss, right = grounding_loss(logits, torch.tensor([[[1, 2]]]), [ids], denominator=1)
    mass = math.exp(1) + math.exp(2)
    assert loss.item() == pytest.approx(-math.log(mass / (mass + 1 + math.exp(3))))
    assert right.tolist() == [0]
    assert grounding_loss(logits, torch.tensor([[[2, 3]]]), [ids], denominator=1)[1].tolist() == [1]
