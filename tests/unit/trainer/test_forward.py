"""Segments train exactly what was sampled: log-probs of the engine, gradients of the step-by-step reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch
from torch import Tensor

from agent.engines.protocol import TensorWeights
from agent.engines.qwen3vl.checkpoint import PolicyModel
from agent.engines.tokens import CompactFormat
from agent.engines.transformers_engine import TransformersEngine
from agent.policies.engine_policy import EnginePolicy
from sandbox.frame import Frame
from store.trajectory import Trajectory
from tests.support.rollouts import play
from tests.support.tiny_policy import make_policy, noise_frame, stock_logits
from trainer.batches import TrainingSequence, micro_batches, training_sequences
from trainer.demonstrations import pointing_sequence
from trainer.forward import Forward
from trainer.losses import grpo_loss
from trainer.metrics import Reduced
from trainer.objectives import GrpoObjective
from trainer.widgets import Widget

WINDOW, DELTA, TURNS = 3, 2, 8
FRAMES = [noise_frame(seed, width=96 if seed % 3 else 64) for seed in range(TURNS)]
BY_NAME: Callable[[str], Frame] = {frame.sha256: frame for frame in FRAMES}.__getitem__


async def rollouts(
    policy: PolicyModel, *, temperature: float = 1.0, count: int = 1, weights: TensorWeights | None = None
) -> list[Trajectory]:
    engine = TransformersEngine(policy)
    actor = EnginePolicy(engine, policy.format, name="tiny", hash="h")
    try:
        if weights is not None:
            await engine.pause()
            await engine.load_weights(weights, version=1)
            await engine.resume()
        return [
            await play(actor, FRAMES, window=WINDOW, delta=DELTA, trajectory_id=str(n), seed=n, temperature=temperature)
            for n in range(count)
        ]
    finally:
        await engine.close()


def cut(policy: PolicyModel, trajectories: Sequence[Trajectory]) -> list[TrainingSequence]:
    return [
        sequence
        for number, trajectory in enumerate(trajectories)
        for sequence in training_sequences(
            trajectory, policy.format, window=WINDOW, delta=DELTA, frames=BY_NAME, advantage=(-1.0) ** number
        )
    ]


def free(policy: PolicyModel) -> PolicyModel:
    """The policy with its replies' grammar lifted."""
    assert isinstance(policy.format, CompactFormat)
    form = CompactFormat(policy.format.vocabulary, policy.format.images, free=True)
    return PolicyModel(model=policy.model, format=form)


@pytest.mark.parametrize(("temperature", "grammar"), [(1.0, True), (0.6, True), (1.3, False)])
async def test_logprobs_of_engine_and_trainer_agree(temperature: float, grammar: bool) -> None:
    policy = make_policy(sharpness=3.0)
    policy = policy if grammar else free(policy)
    sequences = cut(policy, await rollouts(policy, temperature=temperature, count=2))
    assert len(sequences) == 2 * 4
    outcome = Forward(policy, BY_NAME)(sequences, temperature=temperature)
    engines = torch.tensor([logp for sequence in sequences for logp in sequence.logprobs])
    assert len(engines) > 30
    torch.testing.assert_close(outcome.logp_N, engines, rtol=0, atol=1e-4)
    if temperature != 1.0:
        wrong = Forward(policy, BY_NAME)(sequences, temperature=1.0)
        assert (wrong.logp_N - engines).abs().max() > 0.01


async def test_they_agree_before_and_after_an_update() -> None:
    policy, serving = make_policy(sharpness=3.0), make_policy(sharpness=3.0)
    sequences = cut(policy, await rollouts(serving))
    forward = Forward(policy, BY_NAME)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.05)
    forward(sequences, temperature=1.0).logp_N.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    engines = torch.tensor([logp for sequence in sequences for logp in sequence.logprobs])
    assert (forward(sequences, temperature=1.0).logp_N - engines).abs().max() > 0.01
    weights = TensorWeights(tensors=dict(policy.model.state_dict()))
    after = cut(policy, await rollouts(serving, weights=weights))
    assert {sequence.oldest_version for sequence in after} == {1}
    engines = torch.tensor([logp for sequence in after for logp in sequence.logprobs])
    torch.testing.assert_close(forward(after, temperature=1.0).logp_N, engines, rtol=0, atol=1e-4)


def step_by_step(policy: PolicyModel, trajectory: Trajectory, temperature: float) -> Tensor:
    """Every sampled token's log-prob, each turn run alone by transformers' own forward with its own context."""
    grammar = policy.format.grammar
    assert grammar is not None
    parts = []
    for turn in trajectory.turns:
        trace = turn.tokens
        assert trace is not None
        logits = stock_logits(policy, [*trace.sent_ids, *trace.sampled_ids], [FRAMES[index] for index in turn.visible])
        first = len(trace.prompt_ids)
        for index, (state, token) in enumerate(zip(grammar.states(trace.sampled_ids), trace.sampled_ids, strict=True)):
            if trace.sampled_mask[index]:
                allowed = list(grammar.allowed(state))
                row = logits[first + index - 1] / temperature
                parts.append(row[token] - row[allowed].logsumexp(0))
    return torch.stack(parts)


def gradient(policy: PolicyModel, logp: Tensor, old: Tensor) -> Tensor:
    policy.model.zero_grad()
    advantage = torch.linspace(-1, 1, len(logp), dtype=logp.dtype)
    grpo_loss(logp, old, advantage, denominator=len(logp)).loss.backward()  # type: ignore[no-untyped-call]
    return torch.cat([p.grad.flatten() for _, p in sorted(policy.model.named_parameters()) if p.grad is not None])


