"""The engine: what it samples, what it says of it, its caches, its weights, and its ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch

from agent.engines.protocol import (
    AdapterWeights,
    DirectoryWeights,
    GenerateRequest,
    GenerateResult,
    ImageRef,
    ScoreRequest,
    TensorWeights,
)
from agent.engines.qwen3vl.checkpoint import PolicyModel, save_policy
from agent.engines.transformers_engine import TransformersEngine
from agent.errors import PolicyError, ReplyTimeout
from sandbox.frame import Frame
from tests.support.tiny_policy import make_policy, noise_frame, stock_logits


@asynccontextmanager
async def running(policy: PolicyModel, **options: Any) -> AsyncIterator[TransformersEngine]:
    engine = TransformersEngine(policy, **options)
    try:
        yield engine
    finally:
        await engine.close()


def image(frame: Frame) -> ImageRef:
    return ImageRef(sha256=frame.sha256, width=frame.width, height=frame.height, pixels=frame.pixels)


def request(policy: PolicyModel, frames: list[Frame], *, name: str = "r", **changes: Any) -> GenerateRequest:
    form = policy.format
    ids = form.begin("", "Open the File menu")
    for index in range(len(frames)):
        ids += form.observation(shown=True, feedback="", placeholder="", after="end" if index else "begin")
        ids += form.encode_reply("# Save\nclick 30 20") if index < len(frames) - 1 else []
    fields: dict[str, Any] = {
        "request_id": name,
        "affinity": name,
        "prompt_ids": tuple(ids),
        "images": tuple(map(image, frames)),
        "max_tokens": 8,
        "temperature": 1.0,
        "seed": 0,
        "stop_ids": form.stop_ids,
        "banned_ids": form.banned_ids,
        "grammar": "compact",
    }
    return GenerateRequest(**(fields | changes))


def reference_logprobs(
    policy: PolicyModel, asked: GenerateRequest, result: GenerateResult, frames: list[Frame]
) -> torch.Tensor:
    """By transformers' own forward over the whole sequence, with the mask written out token by token."""
    logits = stock_logits(policy, [*asked.prompt_ids, *result.sampled_ids], frames).detach()
    first = len(result.prompt_ids)
    logps = []
    state = 0
    for index, token in enumerate(result.sampled_ids):
        row = logits[first + index - 1] / (asked.temperature or 1.0)
        allowed = set(range(len(row))) - set(asked.banned_ids)
        if asked.grammar:
            assert policy.format.grammar is not None
            allowed &= set(policy.format.grammar.allowed(state))
            state = policy.format.grammar.step(state, token)
        logps.append(row[token] - row[sorted(allowed)].logsumexp(0))
    return torch.stack(logps)


@pytest.mark.parametrize(("temperature", "grammar"), [(1.0, "compact"), (0.6, "compact"), (1.4, None), (0.0, None)])
async def test_logprobs_are_those_of_the_distribution_that_was_sampled(temperature: float, grammar: str | None) -> None:
    policy = make_policy(sharpness=3.0)
    async with running(policy) as engine:
        frames = [noise_frame(seed) for seed in range(3)]
        asked = [
            request(policy, frames[: n + 1], name=str(n), temperature=temperature, grammar=grammar, seed=n)
            for n in range(3)
        ]
        results = await asyncio.gather(*map(engine.generate, asked))
    for n, (given, result) in enumerate(zip(asked, results, strict=True)):
        expected = reference_logprobs(policy, given, result, frames[: n + 1])
        torch.testing.assert_close(torch.tensor(result.logprobs), expected, rtol=1e-5, atol=1e-5)
        assert not set(result.sampled_ids) & set(policy.format.banned_ids)
        assert (result.versions[0].start, result.versions[-1].stop) == (0, len(result.sampled_ids))
        if temperature == 0.0:
            raw = stock_logits(policy, [*given.prompt_ids, *result.sampled_ids], frames[: n + 1])
            raw[:, list(policy.format.banned_ids)] = -torch.inf
            best = raw[len(result.prompt_ids) - 1 : -1].argmax(-1).tolist()
            assert list(result.sampled_ids) == best


