"""Chance for templates: one seeded source, so that a bundle is a function of its template, seed and number."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from verigen.packs.words import ITEMS, NAMES, STEMS, VERBS

__all__ = ["Draw"]

T = TypeVar("T")


class Draw:
    """What a template draws its content and its window's place from.

    Args:
        key: seeds it; equal keys give equal draws on every machine.
    """

    def __init__(self, key: str) -> None:
        self._random = random.Random(key)

    def number(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return self._random.randint(low, high)

    def coin(self) -> bool:
        """True or false."""
        return self._random.random() < 0.5

    def pick(self, among: Sequence[T]) -> T:
        """One of them."""
        return self._random.choice(among)

    def some(self, among: Sequence[T], count: int) -> list[T]:
        """Different ones, in random order."""
        return self._random.sample(among, count)

    def file_names(self, count: int) -> list[str]:
        """Different names of text files."""
        return [f"{stem}.txt" for stem in self.some(STEMS, count)]

    def lines(self, count: int) -> list[str]:
        """Different lines of a note: things to buy, or people to see."""
        if self.coin():
            return self.some(ITEMS, count)
        return [f"{self.pick(VERBS)} {name}" for name in self.some(NAMES, count)]
