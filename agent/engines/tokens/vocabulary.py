"""The small vocabulary of a policy that is built from a config: which id stands for what.

::

    [ specials | join | 256 bytes | verbs | wheel amounts | key chords | x bins | y bins | words ]

Words are those of the texts that the vocabulary was made from. Every other text is written in bytes, so no text is
beyond it. Coordinates are bins of the screenshot as shown: a policy points with two tokens, and a bin stands for its
middle pixel. Saved beside a checkpoint's weights as plain JSON; ids never change once it is made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["PIECE", "VERBS", "VOCABULARY_FILE", "Kind", "Vocabulary"]

Kind = Literal["special", "join", "byte", "verb", "amount", "chord", "x", "y", "word"]

VOCABULARY_FILE = "frontdesk_tokens.json"
"""Its name in a checkpoint's directory."""
SPECIALS = (
    "<|pad|>",
    "<|end|>",
    "<|task|>",
    "<|vision_start|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|vision_end|>",
    "<|dropped|>",
    "<|act|>",
    "<|point|>",
)
VERBS = (
    "click",
    "double",
    "triple",
    "right",
    "middle",
    "move",
    "down",
    "up",
    "drag",
    "scroll",
    "type",
    "press",
    "hold",
    "keydown",
    "keyup",
    "wait",
    "shot",
    "done",
    "infeasible",
    "answer",
)
"""Verbs of the compact dialect that have a token."""
AMOUNTS = ("0 -10", "0 -5", "0 -3", "0 -1", "0 1", "0 3", "0 5", "0 10")
"""Wheel clicks that have a token: dx and dy as the compact dialect writes them."""
CHORDS: tuple[str, ...] = (
    "enter",
    "esc",
    "tab",
    "space",
    "backspace",
    "delete",
    "up",
    "down",
    "left",
    "right",
    "home",
    "end",
    "f10",
)
CHORDS += ("ctrl+a", "ctrl+c", "ctrl+f", "ctrl+n", "ctrl+o", "ctrl+q", "ctrl+s", "ctrl+v", "ctrl+w", "ctrl+z")
PIECE = re.compile(r"[^\W\d_]+|.", re.DOTALL)
"""A word, or any single character."""


class Vocabulary(BaseModel):
    """Which id stands for what. Equal fields give equal ids."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(ge=1)
    """Of the screenshots as shown, pixels."""
    height: int = Field(ge=1)
    """Of the screenshots as shown, pixels."""
    bin_px: int = Field(default=4, ge=1)
    """Side of a coordinate bin, pixels."""
    words: tuple[str, ...]
    """In the order of their ids."""
    chords: tuple[str, ...] = CHORDS
    """Key chords with a token each, as the compact dialect writes them."""

    @field_validator("words", "chords")
    @classmethod
    def _unique(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(values)) != len(values) or "" in values:
            raise ValueError("each word once, none of them empty")
        return values

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], *, width: int, height: int, bin_px: int = 4, max_words: int = 1024
    ) -> Vocabulary:
        """Make a vocabulary of the commonest words of two letters or more (ties in alphabetical order)."""
        counts = Counter(
            piece for text in texts for piece in PIECE.findall(text) if len(piece) > 1 and piece[0].isalpha()
        )
        words = sorted(counts, key=lambda word: (-counts[word], word))[:max_words]
        return cls(width=width, height=height, bin_px=bin_px, words=tuple(words))

    @classmethod
    def load(cls, directory: Path) -> Vocabulary:
        """Read it from a checkpoint's directory.

        Raises:
            ValueError: the file is not a vocabulary.
            FileNotFoundError: the directory has none.
        """
        return cls.model_validate_json((directory / VOCABULARY_FILE).read_text("utf-8"))

    def save(self, directory: Path) -> None:
        """Write it into a checkpoint's directory."""
        (directory / VOCABULARY_FILE).write_text(self.model_dump_json(indent=1), "utf-8")

    @cached_property
    def layout(self) -> tuple[tuple[Kind, str], ...]:
        """[V] Kind and text of each id. A byte's text is its number, a bin's its middle pixel."""
        half = self.bin_px // 2
        return (
            *(("special", name) for name in SPECIALS),
            ("join", ""),
            *(("byte", str(value)) for value in range(256)),
            *(("verb", verb) for verb in VERBS),
            *(("amount", amount) for amount in AMOUNTS),
            *(("chord", chord) for chord in self.chords),
            *(("x", str(min(x + half, self.width - 1))) for x in range(0, self.width, self.bin_px)),
            *(("y", str(min(y + half, self.height - 1))) for y in range(0, self.height, self.bin_px)),
            *(("word", word) for word in self.words),
        )

    @cached_property
    def _first(self) -> dict[Kind, int]:
        first: dict[Kind, int] = {}
        for index, (kind, _) in enumerate(self.layout):
            first.setdefault(kind, index)
        return first

    @cached_property
    def _ids(self) -> dict[tuple[Kind, str], int]:
        return {entry: index for index, entry in enumerate(self.layout) if entry[0] not in ("x", "y")}

    def __len__(self) -> int:
        return len(self.layout)

    def kind(self, token: int) -> Kind:
        """What sort of token it is."""
        return self.layout[token][0]

    def text(self, token: int) -> str:
        """The token's own text."""
        return self.layout[token][1]

    def find(self, kind: Kind, text: str) -> int | None:
        """The id of a token by its text; None where there is none."""
        return self._ids.get((kind, text))

    def special(self, name: str) -> int:
        """The id of a special token."""
        return self._ids["special", name]

    def of_kind(self, *kinds: Kind) -> tuple[int, ...]:
        """All ids of these kinds, in order."""
        return tuple(index for index, (kind, _) in enumerate(self.layout) if kind in kinds)

    @property
    def join(self) -> int:
        """The token that takes away the space that two tokens would have between them."""
        return self._first["join"]

    def byte(self, value: int) -> int:
        """The id of a byte."""
        return self._first["byte"] + value

    def byte_value(self, token: int) -> int:
        """The byte of a byte token."""
        return token - self._first["byte"]

    def x(self, pixel: int) -> int:
        """The bin of a column, pixels from the left.

        Raises:
            ValueError: the column is not on the screen.
        """
        return self._first["x"] + self._bin(pixel, self.width, "x")

    def y(self, pixel: int) -> int:
        """The bin of a row, pixels from the top.

        Raises:
            ValueError: the row is not on the screen.
        """
        return self._first["y"] + self._bin(pixel, self.height, "y")

    def _bin(self, pixel: int, size: int, axis: str) -> int:
        if not 0 <= pixel < size:
            raise ValueError(f"{axis} = {pixel} is outside 0..{size - 1}, the screenshots of this vocabulary")
        return pixel // self.bin_px