async def test_tokens_are_drawn_with_their_probabilities() -> None:
    policy = make_policy(sharpness=3.0)
    frame = noise_frame(0)
    async with running(policy) as engine:
        asked = [request(policy, [frame], name=str(seed), seed=seed, max_tokens=1) for seed in range(400)]
        results = await asyncio.gather(*map(engine.generate, asked))
        (scored,) = await engine.score(
            [
                ScoreRequest(
                    prompt_ids=asked[0].prompt_ids,
                    images=asked[0].images,
                    scored_ids=results[0].sampled_ids[:1],
                    banned_ids=policy.format.banned_ids,
                    grammar="compact",
                    top_k=3,
                )
            ]
        )
    assert scored.logprobs[0] == pytest.approx(results[0].logprobs[0], abs=1e-5)
    for token, logprob in scored.top[0]:
        expected = float(torch.tensor(logprob).exp())
        share = sum(result.sampled_ids[0] == token for result in results) / len(results)
        assert abs(share - expected) < 4 * (expected * (1 - expected) / len(results)) ** 0.5 + 1e-3


async def test_cache_and_company_change_nothing_but_the_work() -> None:
    policy = make_policy(sharpness=3.0)
    frames = [noise_frame(seed) for seed in range(4)]
    async with running(policy) as engine:
        fed, cached = [], []
        for n in range(4):
            before = engine.num_fed
            asked = request(policy, frames[: n + 1], name=f"{n}", affinity="one", seed=n)
            others = [request(policy, [frames[n]], name=f"other {n} {k}", seed=k) for k in range(3)]
            result, *_ = await asyncio.gather(engine.generate(asked), *map(engine.generate, others))
            fed.append(engine.num_fed - before)
            cached.append(result)
    for n, result in enumerate(cached):
        async with running(policy, max_batch=1) as alone:
            fresh = await alone.generate(request(policy, frames[: n + 1], seed=n))
        assert fresh.sampled_ids == result.sampled_ids
        torch.testing.assert_close(torch.tensor(fresh.logprobs), torch.tensor(result.logprobs), rtol=0, atol=1e-5)
    # The last turn computes its own image and replies, not the three before.
    assert max(fed) - min(fed) < policy.format.images.num_tokens(96, 64) + 30


async def test_another_image_under_an_equal_prompt_is_not_taken_from_the_cache() -> None:
    policy = make_policy(sharpness=3.0)
    seeds = (0, 1, 0)
    async with running(policy) as engine:
        asked = [request(policy, [noise_frame(seed)], name=f"{n}", affinity="one") for n, seed in enumerate(seeds)]
        cached = [torch.tensor((await engine.generate(each)).logprobs) for each in asked]
    assert asked[0].prompt_ids == asked[1].prompt_ids
    for seed, found in zip(seeds, cached, strict=True):
        async with running(policy) as fresh:
            expected = torch.tensor((await fresh.generate(request(policy, [noise_frame(seed)]))).logprobs)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert (cached[0][:2] - cached[1][:2]).abs().max() > 1e-3


async def test_one_at_a_time_results_repeat_to_the_bit() -> None:
    policy = make_policy(sharpness=3.0)
    frames = [noise_frame(0), noise_frame(1)]
    runs = []
    for _ in range(2):
        async with running(policy, max_batch=1) as engine:
            asked = [request(policy, frames, name=str(n), seed=n) for n in range(4)]
            runs.append(await asyncio.gather(*map(engine.generate, asked)))
    assert runs[0] == runs[1]


async def test_a_load_changes_the_weights_and_clears_every_cache(tmp_path: Path) -> None:
    policy, other = make_policy(sharpness=3.0), make_policy(seed=1, sharpness=3.0)
    save_policy(other, tmp_path)
    tensors = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    frames = [noise_frame(0)]
    async with running(policy) as engine:
        first = await engine.generate(request(policy, frames, name="a", affinity="one"))
        await engine.pause()
        await engine.load_weights(DirectoryWeights(path=tmp_path), version=1)
        await engine.resume()
        second = await engine.generate(request(policy, frames, name="b", affinity="one"))
        await engine.pause()
        await engine.load_weights(TensorWeights(tensors=tensors), version=5)
        await engine.resume()
        third = await engine.generate(request(policy, frames, name="c", affinity="one"))
        assert engine.version == 5
    async with running(make_policy(seed=1, sharpness=3.0)) as fresh:
        expected = await fresh.generate(request(policy, frames))
    assert [result.versions[0].version for result in (first, second, third)] == [0, 1, 5]
    assert second.sampled_ids == expected.sampled_ids
    torch.testing.assert_close(torch.tensor(second.logprobs), torch.tensor(expected.logprobs), rtol=0, atol=1e-5)
    assert third.logprobs == first.logprobs != second.logprobs


