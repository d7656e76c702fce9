"""What a policy engine is: it samples from weights that a trainer changes, and says exactly what it did.

An engine is given token ids, never text, so nothing is ever re-tokenised. A prompt is *compact*: one placeholder id per
image, with the images listed in order. The engine expands each placeholder to the image's own number of tokens and
returns the ids it saw; feeding those expanded ids back as a prompt would expand them again, so callers keep both.

::

    running --pause--> paused --load_weights--> paused --resume--> running     (version goes up by the load)
    running --sleep--> asleep (memory released) --wake--> running

Guarantees that every implementation keeps, each with a parity test against the trainer:

* `logprobs` belong to the distribution that was sampled from: temperature and banned tokens applied.
* Every sampled token's log-probability is reproducible under the weight version that its span names. So a load clears
  the prefix, image and encoder caches.
* No request starts between `pause` and `resume`; those in flight finish first, or are aborted with what they have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

__all__ = [
    "AdapterWeights",
    "DirectoryWeights",
    "EngineStop",
    "GenerateRequest",
    "GenerateResult",
    "ImageRef",
    "PauseMode",
    "PlaceholderSpan",
    "PolicyEngine",
    "ScoreRequest",
    "ScoreResult",
    "TensorWeights",
    "TransferWeights",
    "VersionSpan",
    "Weights",
]

EngineStop = Literal["stop", "length", "abort", "overflow"]
"""A stop token; `max_tokens`; aborted with what was sampled so far; the prompt leaves no room, nothing was sampled."""
PauseMode = Literal["finish", "abort"]
"""Let requests in flight finish, or end them with what they have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRef:
    """An image of a prompt, by content."""

    sha256: str
    """Hash of its canonical bytes (`Frame.sha256`); the engine's cache key."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    pixels: bytes
    """[height * width * 3] RGB, rows from the top."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceholderSpan:
    """Where one image's tokens lie in the expanded prompt."""

    image: int
    """Index into the request's images."""
    start: int
    """First position in the expanded prompt."""
    length: int
    """Tokens of the image."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionSpan:
    """A run of sampled tokens that one weight version sampled."""

    version: int
    start: int
    """Index of its first sampled token."""
    stop: int
    """Index after its last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateRequest:
    """One completion to sample."""

    request_id: str
    """Names it for `abort`."""
    affinity: str
    """The trajectory; requests of one go to the engine that holds its cache."""
    prompt_ids: tuple[int, ...]
    """[P] Compact: one placeholder id per image."""
    images: tuple[ImageRef, ...]
    """In the order of their placeholders; as many as there are placeholders, or the engine refuses."""
    max_tokens: int
    temperature: float
    """0 is greedy; log-probabilities are then those at temperature 1."""
    seed: int
    """Same seed, prompt and version: same tokens, on one engine of one build."""
    stop_ids: tuple[int, ...]
    banned_ids: tuple[int, ...] = ()
    """Never sampled, and left out of the distribution that `logprobs` belong to. Image tokens always belong here."""
    grammar: str | None = None
    """Name of the model's own grammar, which then restricts every token; one that it forces has log-probability 0."""
    deadline_s: float = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateResult:
    """What was sampled, and from what."""

    prompt_ids: tuple[int, ...]
    """[Q] The prompt as the engine saw it, placeholders expanded."""
    placeholders: tuple[PlaceholderSpan, ...]
    """One per image, in order."""
    sampled_ids: tuple[int, ...]
    """[S] The stop token included."""
    logprobs: tuple[float, ...]
    """[S] Under the distribution that was sampled from."""
    versions: tuple[VersionSpan, ...]
    """Cover range(S) in order, without a gap."""
    stop_reason: EngineStop


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreRequest:
    """Given tokens whose log-probabilities are wanted."""

    prompt_ids: tuple[int, ...]
    """[P] Compact."""
    images: tuple[ImageRef, ...]
    scored_ids: tuple[int, ...]
    """[S] Tokens that follow the prompt."""
    temperature: float = 1.0
    banned_ids: tuple[int, ...] = ()
    grammar: str | None = None
    """As in the request that sampled them."""
    top_k: int = 0
    """How many of the likeliest tokens to return at each position."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreResult:
    """Log-probabilities of given tokens."""

    logprobs: tuple[float, ...]
    """[S] Of the scored tokens."""
    top: tuple[tuple[tuple[int, float], ...], ...]
    """[S][top_k] Likeliest ids with their log-probabilities, likeliest first."""
    version: int
    """Weight version that scored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryWeights:
    """Weights as a complete model directory."""

    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterWeights:
    """A LoRA adapter on the base weights."""

    path: Path
    name: str
    """Never used twice by one engine: engines cache adapters by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorWeights:
    """Weights in memory, for an engine in the learner's process."""

    tensors: Mapping[str, Any]
    """torch.Tensor by parameter name, complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferWeights:
    """Weights broadcast by the learner over a process group that both have joined."""

    group: str
    names: tuple[str, ...]
    """Parameters in the order in which they are sent."""


Weights = DirectoryWeights | AdapterWeights | TensorWeights | TransferWeights


class PolicyEngine(Protocol):
    """Samples from weights that a trainer changes. Every method may raise `agent.errors.PolicyError`."""

    @property
    def version(self) -> int:
        """Weight version that serves now."""
        ...

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        """Sample one completion.

        Raises:
            ValueError: the number of placeholders and of images differ.
        """
        ...

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """Log-probabilities of given tokens, in the order of the requests."""
        ...

    async def abort(self, request_id: str) -> None:
        """End a request; its `generate` returns what was sampled so far with stop reason `abort`. Idempotent."""
        ...

    async def release(self, affinity: str) -> None:
        """Forget what is cached for a trajectory. Idempotent."""
        ...

    async def pause(self, mode: PauseMode = "finish") -> None:
        """Start no further request; return once none is in flight."""
        ...

    async def load_weights(self, weights: Weights, *, version: int) -> None:
        """Serve these weights from now on and clear every cache that depends on them. Only while paused.

        Args:
            version: higher than every version before.

        Raises:
            ValueError: the version does not go up, or the weights are not complete.
        """
        ...

    async def resume(self) -> None:
        """Start requests again."""
        ...

    async def sleep(self) -> None:
        """Release the accelerator's memory. Only while nothing is in flight."""
        ...

    async def wake(self) -> None:
        """Take the memory back; the weights are those of before."""
        ...

    async def close(self) -> None:
        """Release everything. Idempotent."""
        ...
