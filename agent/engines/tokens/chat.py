"""The format of published Qwen3-VL checkpoints: ChatML turns in the ids of the checkpoint's own tokenizer.

Written out here rather than by the checkpoint's chat template, because templates re-render earlier turns (they strip
thoughts, for one), and a context that is re-rendered is no longer the one that was sampled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from agent.engines.tokens.formats import After
from agent.engines.tokens.grammar import Grammar
from agent.engines.tokens.images import ImagePlan

__all__ = ["ChatFormat", "Tokenizer"]


class Tokenizer(Protocol):
    """As much of a Hugging Face tokenizer as is used here."""

    def encode(self, text: str, **options: Any) -> list[int]:
        """Ids of a text."""
        ...

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        """Text of ids."""
        ...

    def convert_tokens_to_ids(self, tokens: str) -> int | None:
        """The id of one token."""
        ...

    def save_pretrained(self, save_directory: Path) -> object:
        """Write its files."""
        ...


class ChatFormat:
    """ChatML: a system turn, then a user turn with each screenshot and an assistant turn with each reply.

    Raises:
        ValueError: the tokenizer lacks one of Qwen3-VL's special tokens.
    """

    def __init__(self, tokenizer: Tokenizer, images: ImagePlan) -> None:
        self._tokenizer = tokenizer
        self.images = images
        self.grammar: Grammar | None = None
        self._start = self._special("<|im_start|>")
        self._end = self._special("<|im_end|>")
        self.image_id = self._special("<|image_pad|>")
        self._shown = [self._special("<|vision_start|>"), self.image_id, self._special("<|vision_end|>")]
        self.stop_ids: tuple[int, ...] = (self._end,)
        self.banned_ids = (self._start, *self._shown, self._special("<|video_pad|>"))

    def begin(self, system_prompt: str, instruction: str) -> list[int]:
        """The system turn, and the user's first words."""
        system = [self._start, *self._text(f"system\n{system_prompt}"), self._end, *self._text("\n")]
        return [*system, self._start, *self._text(f"user\n{instruction}\n")]

    def observation(self, *, shown: bool, feedback: str, placeholder: str, after: After) -> list[int]:
        """The screenshot or its placeholder and what the policy is told, up to the assistant's turn."""
        ids = [self._end] if after == "cut" else []
        if after != "begin":
            ids += [*self._text("\n"), self._start, *self._text("user\n")]
        image = self._shown if shown else self._text(placeholder)
        ids += [*image, *(self._text(f"\n{feedback}") if feedback else []), self._end, *self._text("\n")]
        return [*ids, self._start, *self._text("assistant\n")]

    def encode_reply(self, text: str) -> list[int]:
        """Ids of a reply, with the end of its turn."""
        return [*self._text(text), self._end]

    def decode_reply(self, ids: Sequence[int]) -> str:
        """The reply's text."""
        kept = [token for token in ids if token not in self.stop_ids]
        return self._tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def action_mask(self, ids: Sequence[int]) -> list[bool]:
        """All True: thought and action are not told apart in free text."""
        return [True] * len(ids)

    def save(self, directory: Path) -> None:
        """Write the tokenizer into a checkpoint's directory."""
        self._tokenizer.save_pretrained(directory)

    def _text(self, text: str) -> list[int]:
        # Special tokens are split, so that `<|image_pad|>` read from a screen is text and never an image.
        return list(self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def _special(self, name: str) -> int:
        found = self._tokenizer.convert_tokens_to_ids(name)
        if not isinstance(found, int):
            raise ValueError(f"this tokenizer has no {name}; a Qwen3-VL checkpoint's own tokenizer has it")
        return found
