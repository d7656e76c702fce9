"""One trajectory's context as ids that only grow, and the point at which they cannot.

::

    prompt 1 -> + reply 1 + observation 2 -> + reply 2 + observation 3 -> | screenshots dropped: prompt written anew
    `--------------- one segment: each prompt starts with all before it --------------' `----- the next segment ...

Guarantees: a reply's ids are kept as they were sampled and never made from text again, also in a prompt that is written
anew. Within a segment prompt k+1 starts with prompt k and reply k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.engines.tokens.formats import After, PolicyFormat
from agent.policy import ContextTurn
from sandbox.frame import Frame

__all__ = ["Prompt", "TokenStream"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What one turn is answered from."""

    ids: tuple[int, ...]
    """[P] Compact: one placeholder an image."""
    frames: tuple[Frame, ...]
    """In the order of their placeholders."""
    anew: bool
    """Whether it starts a segment."""


class TokenStream:
    """The ids of one trajectory."""

    def __init__(self, form: PolicyFormat, *, system_prompt: str, instruction: str, placeholder: str) -> None:
        self._format = form
        self._begin = form.begin(system_prompt, instruction)
        self._placeholder = placeholder
        self._replies: dict[int, tuple[int, ...]] = {}
        self._ids: list[int] = []
        self._frames: list[Frame] = []
        self._shown: tuple[int, ...] = ()
        self._num_turns = 0
        self.segments = 0
        """Prompts that were written anew."""

    def prompt(self, turns: Sequence[ContextTurn]) -> Prompt:
        """The prompt for the last of these turns.

        Replies that this stream did not record are made from their text, in a new segment; one that the format has no
        ids for is left out.
        """
        shown = tuple(turn.index for turn in turns if turn.frame is not None)
        earlier = shown[:-1] if turns[-1].frame is not None else shown
        grows = (
            self._num_turns == len(turns) - 1
            and self._num_turns > 0
            and earlier == self._shown
            and turns[-2].index in self._replies
        )
        if grows:
            self._ids += self._replies[turns[-2].index]
        else:
            self._ids = list(self._begin)
            self._frames = []
            self.segments += 1
            for turn in turns[:-1]:
                self._observe(turn)
                self._ids += self._reply(turn)
        self._observe(turns[-1])
        self._shown = shown
        self._num_turns = len(turns)
        return Prompt(ids=tuple(self._ids), frames=tuple(self._frames), anew=not grows)

    def record(self, turn: int, sampled_ids: Sequence[int]) -> None:
        """Keep what was sampled in a turn."""
        self._replies[turn] = tuple(sampled_ids)

    def _observe(self, turn: ContextTurn) -> None:
        after: After = "begin"
        if turn.index > 0:
            before = self._replies.get(turn.index - 1, ())
            after = "end" if not before or before[-1] in self._format.stop_ids else "cut"
        self._ids += self._format.observation(
            shown=turn.frame is not None, feedback=turn.feedback, placeholder=self._placeholder, after=after
        )
        if turn.frame is not None:
            self._frames.append(turn.frame)

    def _reply(self, turn: ContextTurn) -> tuple[int, ...]:
        if turn.index not in self._replies:
            assert turn.reply is not None, "only the last turn has no reply"
            try:
                self._replies[turn.index] = tuple(self._format.encode_reply(turn.reply))
            except ValueError:  # no ids for it; what is only context may be left out
                self._replies[turn.index] = self._format.stop_ids[:1]
        return self._replies[turn.index]
