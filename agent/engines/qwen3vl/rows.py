"""One completion under way: what it was asked, what it has so far, and whether it has ended."""

from __future__ import annotations

from agent.engines.protocol import EngineStop, GenerateRequest, GenerateResult, VersionSpan
from agent.engines.qwen3vl.prefixes import KeptPrefix, PrefixKey
from agent.engines.qwen3vl.prompts import ExpandedPrompt
from agent.engines.qwen3vl.sampling import MaskTable

__all__ = ["Row"]


class Row:
    """One row of a batch.

    Args:
        max_length: tokens that prompt and completion may have together; a prompt that leaves no room ends at once.
    """

    def __init__(self, *, request: GenerateRequest, prompt: ExpandedPrompt, masks: MaskTable, max_length: int) -> None:
        self.request = request
        self.prompt = prompt
        self.masks = masks
        self.keys = prompt.keys()
        """Of the prompt."""
        self.sampled: list[int] = []
        self.logprobs: list[float] = []
        self.state = 0
        """Of the grammar."""
        self.fed = 0
        """Tokens whose keys and values are in the cache."""
        self.kept: KeptPrefix | None = None
        """What its trajectory left from the turn before, until it is put into the cache."""
        room = max_length - len(prompt.ids)
        self._num_allowed = min(request.max_tokens, room)
        self.stop: EngineStop | None = "overflow" if room <= 0 else None

    @property
    def ids(self) -> list[int]:
        """Prompt and what was sampled."""
        return [*self.prompt.ids, *self.sampled]

    def all_keys(self) -> list[PrefixKey]:
        """Of prompt and what was sampled."""
        return [*self.keys, *self.sampled]

    def append(self, token: int, logprob: float) -> None:
        """Add a sampled token, then those that the grammar leaves no choice about, and see whether that ends it."""
        self._add(token, logprob)
        grammar = self.masks.grammar
        while grammar is not None and self.stop is None:
            forced = grammar.forced(self.state)
            if forced is None:
                return
            self._add(forced, 0.0)

    def result(self, version: int) -> GenerateResult:
        """What its caller is told."""
        assert self.stop is not None
        num_sampled = len(self.sampled)
        spans = (VersionSpan(version=version, start=0, stop=num_sampled),) if num_sampled else ()
        return GenerateResult(
            prompt_ids=self.prompt.ids,
            placeholders=self.prompt.placeholders,
            sampled_ids=tuple(self.sampled),
            logprobs=tuple(self.logprobs),
            versions=spans,
            stop_reason=self.stop,
        )

    def _add(self, token: int, logprob: float) -> None:
        self.sampled.append(token)
        self.logprobs.append(logprob)
        if self.masks.grammar is not None:
            self.state = self.masks.grammar.step(self.state, token)
        if token in self.request.stop_ids:
            self.stop = "stop"
        elif len(self.sampled) >= self._num_allowed:
            self.stop = "length"