async def test_segment_gradients_are_the_step_by_step_references() -> None:
    policy = make_policy(sharpness=3.0)
    (trajectory,) = await rollouts(policy, temperature=0.8)
    sequences = cut(policy, [trajectory])
    assert [len(sequence.turns) for sequence in sequences] == [3, 2, 2, 1]
    expected_logp = step_by_step(policy, trajectory, 0.8)
    old = expected_logp.detach() - 0.05
    expected = gradient(policy, expected_logp, old)
    found_logp = Forward(policy, BY_NAME)(sequences, temperature=0.8).logp_N
    torch.testing.assert_close(found_logp, expected_logp, rtol=1e-5, atol=1e-5)
    found = gradient(policy, found_logp, old)
    assert (found - expected).norm() / expected.norm() < 1e-5
    # Negative control: the whole trajectory in one pass, as if no screenshot had been dropped.
    everything = training_sequences(_unpruned(policy, trajectory), policy.format, window=8, delta=1, frames=BY_NAME)
    wrong = gradient(policy, Forward(policy, BY_NAME)(everything, temperature=0.8).logp_N, old)
    assert (wrong - expected).norm() / expected.norm() > 1e-2


def _unpruned(policy: PolicyModel, trajectory: Trajectory) -> Trajectory:
    """The same replies behind contexts that keep every screenshot."""
    form = policy.format
    compact: list[int] = []
    expanded: list[int] = []
    turns = []
    for index, turn in enumerate(trajectory.turns):
        trace = turn.tokens
        assert trace is not None
        added = form.observation(shown=True, feedback="", placeholder="", after="end" if index else "begin")
        added = added if index else form.begin("", trajectory.instruction) + added
        frame = FRAMES[index]
        for token in added:
            repeats = form.images.num_tokens(frame.width, frame.height) if token == form.image_id else 1
            expanded += [token] * repeats
        compact += added
        changed = trace.model_copy(update={"sent_ids": tuple(compact), "prompt_ids": tuple(expanded)})
        turns.append(turn.model_copy(update={"tokens": changed, "visible": tuple(range(index + 1))}))
        compact += trace.sampled_ids
        expanded += trace.sampled_ids
    return trajectory.model_copy(update={"turns": tuple(turns)})


async def test_loss_and_gradient_do_not_depend_on_split_order_or_padding() -> None:
    policy = make_policy(sharpness=3.0)
    sequences = cut(policy, await rollouts(policy, count=3))
    objective = GrpoObjective(temperature=1.0)
    results = []
    for budget, order in [(1, 1), (150, 1), (150, -1), (10_000, 1), (10_000, -1)]:
        policy.model.zero_grad()
        total = torch.zeros(())
        denominators = objective.denominators(sequences)
        batches = micro_batches(sequences[::order], budget)[::order]
        for batch in batches:
            forward = Forward(policy, BY_NAME)
            outcome = forward(batch, temperature=1.0)
            loss = objective.loss(forward, outcome, batch, denominators, Reduced())
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        grads = torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])
        results.append((len(batches), total, grads))
    assert len({count for count, _, _ in results}) >= 3
    _, first_loss, first = results[0]
    assert first.norm() > 1e-3
    # On policy every ratio is 1, so the loss is minus the mean advantage of all sampled tokens.
    tokens = [each.advantage for each in sequences for _ in each.trained]
    assert first_loss.item() == pytest.approx(-sum(tokens) / len(tokens), rel=1e-4)
    for _, loss, grads in results[1:]:
        assert (loss - first_loss).abs() < 1e-6
        assert (grads - first).norm() / first.norm() < 1e-5


async def test_tokens_of_one_sequence_are_blind_to_the_others() -> None:
    policy = make_policy(sharpness=3.0)
    sequences = cut(policy, await rollouts(policy, count=2))
    forward = Forward(policy, BY_NAME)
    together = forward(sequences, temperature=1.0).logp_N
    alone = torch.cat([forward([sequence], temperature=1.0).logp_N for sequence in sequences])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_what_is_as_right_counts_as_the_trained_token() -> None:
    policy = make_policy(sharpness=3.0)
    forward = Forward(policy, BY_NAME)
    form = policy.format
    assert isinstance(form, CompactFormat)
    widget = Widget(name="Save", left=0, top=0, right=64, bottom=48)
    sequence = pointing_sequence(FRAMES[0].sha256, FRAMES[0], [widget], form, random.Random(0))
    assert sequence is not None
    with torch.no_grad():
        found = forward([sequence], temperature=1.0)
        for number, index in enumerate(sequence.trained):
            ids = sequence.as_right[index]
            assert len(ids) > 1, "the test needs a widget of several bins"
            total = 0.0
            for token in ids:
                other = replace(sequence, ids=(*sequence.ids[:index], token, *sequence.ids[index + 1 :]))
                total += float(forward([other], temperature=1.0).logp_N[number].exp())
            assert float(found.right_logp_N[number].exp()) == pytest.approx(total, rel=1e-4)
        plain = forward([replace(sequence, as_right={})], temperature=1.0)
    assert torch.equal(plain.right_logp_N, plain.logp_N)
    assert (found.right_logp_N > found.logp_N).all()
