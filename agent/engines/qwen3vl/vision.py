"""The vision encoder of a stock Qwen3-VL, run leanly: same weights, same result, less work.

Three things are not done again for every image: the position tables of a grid (kept), the convolution over patches (a
matrix product, because kernel and stride are equal), and the second, equal frame of a still image (its weights are
added up instead). A test holds the result and the gradients equal to transformers' own forward.

Shapes: I images of one grid, N patches each, M = N / merge^2 tokens each, D width of the language model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.vision_utils import get_vision_interpolation_indices_and_weights, get_vision_position_ids

from agent.engines.tokens.images import Grid

__all__ = ["ImageTokens", "Patches", "VisionEncoder"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Patches:
    """One image as the encoder takes it."""

    grid: Grid
    values: npt.NDArray[np.uint8]
    """[N, 3 * patch * patch]"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageTokens:
    """One encoded image."""

    embeds: Tensor
    """[M, D] In the place of its placeholder tokens."""
    deepstack: tuple[Tensor, ...]
    """[M, D] each: added to the hidden states after the language model's first layers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tables:
    indices: Tensor
    """[N, 4] Into the learned positions."""
    weights: Tensor
    """[N, 4, 1] Of those in the interpolation."""
    cos: Tensor
    """[N, 1, head] Of the rotary embedding."""
    sin: Tensor


class VisionEncoder:
    """Encodes images with the weights of a stock vision model; differentiable."""

    def __init__(self, visual: Any) -> None:
        self._visual = visual
        self._tables: dict[Grid, _Tables] = {}

    def __call__(self, images: Sequence[Patches]) -> list[ImageTokens]:
        """Encode the images, those of one grid together, in order."""
        by_grid: dict[Grid, list[int]] = defaultdict(list)
        for index, image in enumerate(images):
            by_grid[image.grid].append(index)
        encoded: dict[int, ImageTokens] = {}
        for grid, indices in by_grid.items():
            values = torch.from_numpy(np.stack([images[index].values for index in indices]))
            for index, tokens in zip(indices, self._encode(values, grid), strict=True):
                encoded[index] = tokens
        return [encoded[index] for index in range(len(images))]

    def clear(self) -> None:
        """Drop the position tables: the model moves to another device."""
        self._tables.clear()

    def _encode(self, values_IND: Tensor, grid: Grid) -> list[ImageTokens]:
        visual = self._visual
        tables = self._tables.get(grid) or self._tables.setdefault(grid, self._make_tables(grid))
        hidden = self._embed(values_IND)
        hidden = hidden + (visual.pos_embed(tables.indices) * tables.weights).sum(1)
        deepstack = []
        for layer, block in enumerate(visual.blocks):
            hidden = hidden + _attention(block.attn, block.norm1(hidden), tables)
            hidden = hidden + block.mlp(block.norm2(hidden))
            if layer in visual.deepstack_visual_indexes:
                merger = visual.deepstack_merger_list[list(visual.deepstack_visual_indexes).index(layer)]
                deepstack.append(_merged(merger, hidden))
        merged = _merged(visual.merger, hidden)
        return [
            ImageTokens(embeds=merged[index], deepstack=tuple(each[index] for each in deepstack))
            for index in range(len(merged))
        ]

    def _embed(self, values_IND: Tensor) -> Tensor:
        proj = self._visual.patch_embed.proj
        weight = proj.weight.sum(2).flatten(1)  # both frames of a still image are the same
        pixels = values_IND.to(weight.device, weight.dtype) / 127.5 - 1.0  # mean 0.5 and deviation 0.5 of 0..255
        return F.linear(pixels, weight, proj.bias)

    def _make_tables(self, grid: Grid) -> _Tables:
        visual = self._visual
        device = visual.pos_embed.weight.device
        merge = visual.spatial_merge_size
        with torch.no_grad():
            thw = torch.tensor([[1, *grid]], device=device)
            indices, weights = get_vision_interpolation_indices_and_weights(
                thw,
                num_grid_per_side=visual.num_grid_per_side,
                mode=visual.interpolation_mode,
                align_corners=visual.interpolation_align_corners,
                spatial_merge_size=merge,
            )
            cos, sin = visual.rotary_pos_emb(visual.pos_embed.weight, get_vision_position_ids(thw, merge))
        dtype = visual.pos_embed.weight.dtype
        return _Tables(
            indices=indices, weights=weights[:, :, None].to(dtype), cos=cos.unsqueeze(-2), sin=sin.unsqueeze(-2)
        )


def _attention(attention: Any, x_IND: Tensor, tables: _Tables) -> Tensor:
    num_images, num_patches, width = x_IND.shape
    qkv = attention.qkv(x_IND).view(num_images, num_patches, 3, attention.num_heads, -1)
    query, key, value = qkv.unbind(2)
    query, key = (_rotated(states, tables).transpose(1, 2) for states in (query, key))
    out = F.scaled_dot_product_attention(query, key, value.transpose(1, 2), scale=attention.scaling)
    projected: Tensor = attention.proj(out.transpose(1, 2).reshape(num_images, num_patches, width))
    return projected


def _rotated(states: Tensor, tables: _Tables) -> Tensor:
    exact = states.float()
    half = exact.shape[-1] // 2
    turned = torch.cat((-exact[..., half:], exact[..., :half]), dim=-1)
    return (exact * tables.cos + turned * tables.sin).to(states.dtype)


def _merged(merger: Any, hidden_IND: Tensor) -> Tensor:
    num_images = hidden_IND.shape[0]
    merged: Tensor = merger(hidden_IND.reshape(-1, hidden_IND.shape[-1]))
    return merged.view(num_images, -1, merged.shape[-1])
