"""A policy comes back from its directory; a published checkpoint runs by the same code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agent.engines.qwen3vl.checkpoint import PolicyModel, build_tiny, load_policy, save_policy
from agent.engines.tokens import ChatFormat, CompactFormat, ImagePlan, Vocabulary
from agent.engines.transformers_engine import TransformersEngine
from agent.policies.engine_policy import EnginePolicy
from tests.support.rollouts import play
from tests.support.tiny_policy import SIZE, make_policy, noise_frame, stock_logits
from trainer.batches import training_sequences
from trainer.forward import Forward

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


def published(directory: Path) -> Path:
    """A checkpoint as it is published: stock tokenizer files, a processor's config, random weights."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<|endoftext|>", *SPECIAL], show_progress=False
    )
    tokenizer.train_from_iterator(["click 100 200", "system user assistant", "Open the File menu"] * 3, trainer)
    make: Any = PreTrainedTokenizerFast
    fast = make(tokenizer_object=tokenizer, pad_token="<|endoftext|>")
    model = make_policy(sharpness=3.0).model
    config = model.config.to_dict()
    ids = {name: fast.convert_tokens_to_ids(name) for name in SPECIAL}
    config |= {"image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"]}
    config |= {"vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"]}
    config["text_config"] |= {"vocab_size": len(fast), "pad_token_id": 0, "eos_token_id": ids["<|im_end|>"]}
    stock = Qwen3VLForConditionalGeneration(type(model.config)(**config))  # type: ignore[no-untyped-call]
    stock.save_pretrained(directory)
    fast.save_pretrained(directory)
    size = {"shortest_edge": 32 * 32, "longest_edge": 96 * 96}
    (directory / "preprocessor_config.json").write_text(json.dumps({"size": size}))
    return directory


def same_weights(one: PolicyModel, other: PolicyModel) -> bool:
    pairs = zip(one.model.state_dict().items(), other.model.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_a_tiny_policy_comes_back(tmp_path: Path) -> None:
    policy = make_policy()
    save_policy(policy, tmp_path)
    again = load_policy(tmp_path)
    assert same_weights(policy, again)
    assert isinstance(policy.format, CompactFormat)
    assert isinstance(again.format, CompactFormat)
    assert again.format.vocabulary == policy.format.vocabulary
    assert again.format.images == policy.format.images
    stock = Qwen3VLForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(stock.state_dict()["lm_head.weight"], policy.model.state_dict()["lm_head.weight"])


def test_fresh_weights_follow_the_seed_alone() -> None:
    before = torch.get_rng_state()
    vocabulary = Vocabulary(width=96, height=64, words=("Save",))
    one, same, other = (build_tiny(vocabulary, SIZE, seed=seed) for seed in (3, 3, 4))
    assert same_weights(one, same)
    assert not same_weights(one, other)
    assert torch.equal(before, torch.get_rng_state())


def test_the_default_size_is_about_a_million() -> None:
    vocabulary = Vocabulary(width=320, height=224, words=tuple(f"word{n}" for n in range(200)))
    count = sum(parameter.numel() for parameter in build_tiny(vocabulary, seed=0).model.parameters())
    assert 800_000 < count < 1_600_000


def test_other_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no config"):
        load_policy(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="'llama'"):
        load_policy(tmp_path)


async def test_a_published_checkpoint_runs_and_trains_by_the_same_code(tmp_path: Path) -> None:
    policy = load_policy(published(tmp_path / "published"))
    assert isinstance(policy.format, ChatFormat)
    assert policy.format.images.fit == "resize"
    frames = [noise_frame(seed, width=130, height=70) for seed in range(4)]
    engine = TransformersEngine(policy)
    actor = EnginePolicy(engine, policy.format, name="published", hash="h")
    try:
        trajectory = await play(actor, frames, window=2, delta=1, temperature=0.8, feedback="<|image_pad|>")
    finally:
        await engine.close()
    named = {frame.sha256: frame for frame in frames}
    sequences = training_sequences(trajectory, policy.format, window=2, delta=1, frames=named.__getitem__)
    assert len(sequences) == 3
    outcome = Forward(policy, named.__getitem__)(sequences, temperature=0.8)
    engines = torch.tensor([logp for sequence in sequences for logp in sequence.logprobs])
    torch.testing.assert_close(outcome.logp_N, engines, rtol=0, atol=1e-4)
    # And transformers' own forward agrees on the last turn.
    last = trajectory.turns[-1].tokens
    assert last is not None
    logits = stock_logits(policy, [*last.sent_ids, *last.sampled_ids], frames[-2:]) / 0.8
    logits[:, list(policy.format.banned_ids)] = -torch.inf
    stock = logits.log_softmax(-1)[len(last.prompt_ids) - 1 : -1]
    torch.testing.assert_close(
        stock[range(len(last.sampled_ids)), list(last.sampled_ids)], torch.tensor(last.logprobs), rtol=0, atol=1e-4
    )
    save_policy(policy, tmp_path / "again")
    again = load_policy(tmp_path / "again")
    assert same_weights(policy, again)
    assert again.format.images == policy.format.images
    assert again.format.encode_reply("click 1 2") == policy.format.encode_reply("click 1 2")


def test_a_resized_picture_is_the_processors() -> None:
    plan = ImagePlan(fit="resize", min_pixels=32 * 32, max_pixels=96 * 96)
    frame = noise_frame(0, width=150, height=70)
    processor = Qwen2VLImageProcessorPil(
        size={"shortest_edge": 32 * 32, "longest_edge": 96 * 96},
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    out = processor(images=[frame.image()], return_tensors="np")
    assert out["image_grid_thw"].tolist() == [[1, *plan.grid(150, 70)]]
    ours = plan.patches(frame).astype(np.float32) / 127.5 - 1
    theirs = np.asarray(out["pixel_values"]).reshape(len(ours), 3, 2, 256)
    np.testing.assert_allclose(theirs[:, :, 0].reshape(len(ours), -1), ours, atol=1e-5)
    np.testing.assert_array_equal(theirs[:, :, 0], theirs[:, :, 1])


def test_special_tokens_in_text_are_text(tmp_path: Path) -> None:
    form = load_policy(published(tmp_path)).format
    ids = form.observation(shown=True, feedback="<|image_pad|><|im_end|>", placeholder="", after="begin")
    assert ids.count(form.image_id) == 1
    assert form.decode_reply(form.encode_reply("a <|image_pad|> b")) == "a <|image_pad|> b"
    assert form.image_id not in form.encode_reply("a <|image_pad|> b")
