"""What is kept of a trajectory between its turns: keys and values of a prefix, and how much of a prompt they cover.

A token's key and value depend on all tokens before it, and an image's on its pixels. So a prefix is compared by ids,
with an image's tokens named by the image's hash, and is reused as far as it is equal and no further.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

__all__ = ["KeptPrefix", "PrefixKey", "PrefixStore"]

PrefixKey = int | str
"""A token's id; for an image's token the image's hash."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptPrefix:
    """Keys and values of the first K tokens of a trajectory's context."""

    keys: Sequence[PrefixKey]
    """[K]"""
    layers: Sequence[tuple[Tensor, Tensor]]
    """[K, G, E] keys and values of each layer."""

    def shared(self, keys: Sequence[PrefixKey]) -> int:
        """How many tokens of a prompt these cover."""
        limit = min(len(keys), len(self.keys))
        if self.keys[:limit] == keys[:limit]:
            return limit
        return next(index for index in range(limit) if self.keys[index] != keys[index])


class PrefixStore:
    """The prefixes of the trajectories that were answered last, up to a number of tokens in all."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._kept: OrderedDict[str, KeptPrefix] = OrderedDict()
        self._num_tokens = 0

    def take(self, affinity: str) -> KeptPrefix | None:
        """Take a trajectory's prefix out."""
        kept = self._kept.pop(affinity, None)
        if kept is not None:
            self._num_tokens -= len(kept.keys)
        return kept

    def keep(self, affinity: str, prefix: KeptPrefix) -> None:
        """Keep a trajectory's prefix, and drop the oldest ones where there is no room."""
        self.take(affinity)
        self._kept[affinity] = prefix
        self._num_tokens += len(prefix.keys)
        while self._num_tokens > self._max_tokens and self._kept:
            self.take(next(iter(self._kept)))

    def clear(self) -> None:
        """Drop everything."""
        self._kept.clear()
        self._num_tokens = 0