async def test_weights_that_do_not_fit_are_refused() -> None:
    policy = make_policy()
    tensors = dict(policy.model.state_dict())
    async with running(policy, version=3) as engine:
        with pytest.raises(ValueError, match="pause the engine"):
            await engine.load_weights(TensorWeights(tensors=tensors), version=4)
        await engine.pause()
        with pytest.raises(ValueError, match="does not go up"):
            await engine.load_weights(TensorWeights(tensors=tensors), version=3)
        with pytest.raises(ValueError, match="not complete weights"):
            await engine.load_weights(TensorWeights(tensors={}), version=4)
        wrong = tensors | {"model.visual.pos_embed.weight": torch.zeros(1)}
        with pytest.raises(ValueError, match="pos_embed"):
            await engine.load_weights(TensorWeights(tensors=wrong), version=4)
        with pytest.raises(ValueError, match="AdapterWeights"):
            await engine.load_weights(AdapterWeights(path=Path(), name="a"), version=4)
        assert engine.version == 3


async def test_a_pause_starts_nothing_and_lets_what_runs_finish() -> None:
    policy = make_policy()
    async with running(policy) as engine:
        long = asyncio.create_task(
            engine.generate(request(policy, [noise_frame(0)], name="long", grammar=None, stop_ids=(), max_tokens=60))
        )
        while engine.num_fed == 0:
            await asyncio.sleep(0.001)
        await engine.pause()
        assert len((await long).sampled_ids) == 60
        fed = engine.num_fed
        waiting = asyncio.create_task(engine.generate(request(policy, [noise_frame(0)], name="waiting")))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert engine.num_fed == fed
        await engine.resume()
        assert (await waiting).stop_reason in ("stop", "length")


async def test_an_abort_gives_what_there_is() -> None:
    policy = make_policy()
    async with running(policy) as engine:
        endless: dict[str, Any] = {"grammar": None, "stop_ids": (), "max_tokens": 3000}
        first = asyncio.create_task(engine.generate(request(policy, [noise_frame(0)], name="first", **endless)))
        while engine.num_fed < 100:
            await asyncio.sleep(0.001)
        await engine.abort("first")
        result = await first
        assert result.stop_reason == "abort"
        assert 0 < len(result.sampled_ids) < 3000
        second = asyncio.create_task(engine.generate(request(policy, [noise_frame(0)], name="second", **endless)))
        await asyncio.sleep(0.02)
        await engine.pause("abort")
        assert (await second).stop_reason == "abort"
        await engine.abort("second")
        await engine.abort("nobody")


async def test_ends_that_are_not_the_policys() -> None:
    policy = make_policy()
    async with running(policy, max_length=64) as engine:
        long = request(policy, [noise_frame(seed) for seed in range(6)])
        overflow = await engine.generate(long)
        assert (overflow.stop_reason, overflow.sampled_ids, overflow.versions) == ("overflow", (), ())
        short = request(policy, [noise_frame(0)], grammar=None, stop_ids=(), max_tokens=500)
        full = await engine.generate(short)
        assert full.stop_reason == "length"
        assert len(full.prompt_ids) + len(full.sampled_ids) == 64
    async with running(policy) as engine:
        with pytest.raises(ReplyTimeout):
            await engine.generate(replace(short, max_tokens=4000, deadline_s=0.05))
        with pytest.raises(ValueError, match="2 image placeholders for 1 images"):
            await engine.generate(replace(short, prompt_ids=(*short.prompt_ids, policy.format.image_id)))
        with pytest.raises(ValueError, match="no grammar 'json'"):
            await engine.generate(replace(short, grammar="json"))
        assert (await engine.generate(replace(short, max_tokens=2))).stop_reason == "length"
    with pytest.raises(PolicyError, match="closed"):
        await engine.generate(short)


async def test_a_model_that_fails_fails_its_requests_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy()
    async with running(policy) as engine:
        with monkeypatch.context() as broken:
            broken.setattr(engine._runner, "step", lambda: 1 / 0)
            with pytest.raises(PolicyError, match="division by zero"):
                await engine.generate(request(policy, [noise_frame(0)], name="a"))
        assert (await engine.generate(request(policy, [noise_frame(0)], name="b"))).sampled_ids


async def test_sleep_and_wake_keep_the_weights() -> None:
    policy = make_policy()
    async with running(policy) as engine:
        before = await engine.generate(request(policy, [noise_frame(0)], name="a"))
        await engine.sleep()
        await engine.wake()
        await engine.release("nobody")
        after = await engine.generate(request(policy, [noise_frame(0)], name="b", affinity="a"))
    assert after.logprobs == before.logprobs
