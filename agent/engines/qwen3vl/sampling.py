"""The distribution that tokens are sampled from, one for engine and trainer, and the draw.

    log p(token) = log_softmax(logits / temperature over the allowed tokens)

Temperature 0 is greedy; its log-probabilities are those at temperature 1. A draw depends on the request's seed and the
token's index alone, not on what else is sampled in the same step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from agent.engines.tokens.grammar import Grammar

__all__ = ["MaskTable", "draw", "log_probs"]


class MaskTable:
    """Which tokens may be sampled in each state of a grammar; one state without a grammar.

    Args:
        num_tokens: V, the width of the logits.
        banned_ids: never allowed.

    Raises:
        ValueError: a state allows nothing.
    """

    def __init__(self, num_tokens: int, grammar: Grammar | None, banned_ids: Sequence[int]) -> None:
        self.grammar = grammar
        if grammar is None:
            table = torch.ones(1, num_tokens, dtype=torch.bool)
        else:
            table = torch.zeros(len(grammar.moves), num_tokens, dtype=torch.bool)
            for state in range(len(grammar.moves)):
                table[state, list(grammar.allowed(state))] = True
        table[:, list(banned_ids)] = False
        if not table.any(dim=1).all():
            raise ValueError("some state of the grammar allows banned tokens only")
        self.table = table
        """[states, V]"""

    def states(self, ids: Sequence[int]) -> list[int]:
        """The state in which each token of a reply was chosen.

        Raises:
            ValueError: a token is not allowed where it stands.
        """
        states = [0] * len(ids) if self.grammar is None else self.grammar.states(ids)
        for state, token in zip(states, ids, strict=True):
            if not self.table[state, token]:
                raise ValueError(f"token {token} is banned, so it cannot have been sampled")
        return states


def log_probs(logits_NV: Tensor, allowed_NV: Tensor, temperature: float) -> Tensor:
    """[N, V] Log-probabilities of the sampling distribution; -inf where a token is not allowed. Differentiable."""
    scaled = logits_NV / temperature if temperature > 0 else logits_NV
    return scaled.masked_fill(~allowed_NV.to(scaled.device), -torch.inf).log_softmax(-1)


def draw(log_probs_V: Tensor, *, seed: int, index: int) -> int:
    """Sample the token of this index in its reply."""
    digest = hashlib.blake2b(f"{seed}:{index}".encode(), digest_size=7).digest()
    uniform = (int.from_bytes(digest, "big") >> 3) / (1 << 53)
    cumulative = log_probs_V.double().exp().cumsum(0)
    # To the right, so that a token without probability is never drawn.
    return int(torch.searchsorted(cumulative, uniform * cumulative[-1:], right=True).clamp_max(len(cumulative) - 1))
