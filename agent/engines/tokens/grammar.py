"""Which tokens may come next: a finite automaton that keeps sampled replies readable.

The engine samples under a state's mask and the trainer renormalises over the same mask, so that both speak of one
distribution. A state that allows a single token leaves nothing to sample: the engine appends that token without a step
of the model, with log-probability 0, and the trainer leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from agent.engines.tokens.replies import POINTED, SHAPES
from agent.engines.tokens.vocabulary import VERBS, Kind, Vocabulary

__all__ = ["Grammar", "compact_grammar"]

_TEXT: tuple[Kind, ...] = ("word", "byte", "join")
_ENDED = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Grammar:
    """A deterministic automaton over token ids. State 0 is the start of a reply."""

    name: str
    moves: tuple[dict[int, int], ...]
    """[state] Allowed token -> state after it; -1 after the token that ends the reply."""

    def allowed(self, state: int) -> tuple[int, ...]:
        """The tokens that may come next, in order of id."""
        return tuple(sorted(self.moves[state]))

    def forced(self, state: int) -> int | None:
        """The one token that may come next, where there is only one."""
        moves = self.moves[state]
        return next(iter(moves)) if len(moves) == 1 else None

    def step(self, state: int, token: int) -> int:
        """The state after a token; -1 when the reply has ended.

        Raises:
            ValueError: the token may not come here.
        """
        after = self.moves[state].get(token) if state != _ENDED else None
        if after is None:
            raise ValueError(f"token {token} may not follow in state {state} of the grammar {self.name!r}")
        return after

    def states(self, ids: Sequence[int]) -> list[int]:
        """The state in which each token of a reply was chosen.

        Raises:
            ValueError: the reply is outside the grammar; it names the token.
        """
        states = []
        state = 0
        for token in ids:
            states.append(state)
            state = self.step(state, token)
        return states


@lru_cache(maxsize=8)
def compact_grammar(vocabulary: Vocabulary, max_thought: int = 6) -> Grammar:
    """One action of the compact dialect with a thought of at most so many tokens, each verb with what it takes."""
    end = vocabulary.special("<|end|>")
    thought = [token for token in vocabulary.of_kind(*_TEXT) if token != vocabulary.byte(0x0A)]
    moves: list[dict[int, int]] = [{} for _ in range(max_thought + 1)]

    def state(allowed: dict[int, int]) -> int:
        moves.append(allowed)
        return len(moves) - 1

    def chain(shape: tuple[Kind, ...]) -> int:
        after = ended
        for kind in reversed(shape):
            after = state(dict.fromkeys(vocabulary.of_kind(kind), after))
        return after

    def thinking(after: dict[int, int]) -> int:
        """The state that allows a thought before what comes after it."""
        first = state(dict(after))
        for _ in range(max_thought):
            first = state(after | dict.fromkeys(thought, first))
        return first

    ended = state({end: _ENDED})
    text = state({end: _ENDED})
    moves[text] |= dict.fromkeys(vocabulary.of_kind(*_TEXT), text)
    some_text = state(dict.fromkeys(vocabulary.of_kind(*_TEXT), text))
    chord_or_text = state(moves[some_text] | dict.fromkeys(vocabulary.of_kind("chord"), ended))
    shapes = {shape: chain(shape) for shape in dict.fromkeys(SHAPES.values()) if shape != ("chord",)}
    pointed = {shape: thinking(moves[first]) for shape, first in shapes.items() if shape}
    plain: dict[int, int] = {}
    pointing: dict[int, int] = {}
    for verb in VERBS:
        token = vocabulary.find("verb", verb)
        assert token is not None
        if verb in POINTED:
            pointing[token] = pointed[SHAPES[verb]]
        elif verb == "press":
            plain[token] = chord_or_text
        elif verb in SHAPES:
            plain[token] = shapes[SHAPES[verb]]
        else:
            plain[token] = text if verb in ("infeasible", "wait") else some_text
    for index in range(max_thought + 1):
        moves[index] = plain | (pointing if index == 0 else {})
        if index < max_thought:
            moves[index] |= dict.fromkeys(thought, index + 1)
    return Grammar(name="compact", moves=tuple(moves))
