"""A whole sequence as a model's input: its embeddings with its images in their places, and its positions.

Shapes: B sequences, padded at the right to L tokens; D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from agent.engines.qwen3vl.language import LanguageModel
from agent.engines.qwen3vl.mrope import mrope_positions
from agent.engines.qwen3vl.vision import ImageTokens
from agent.engines.tokens.images import Grid

__all__ = ["Embedded", "TokenRun", "embed", "place"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRun:
    """Consecutive tokens of one sequence, expanded, with the images among them."""

    ids: Sequence[int]
    """[L]"""
    images: Sequence[tuple[int, str]]
    """Where each image's tokens begin in `ids`, and its name."""
    positions: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    """[3, L] M-RoPE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Embedded:
    """A padded batch, ready for `LanguageModel.forward`."""

    x_BLD: Tensor
    positions_3BL: Tensor
    deepstack: tuple[Tensor, ...]
    """[B, L, D] each; empty without images."""


def place(
    ids: Sequence[int], starts: Sequence[int], names: Sequence[str], grids: Sequence[Grid], merge: int
) -> TokenRun:
    """A whole sequence from its first token on."""
    positions, _ = mrope_positions(len(ids), starts, grids, merge)
    return TokenRun(ids=ids, images=list(zip(starts, names, strict=True)), positions=positions)


def embed(language: LanguageModel, runs: Sequence[TokenRun], images: dict[str, ImageTokens]) -> Embedded:
    """Embed the runs, padded at the right. Padding is token 0 at position 0; nothing attends to it from before it.

    Args:
        images: every image of the runs, encoded, by name.
    """
    length = max(len(run.ids) for run in runs)
    ids = np.zeros((len(runs), length), np.int64)
    positions = np.zeros((3, len(runs), length), np.int64)
    places: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    tokens: list[ImageTokens] = []
    for row, run in enumerate(runs):
        ids[row, : len(run.ids)] = run.ids
        positions[:, row, : len(run.ids)] = run.positions
        for start, name in run.images:
            tokens.append(images[name])
            begin = row * length + start
            places.append(np.arange(begin, begin + len(images[name].embeds)))
    table = language.embedding
    x_BLD = F.embedding(torch.from_numpy(ids).to(table.device), table)
    deepstack: tuple[Tensor, ...] = ()
    if tokens:
        where = torch.from_numpy(np.concatenate(places)).to(table.device)
        flat = x_BLD.flatten(0, 1)
        x_BLD = flat.index_copy(0, where, torch.cat([each.embeds for each in tokens])).view_as(x_BLD)
        deepstack = tuple(
            torch.zeros_like(flat).index_copy(0, where, torch.cat(level)).view_as(x_BLD)
            for level in zip(*(each.deepstack for each in tokens), strict=True)
        )
    return Embedded(x_BLD=x_BLD, positions_3BL=torch.from_numpy(positions).to(table.device), deepstack=deepstack)
