"""The policy engine in a process of its own, behind the protocol that it has in this one.

Torch steps of the engine then stall neither a desktop's deadline nor the learner, and requests that arrive while a step
runs are batched with the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.engines.protocol import (
    GenerateRequest,
    GenerateResult,
    PauseMode,
    PolicyEngine,
    ScoreRequest,
    ScoreResult,
    Weights,
)
from agent.errors import PolicyError
from trainer.child import Child
from trainer.errors import ChildDied

__all__ = ["MAX_BATCH", "ProcessEngine", "start_engine"]

MAX_BATCH = 16
"""Completions under way at once."""


class ProcessEngine:
    """A `PolicyEngine` whose work is done by a child process.

    Args:
        child: started; serves an engine.
        version: of the weights that it serves.
    """

    def __init__(self, child: Child, *, version: int) -> None:
        self.child = child
        self._version = version

    @property
    def version(self) -> int:
        """Weight version that serves now."""
        return self._version

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        """Sample one completion.

        Raises:
            ValueError: the request cannot be run.
            PolicyError: the engine failed, or its process is gone.
        """
        try:
            result: GenerateResult = await self.child.call("generate", request)
        except ChildDied as error:
            raise PolicyError(str(error)) from error
        return result

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """Log-probabilities of given tokens, in the order of the requests."""
        scores: list[ScoreResult] = await self.child.call("score", list(requests))
        return scores

    async def abort(self, request_id: str) -> None:
        """End a request. Idempotent."""
        await self.child.call("abort", request_id)

    async def release(self, affinity: str) -> None:
        """Forget what is cached for a trajectory. Idempotent."""
        await self.child.call("release", affinity)

    async def pause(self, mode: PauseMode = "finish") -> None:
        """Start no further request; return once none is in flight."""
        await self.child.call("pause", mode)

    async def load_weights(self, weights: Weights, *, version: int) -> None:
        """Serve these weights from now on. Only while paused."""
        await self.child.call("load", weights, version)
        self._version = version

    async def resume(self) -> None:
        """Start requests again."""
        await self.child.call("resume")

    async def sleep(self) -> None:
        """Release memory. Only while nothing is in flight."""
        await self.child.call("sleep")

    async def wake(self) -> None:
        """Take the memory back."""
        await self.child.call("wake")

    async def close(self) -> None:
        """End the process. Idempotent."""
        await self.child.close()


async def start_engine(directory: Path, *, version: int = 0, max_batch: int = MAX_BATCH) -> ProcessEngine:
    """Start a process that serves the policy of a directory.

    Args:
        version: of its weights.
        max_batch: completions under way at once; 1 makes each independent of the others, to the bit.

    Raises:
        ValueError: the directory holds no policy.
        ChildDied: the process ended at once.
    """
    child = Child("engine", _EngineService, directory, version, max_batch)
    await child.start()
    return ProcessEngine(child, version=version)


class _EngineService:
    """What runs in the process."""

    def __init__(self, directory: Path, version: int, max_batch: int) -> None:
        import torch

        from agent.engines.qwen3vl.checkpoint import load_policy
        from agent.engines.transformers_engine import TransformersEngine

        torch.set_num_threads(1)
        engine: PolicyEngine = TransformersEngine(load_policy(directory), version=version, max_batch=max_batch)
        self._engine = engine
        self.generate = engine.generate
        self.score = engine.score
        self.abort = engine.abort
        self.release = engine.release
        self.pause = engine.pause
        self.resume = engine.resume
        self.sleep = engine.sleep
        self.wake = engine.wake
        self.close = engine.close

    async def load(self, weights: Weights, version: int) -> None:
        await self._engine.load_weights(weights, version=version)
