"""A policy as a directory: stock Qwen3-VL weights and config, with its vocabulary or its tokenizer beside them.

A directory that holds a `Vocabulary` is one of ours and takes screenshots pixel by pixel; any other is read as a
published Qwen3-VL checkpoint, with its own tokenizer and its processor's resizing. transformers loads both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.utils.logging import disable_progress_bar

from agent.engines.qwen3vl.settings import TinySize
from agent.engines.tokens.chat import ChatFormat
from agent.engines.tokens.formats import CompactFormat, PolicyFormat
from agent.engines.tokens.images import ImagePlan
from agent.engines.tokens.vocabulary import VOCABULARY_FILE, Vocabulary

__all__ = ["PolicyModel", "build_tiny", "load_policy", "save_policy"]

PROCESSOR_FILE = "preprocessor_config.json"
disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers draws one on stderr for every checkpoint

_GRID_SIDE = 24
"""Side of the learned position table, which is interpolated to each image's grid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyModel:
    """A model with what turns text and screenshots into its ids."""

    model: Any
    """A `Qwen3VLForConditionalGeneration`; its class has no types."""
    format: PolicyFormat


def build_tiny(vocabulary: Vocabulary, size: TinySize | None = None, *, seed: int) -> PolicyModel:
    """A fresh policy with random weights. Equal arguments give equal weights; torch's own RNG is left as it was."""
    size = size or TinySize()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        make: Any = Qwen3VLForConditionalGeneration
        model = make(_config(vocabulary, size))
    model.eval()
    return PolicyModel(model=model, format=CompactFormat(vocabulary, ImagePlan(patch=size.patch, merge=size.merge)))


def load_policy(directory: Path, *, dtype: torch.dtype = torch.float32) -> PolicyModel:
    """Read a policy's directory, ours or a published one. Nothing is downloaded.

    Raises:
        ValueError: the directory is not a Qwen3-VL checkpoint.
    """
    config_file = directory / "config.json"
    if not config_file.is_file():
        raise ValueError(f"{directory} holds no config.json; name the directory of a Qwen3-VL checkpoint")
    kind = json.loads(config_file.read_text("utf-8")).get("model_type")
    if kind != "qwen3_vl":
        raise ValueError(f"{directory} holds a model of type {kind!r}; this engine runs qwen3_vl")
    model: Any = Qwen3VLForConditionalGeneration.from_pretrained(directory, dtype=dtype, local_files_only=True)
    model.eval()
    vision = model.config.vision_config
    if (directory / VOCABULARY_FILE).is_file():
        plan = ImagePlan(patch=vision.patch_size, merge=vision.spatial_merge_size)
        return PolicyModel(model=model, format=CompactFormat(Vocabulary.load(directory), plan))
    plan = ImagePlan(patch=vision.patch_size, merge=vision.spatial_merge_size, fit="resize", **_pixel_bounds(directory))
    tokenizer: Any = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    return PolicyModel(model=model, format=ChatFormat(tokenizer, plan))


def save_policy(policy: PolicyModel, directory: Path) -> None:
    """Write a directory that `load_policy` and transformers read. It is not made durable here."""
    directory.mkdir(parents=True, exist_ok=True)
    policy.model.save_pretrained(directory)
    match policy.format:
        case CompactFormat():
            policy.format.vocabulary.save(directory)
        case ChatFormat():
            policy.format.save(directory)
            (directory / PROCESSOR_FILE).write_text(json.dumps(_processor(policy.format.images), indent=1), "utf-8")


def _pixel_bounds(directory: Path) -> dict[str, int]:
    try:
        size = json.loads((directory / PROCESSOR_FILE).read_text("utf-8")).get("size") or {}
    except FileNotFoundError:
        size = {}
    # Qwen's processors call areas edges.
    return {
        "min_pixels": size.get("shortest_edge", 256 * 256),
        "max_pixels": size.get("longest_edge", 4096 * 4096),
    }


def _processor(plan: ImagePlan) -> dict[str, Any]:
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "size": {"shortest_edge": plan.min_pixels, "longest_edge": plan.max_pixels},
        "patch_size": plan.patch,
        "merge_size": plan.merge,
        "temporal_patch_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }


def _config(vocabulary: Vocabulary, size: TinySize) -> Qwen3VLConfig:
    half = size.head_width // 2
    side = half // 3
    special = vocabulary.special
    vision: dict[str, Any] = {
        "depth": size.vision_layers,
        "hidden_size": size.vision_width,
        "intermediate_size": 4 * size.vision_width,
        "num_heads": size.vision_heads,
        "out_hidden_size": size.text_width,
        "patch_size": size.patch,
        "spatial_merge_size": size.merge,
        "num_position_embeddings": _GRID_SIDE**2,
        "deepstack_visual_indexes": [0],
        "initializer_range": size.initializer_range,
    }
    text: dict[str, Any] = {
        "vocab_size": len(vocabulary),
        "hidden_size": size.text_width,
        "intermediate_size": 3 * size.text_width,
        "num_hidden_layers": size.text_layers,
        "num_attention_heads": size.text_heads,
        "num_key_value_heads": size.text_heads,
        "head_dim": size.head_width,
        "max_position_embeddings": 8192,
        "initializer_range": size.initializer_range,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [half - 2 * side, side, side],
            "mrope_interleaved": True,
        },
        "pad_token_id": special("<|pad|>"),
        "eos_token_id": special("<|end|>"),
    }
    return Qwen3VLConfig(
        vision_config=vision,
        text_config=text,
        tie_word_embeddings=True,
        image_token_id=special("<|image_pad|>"),
        video_token_id=special("<|video_pad|>"),
        vision_start_token_id=special("<|vision_start|>"),
        vision_end_token_id=special("<|vision_end|>"),
    )
