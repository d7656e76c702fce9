"""The language model of a stock Qwen3-VL, run leanly: over whole sequences for training, with a cache for sampling.

One code path serves both, so that a policy's log-probabilities mean the same where they are sampled and where they are
trained. A test holds it equal to transformers' own forward, values and gradients.

Shapes: B sequences, L tokens, D width, H query heads, G key heads, E width of a head, C tokens of room in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Cache", "LanguageModel", "Rotary", "Stacked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rotary:
    """The rotary embedding of some positions."""

    cos: Tensor
    """[B, L, 1, E]"""
    sin: Tensor
    """[B, L, 1, E]"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stacked:
    """One layer's projections that share an input, as one matrix each."""

    qkv: Tensor
    """[(H + 2 G) E, D]"""
    qkv_bias: Tensor | None
    gate_up: Tensor
    """[2 F, D] F: width of the feed-forward."""


class Cache:
    """Keys and values of B sequences of different lengths, with room for more.

    Args:
        layers: [B, C, G, E] keys and values of each layer; written in place.
    """

    def __init__(self, layers: list[tuple[Tensor, Tensor]]) -> None:
        self.layers = layers

    @classmethod
    def empty(cls, model: LanguageModel, num_rows: int, room: int) -> Cache:
        """Room for so many tokens in each row."""
        shape = (num_rows, room, model.num_key_heads, model.head_width)
        weight = model.embedding
        return cls([(weight.new_zeros(shape), weight.new_zeros(shape)) for _ in range(model.num_layers)])

    @classmethod
    def joined(cls, parts: Sequence[Cache], room: int) -> Cache:
        """The rows of all parts, one after the other, with at least this room."""
        room = max(room, *(part.room for part in parts))
        layers = []
        for index in range(len(parts[0].layers)):
            keys, values = (
                torch.cat([F.pad(part.layers[index][which], (0, 0, 0, 0, 0, room - part.room)) for part in parts])
                for which in (0, 1)
            )
            layers.append((keys, values))
        return cls(layers)

    def rows(self, rows: Sequence[int]) -> Cache:
        """A copy of some rows."""
        index = torch.tensor(rows, device=self.layers[0][0].device)
        return Cache([(keys[index], values[index]) for keys, values in self.layers])

    def prefix(self, row: int, length: int) -> list[tuple[Tensor, Tensor]]:
        """[length, G, E] A copy of one row's first tokens, by layer."""
        return [(keys[row, :length].clone(), values[row, :length].clone()) for keys, values in self.layers]

    def put(self, row: int, length: int, layers: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Write a prefix's first tokens into a row."""
        for (keys, values), (key, value) in zip(self.layers, layers, strict=True):
            keys[row, :length], values[row, :length] = key[:length], value[:length]

    @property
    def room(self) -> int:
        """Tokens that a row can hold."""
        return self.layers[0][0].shape[1]


class LanguageModel:
    """Runs the text half of a stock model; differentiable where no cache is given."""

    def __init__(self, model: Any) -> None:
        text = model.model.language_model
        attention = text.layers[0].self_attn
        self._text = text
        self._head = model.lm_head
        self.num_layers = len(text.layers)
        self.head_width: int = attention.head_dim
        self.num_key_heads: int = attention.k_proj.weight.shape[0] // attention.head_dim
        self._num_heads: int = attention.q_proj.weight.shape[0] // attention.head_dim
        sections = text.rotary_emb.mrope_section
        axes = torch.zeros(self.head_width // 2, dtype=torch.long)
        for axis in (1, 2):
            axes[axis : 3 * sections[axis] : 3] = axis
        self._axes = axes
        """[E / 2] Which of time, row and column turns each frequency (interleaved M-RoPE)."""

    @property
    def embedding(self) -> Tensor:
        """[V, D] The token embeddings."""
        weight: Tensor = self._text.embed_tokens.weight
        return weight

    def stack(self) -> list[Stacked]:
        """The layers' projections, ready to run. To be made again when weights change."""
        stacked = []
        for layer in self._text.layers:
            attention, mlp = layer.self_attn, layer.mlp
            projections = (attention.q_proj, attention.k_proj, attention.v_proj)
            bias = None if attention.q_proj.bias is None else torch.cat([each.bias for each in projections])
            stacked.append(
                Stacked(
                    qkv=torch.cat([each.weight for each in projections]),
                    qkv_bias=bias,
                    gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
                )
            )
        return stacked

    def rotary(self, positions_3BL: Tensor) -> Rotary:
        """The rotary embedding of M-RoPE positions."""
        embedding = self._text.rotary_emb
        chosen = positions_3BL[self._axes.to(positions_3BL.device)].permute(1, 2, 0).float()
        angles = chosen * embedding.inv_freq
        cos, sin = (torch.cat((each, each), dim=-1) for each in (angles.cos(), angles.sin()))
        scale, dtype = embedding.attention_scaling, self.embedding.dtype
        return Rotary(cos=(cos * scale).to(dtype).unsqueeze(2), sin=(sin * scale).to(dtype).unsqueeze(2))

    def forward(
        self,
        x_BLD: Tensor,
        rotary: Rotary,
        layers: Sequence[Stacked],
        *,
        deepstack: Sequence[Tensor] = (),
        cache: Cache | None = None,
        starts: Tensor | None = None,
        span: int = 0,
    ) -> Tensor:
        """Hidden states after the final norm, [B, L, D].

        Args:
            x_BLD: embeddings.
            deepstack: [B, L, D] each, added after the first layers; zero off the images.
            cache: what is before these tokens; these tokens are written into it.
            starts: [B] how many tokens of each row are in the cache already.
            span: how many of the cache's tokens any of these can see: the longest row, with these.
        """
        mask = write = None
        if cache is not None:
            assert starts is not None
            steps = starts[:, None] + torch.arange(x_BLD.shape[1], device=x_BLD.device)
            write = (torch.arange(x_BLD.shape[0], device=x_BLD.device)[:, None], steps)
            mask = (torch.arange(span, device=x_BLD.device) <= steps[:, :, None]).unsqueeze(1)
        for index, (layer, stacked) in enumerate(zip(self._text.layers, layers, strict=True)):
            query, key, value = self._project(layer.self_attn, _norm(layer.input_layernorm, x_BLD), stacked, rotary)
            if cache is not None:
                keys, values = cache.layers[index]
                keys[write], values[write] = key, value
                key, value = keys[:, :span], values[:, :span]
            out = F.scaled_dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2),
                value.transpose(1, 2),
                attn_mask=mask,
                is_causal=mask is None,
                scale=layer.self_attn.scaling,
                enable_gqa=self.num_key_heads != self._num_heads,
            )
            x_BLD = x_BLD + layer.self_attn.o_proj(out.transpose(1, 2).flatten(2))
            gate, up = F.linear(_norm(layer.post_attention_layernorm, x_BLD), stacked.gate_up).chunk(2, dim=-1)
            x_BLD = x_BLD + layer.mlp.down_proj(layer.mlp.act_fn(gate) * up)
            if index < len(deepstack):
                x_BLD = x_BLD + deepstack[index]
        return _norm(self._text.norm, x_BLD)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V] in float32."""
        logits: Tensor = self._head(hidden_ND)
        return logits.float()

    def _project(
        self, attention: Any, x_BLD: Tensor, stacked: Stacked, rotary: Rotary
    ) -> tuple[Tensor, Tensor, Tensor]:
        heads = F.linear(x_BLD, stacked.qkv, stacked.qkv_bias).view(*x_BLD.shape[:-1], -1, self.head_width)
        query, key, value = torch.split(heads, [self._num_heads, self.num_key_heads, self.num_key_heads], dim=2)
        return _rotated(_norm(attention.q_norm, query), rotary), _rotated(_norm(attention.k_norm, key), rotary), value


def _norm(norm: Any, x: Tensor) -> Tensor:
    return F.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _rotated(x_BLHE: Tensor, rotary: Rotary) -> Tensor:
    half = x_BLHE.shape[-1] // 2
    turned = torch.cat((-x_BLHE[..., half:], x_BLHE[..., :half]), dim=-1)
    return x_BLHE * rotary.cos + turned * rotary.sin
