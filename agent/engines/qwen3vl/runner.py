"""Samples many completions at once, token by token: the engine's synchronous core. One thread owns it.

::

    add -> waiting -> admitted (what its trajectory's cache lacks is computed) -> one token a step -> result
                        ^ at every step, as long as there is room      its cache is kept for the next turn

Requests join and leave between any two steps, so a short reply never waits for a long one. Rows of a batch do not see
each other; their numbers differ from those of a row alone by rounding only. With `max_batch` 1 they do not differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from agent.engines.protocol import GenerateRequest, GenerateResult, ScoreRequest, ScoreResult
from agent.engines.qwen3vl.checkpoint import PolicyModel
from agent.engines.qwen3vl.language import Cache, LanguageModel
from agent.engines.qwen3vl.prefixes import KeptPrefix, PrefixStore
from agent.engines.qwen3vl.prompts import EncodedImages, ExpandedPrompt
from agent.engines.qwen3vl.rows import Row
from agent.engines.qwen3vl.sampling import MaskTable, draw, log_probs
from agent.engines.qwen3vl.sequences import embed
from agent.engines.qwen3vl.vision import VisionEncoder

__all__ = ["Runner"]

_SPARE = 16
"""Tokens of room that a batch is given beyond its longest row."""
_UNEVEN = 1.5
"""Rows are computed together as long as the longest is at most so many times the shortest: padding is work too."""


class Runner:
    """The synchronous core of `TransformersEngine`.

    Args:
        version: of the model's weights.
        max_batch: completions under way at once.
        max_length: tokens that a prompt and its completion may have together.
        max_kept_tokens: tokens of all trajectories whose keys and values are kept.
        max_images: encoded images that are kept.
    """

    def __init__(
        self,
        policy: PolicyModel,
        *,
        version: int = 0,
        max_batch: int = 16,
        max_length: int = 4096,
        max_kept_tokens: int = 100_000,
        max_images: int = 512,
    ) -> None:
        self.policy = policy
        self.version = version
        self.paused = False
        self.num_fed = 0
        """Tokens computed so far; what a cache saves shows here."""
        self._language = LanguageModel(policy.model)
        self._images = EncodedImages(VisionEncoder(policy.model.model.visual), policy.format.images, max_images)
        self._kept = PrefixStore(max_kept_tokens)
        self._max_batch = max_batch
        self._max_length = max_length
        self._masks: dict[tuple[str | None, tuple[int, ...]], MaskTable] = {}
        self._waiting: deque[Row] = deque()
        self._ended: list[Row] = []
        """Ended without a place in the batch; the next step tells of them."""
        self._active: list[Row] = []
        self._cache: Cache | None = None
        with torch.no_grad():
            self._stacked = self._language.stack()

    @property
    def num_active(self) -> int:
        """Completions under way."""
        return len(self._active)

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything."""
        return bool(self._active or self._ended) or (bool(self._waiting) and not self.paused)

    def add(self, request: GenerateRequest) -> None:
        """Queue a request.

        Raises:
            ValueError: the number of placeholders and of images differ, or the grammar is not this model's.
        """
        prompt = ExpandedPrompt.of(self.policy.format, request.prompt_ids, request.images)
        masks = self._mask_table(request.grammar, request.banned_ids)
        row = Row(request=request, prompt=prompt, masks=masks, max_length=self._max_length)
        (self._waiting if row.stop is None else self._ended).append(row)

    def abort(self, request_id: str) -> list[tuple[str, GenerateResult]]:
        """End a request with what it has; nothing when it is not here."""
        for row in (*self._waiting, *self._active):
            if row.request.request_id == request_id:
                row.stop = row.stop or "abort"
        self._ended += [row for row in self._waiting if row.stop is not None]
        self._waiting = deque(row for row in self._waiting if row.stop is None)
        return self._retire()

    def abort_active(self) -> list[tuple[str, GenerateResult]]:
        """End everything under way with what it has."""
        for row in self._active:
            row.stop = row.stop or "abort"
        return self._retire()

    def release(self, affinity: str) -> None:
        """Forget a trajectory's keys and values."""
        self._kept.take(affinity)

    def drop_all(self) -> None:
        """Forget every request and everything that was kept."""
        self._waiting.clear()
        self._active, self._ended, self._cache = [], [], None
        self.forget()

    def forget(self) -> None:
        """Forget everything that the weights, or where they are, were used for."""
        self._kept.clear()
        self._images.clear()
        with torch.no_grad():
            self._stacked = self._language.stack()

    def load(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """Serve other weights. Only while nothing is under way.

        Raises:
            ValueError: the version does not go up, or the tensors are not the model's.
        """
        assert not self._active, "weights change while a completion is under way"
        if version <= self.version:
            raise ValueError(f"weight version {version} does not go up from {self.version}")
        model = self.policy.model
        given = dict(tensors)
        if model.config.tie_word_embeddings:
            given.setdefault("lm_head.weight", given.get("model.language_model.embed_tokens.weight", torch.empty(0)))
        own = model.state_dict()
        wrong = [name for name in own.keys() | given.keys() if name not in own or name not in given]
        wrong += [name for name in own.keys() & given.keys() if own[name].shape != given[name].shape]
        if wrong:
            raise ValueError(f"these are not complete weights of this model: {', '.join(sorted(wrong)[:5])}")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(given[name])
        self.forget()
        self.version = version

    @torch.inference_mode()
    def step(self) -> list[tuple[str, GenerateResult]]:
        """Admit what waits, sample one token for each completion under way, and return those that ended."""
        joining = self._admit()
        if self._active:
            assert self._cache is not None
            self._sample(self._active, self._feed(self._active, self._cache))
        for rows in joining:
            self._join(rows)
        return self._retire()

    @torch.inference_mode()
    def score(self, request: ScoreRequest) -> ScoreResult:
        """Log-probabilities of given tokens, in one pass."""
        prompt = ExpandedPrompt.of(self.policy.format, request.prompt_ids, request.images)
        masks = self._mask_table(request.grammar, request.banned_ids)
        run = prompt.run(0, request.scored_ids)
        batch = embed(self._language, [run], self._images(prompt.images))
        rotary = self._language.rotary(batch.positions_3BL)
        hidden = self._language.forward(batch.x_BLD, rotary, self._stacked, deepstack=batch.deepstack)
        first = len(prompt.ids) - 1
        logits = self._language.logits(hidden[0, first : first + len(request.scored_ids)])
        logp = log_probs(logits, masks.table[masks.states(request.scored_ids)], request.temperature)
        top = logp.topk(request.top_k)
        return ScoreResult(
            logprobs=tuple(logp[range(len(logp)), list(request.scored_ids)].tolist()),
            top=tuple(
                tuple(zip(ids, values, strict=True))
                for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
            ),
            version=self.version,
        )

    def _admit(self) -> list[list[Row]]:
        """Take waiting rows, and group those that have about as much to compute."""
        taken: list[Row] = []
        while self._waiting and not self.paused and len(self._active) + len(taken) < self._max_batch:
            row = self._waiting.popleft()
            row.kept = self._kept.take(row.request.affinity)
            if row.kept is not None:
                # The last token is always computed: its output is what the first token is sampled from.
                row.fed = min(row.kept.shared(row.keys), len(row.ids) - 1)
            taken.append(row)
        taken.sort(key=lambda row: len(row.ids) - row.fed)
        groups: list[list[Row]] = []
        for row in taken:
            if groups and len(row.ids) - row.fed <= _UNEVEN * (len(groups[-1][0].ids) - groups[-1][0].fed):
                groups[-1].append(row)
            else:
                groups.append([row])
        return groups

    def _join(self, rows: list[Row]) -> None:
        """Compute the prompts of new rows, sample their first tokens and add them to the batch."""
        cache = Cache.empty(self._language, len(rows), max(len(row.ids) for row in rows) + _SPARE)
        for index, row in enumerate(rows):
            if row.kept is not None:
                cache.put(index, row.fed, row.kept.layers)
                row.kept = None
        self._sample(rows, self._feed(rows, cache))
        self._cache = cache if self._cache is None else Cache.joined([self._cache, cache], cache.room)
        self._active += rows

    def _feed(self, rows: Sequence[Row], cache: Cache) -> Tensor:
        """Compute each row's tokens that are not in the cache yet; return the last one's hidden state, [B, D]."""
        runs = [row.prompt.run(row.fed, row.sampled) for row in rows]
        images = self._images(image for row in rows for image in row.prompt.images_from(row.fed))
        batch = embed(self._language, runs, images)
        starts = torch.tensor([row.fed for row in rows], device=batch.x_BLD.device)
        span = max(row.fed for row in rows) + batch.x_BLD.shape[1]
        if span > cache.room:
            cache.layers = Cache.joined([cache], span + _SPARE).layers
        hidden = self._language.forward(
            batch.x_BLD,
            self._language.rotary(batch.positions_3BL),
            self._stacked,
            deepstack=batch.deepstack,
            cache=cache,
            starts=starts,
            span=span,
        )
        last = [len(run.ids) - 1 for run in runs]
        self.num_fed += sum(len(run.ids) for run in runs)
        for row in rows:
            row.fed = len(row.ids)
        return hidden[range(len(rows)), last]

    def _sample(self, rows: Sequence[Row], hidden: Tensor) -> None:
        logits = self._language.logits(hidden)
        for row, row_logits in zip(rows, logits, strict=True):
            request = row.request
            allowed = row.masks.table[row.state]
            logp = log_probs(row_logits, allowed, request.temperature)
            if request.temperature > 0:
                token = draw(logp, seed=request.seed, index=len(row.sampled))
            else:
                token = int(logp.argmax())
            row.append(token, float(logp[token]))

    def _retire(self) -> list[tuple[str, GenerateResult]]:
        """Take the rows that ended out of the batch and keep what was computed for them."""
        going = [index for index, row in enumerate(self._active) if row.stop is None]
        ended = [*self._ended, *(row for row in self._active if row.stop is not None)]
        if len(going) < len(self._active):
            assert self._cache is not None
            for index, row in enumerate(self._active):
                if row.stop is not None:
                    prefix = KeptPrefix(keys=row.all_keys()[: row.fed], layers=self._cache.prefix(index, row.fed))
                    self._kept.keep(row.request.affinity, prefix)
            self._cache = self._cache.rows(going) if going else None
            self._active = [self._active[index] for index in going]
        self._ended = []
        return [(row.request.request_id, row.result(self.version)) for row in ended]

    def _mask_table(self, grammar: str | None, banned_ids: tuple[int, ...]) -> MaskTable:
        key = (grammar, banned_ids)
        if key not in self._masks:
            own = self.policy.format.grammar
            if grammar is not None and (own is None or own.name != grammar):
                raise ValueError(f"this model has no grammar {grammar!r}; its own is {own.name if own else None!r}")
            self._masks[key] = MaskTable(len(self._language.embedding), own if grammar else None, banned_ids)
        return self._masks[key]
