"""How a conversation becomes ids: what stands between the screenshots and the replies.

A format only ever adds: the ids of a turn do not depend on the turns after it. So prompt k+1 starts with prompt k and
what was sampled in turn k, until screenshots are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from agent.engines.tokens.grammar import Grammar, compact_grammar
from agent.engines.tokens.images import ImagePlan
from agent.engines.tokens.replies import decode_reply, encode_reply, thought_mask
from agent.engines.tokens.vocabulary import Vocabulary
from agent.engines.tokens.words import encode_text

__all__ = ["After", "CompactFormat", "PolicyFormat"]

After = Literal["begin", "end", "cut"]
"""What an observation follows: the beginning, a reply that ended by itself, or one that was cut off."""


class PolicyFormat(Protocol):
    """Text and ids of one model family."""

    images: ImagePlan
    """How its model takes screenshots."""
    image_id: int
    """The placeholder of an image."""
    stop_ids: tuple[int, ...]
    """Tokens that end a reply; the first is the usual one."""
    banned_ids: tuple[int, ...]
    """Tokens that no reply may have: image tokens above all."""
    grammar: Grammar | None
    """What replies are held to; None for free text."""

    def begin(self, system_prompt: str, instruction: str) -> list[int]:
        """Ids before the first observation."""
        ...

    def observation(self, *, shown: bool, feedback: str, placeholder: str, after: After) -> list[int]:
        """Ids of one turn's observation, up to where the reply starts.

        Args:
            shown: whether its screenshot is in the context; else the placeholder stands there.
        """
        ...

    def encode_reply(self, text: str) -> list[int]:
        """Ids of a reply that was written as text, its stop token included.

        Raises:
            ValueError: the format has no ids for it.
        """
        ...

    def decode_reply(self, ids: Sequence[int]) -> str:
        """A reply's text, verbatim for the dialect; stop tokens have none."""
        ...

    def action_mask(self, ids: Sequence[int]) -> list[bool]:
        """[S] True on tokens of the action, as opposed to thought."""
        ...


class CompactFormat:
    """The format of policies with a `Vocabulary`: the instruction, then screenshots and compact replies.

    ::

        <|task|> INSTRUCTION  <|vision_start|><|image_pad|><|vision_end|> FEEDBACK <|act|> REPLY <|end|>  <|vision_...

    The system prompt is left out: a small policy is trained on what the prompt would tell it. A dropped screenshot is
    one token, whatever the harness writes in its place.

    Args:
        free: lift the grammar from replies.
    """

    def __init__(self, vocabulary: Vocabulary, images: ImagePlan, *, free: bool = False) -> None:
        special = vocabulary.special
        self.vocabulary = vocabulary
        self.images = images
        self.image_id = special("<|image_pad|>")
        self.stop_ids: tuple[int, ...] = (special("<|end|>"),)
        self.banned_ids = tuple(token for token in vocabulary.of_kind("special") if token not in self.stop_ids)
        self.grammar: Grammar | None = None if free else compact_grammar(vocabulary)
        self._shown = [special("<|vision_start|>"), self.image_id, special("<|vision_end|>")]
        self._dropped = [special("<|dropped|>")]
        self._task = special("<|task|>")
        self._act = special("<|act|>")

    def begin(self, system_prompt: str, instruction: str) -> list[int]:
        """The instruction."""
        return [self._task, *encode_text(self.vocabulary, instruction)]

    def observation(self, *, shown: bool, feedback: str, placeholder: str, after: After) -> list[int]:
        """The screenshot or its placeholder, what the policy is told, and the mark that it is its turn."""
        return [
            *(self.stop_ids if after == "cut" else ()),
            *(self._shown if shown else self._dropped),
            *encode_text(self.vocabulary, feedback),
            self._act,
        ]

    def encode_reply(self, text: str) -> list[int]:
        """Ids of a reply in the compact dialect."""
        return [*encode_reply(self.vocabulary, text), *self.stop_ids]

    def decode_reply(self, ids: Sequence[int]) -> str:
        """The reply in the compact dialect."""
        return decode_reply(self.vocabulary, [token for token in ids if token not in self.stop_ids])

    def action_mask(self, ids: Sequence[int]) -> list[bool]:
        """True on all but the words of thought."""
        return [not thought for thought in thought_mask(self.vocabulary, ids)]
