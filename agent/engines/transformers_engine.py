"""The policy engine that runs a Qwen3-VL model in this process, on one thread of its own.

::

    generate() --job--> [ thread: jobs, then one step for all completions under way, then again ] --result--> generate()

The event loop never waits for a tensor: everything that touches the model is a job of the thread, in the order in which
it was asked for. If a step raises, every request under way fails with that cause and the engine goes on with the next.

Importing this module imports torch and transformers.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import torch
from safetensors.torch import load_file

from agent.deadlines import within
from agent.engines.protocol import (
    DirectoryWeights,
    GenerateRequest,
    GenerateResult,
    PauseMode,
    ScoreRequest,
    ScoreResult,
    TensorWeights,
    Weights,
)
from agent.engines.qwen3vl.checkpoint import PolicyModel
from agent.engines.qwen3vl.runner import Runner
from agent.errors import PolicyError, ReplyTimeout

__all__ = ["TransformersEngine"]

T = TypeVar("T")


class TransformersEngine:
    """A `PolicyEngine` over a model in this process.

    Args:
        policy: from `build_tiny` or `load_policy`; the engine changes its weights.
        version: of those weights.
        max_batch: completions under way at once. 1 makes every result independent of what else runs, to the bit.
        max_length: tokens that a prompt and its completion may have together.
        num_threads: of torch, while this engine computes. More than one stalls wherever cores are shared.
        device: where the model runs.
    """

    def __init__(
        self,
        policy: PolicyModel,
        *,
        version: int = 0,
        max_batch: int = 16,
        max_length: int = 4096,
        num_threads: int = 1,
        device: str = "cpu",
    ) -> None:
        policy.model.to(device)
        self._policy = policy
        self._device = device
        self._num_threads = num_threads
        self._runner = Runner(policy, version=version, max_batch=max_batch, max_length=max_length)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._futures: dict[str, Future[GenerateResult]] = {}
        self._idle: list[Future[None]] = []
        self._thread = threading.Thread(target=self._work, name="policy-engine", daemon=True)
        self._closed = False
        self._thread.start()

    @property
    def version(self) -> int:
        """Weight version that serves now."""
        return self._runner.version

    @property
    def num_fed(self) -> int:
        """Tokens computed so far; what the caches save does not count."""
        return self._runner.num_fed

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        """Sample one completion.

        Raises:
            ValueError: the number of placeholders and of images differ, or the request cannot be run.
            ReplyTimeout: its deadline passed first.
            PolicyError: the model failed, or the engine is closed.
        """
        future: Future[GenerateResult] = Future()

        def start() -> None:
            if request.request_id in self._futures:
                raise ValueError(f"request {request.request_id!r} is under way already")
            self._runner.add(request)
            self._futures[request.request_id] = future

        await self._call(start)
        late = ReplyTimeout(f"no reply after {request.deadline_s:g} s")
        try:
            return await within(request.deadline_s, asyncio.wrap_future(future), late)
        finally:
            if not future.done() or future.cancelled():
                await self.abort(request.request_id)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[ScoreResult]:
        """Log-probabilities of given tokens, in the order of the requests."""
        return [await self._call(lambda request=request: self._runner.score(request)) for request in requests]  # type: ignore[misc]

    async def abort(self, request_id: str) -> None:
        """End a request; its `generate` returns what was sampled so far."""
        await self._call(lambda: self._deliver(self._runner.abort(request_id)))

    async def release(self, affinity: str) -> None:
        """Forget what is cached for a trajectory."""
        await self._call(lambda: self._runner.release(affinity))

    async def pause(self, mode: PauseMode = "finish") -> None:
        """Start no further request; return once none is in flight."""
        idle: Future[None] = Future()

        def pause() -> None:
            self._runner.paused = True
            if mode == "abort":
                self._deliver(self._runner.abort_active())
            self._idle.append(idle)
            self._tell_idle()

        await self._call(pause)
        await asyncio.wrap_future(idle)

    async def load_weights(self, weights: Weights, *, version: int) -> None:
        """Serve these weights from now on. Only while paused.

        Raises:
            ValueError: the engine is not paused, the version does not go up, the weights are not complete, or they
                come in a way that this engine does not take.
        """
        await self._call(lambda: self._load(weights, version))

    async def resume(self) -> None:
        """Start requests again."""

        def resume() -> None:
            self._runner.paused = False

        await self._call(resume)

    async def sleep(self) -> None:
        """Forget what is cached and move the weights to the host's memory. Only while nothing is in flight."""
        await self._call(lambda: self._move("cpu"))

    async def wake(self) -> None:
        """Take the weights back to the device."""
        await self._call(lambda: self._move(self._device))

    async def close(self) -> None:
        """End the thread; what is under way fails. Idempotent."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)

    async def _call(self, work: Callable[[], T]) -> T:
        """Run something on the engine's thread."""
        if self._closed:
            raise PolicyError("the engine is closed")
        done: Future[T] = Future()

        def job() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - the caller gets it
                done.set_exception(error)

        self._jobs.put(job)
        return await asyncio.wrap_future(done)

    def _work(self) -> None:
        torch.set_num_threads(self._num_threads)
        while True:
            while not self._runner.has_work or not self._jobs.empty():
                job = self._jobs.get()
                if job is None:
                    self._fail(PolicyError("the engine was closed"))
                    return
                job()
            try:
                self._deliver(self._runner.step())
            except Exception as error:  # noqa: BLE001 - whatever the model raises, no request may wait for ever
                self._runner.drop_all()
                failure = PolicyError(f"the model failed: {error}")
                failure.__cause__ = error
                self._fail(failure)
            self._tell_idle()

    def _deliver(self, results: Sequence[tuple[str, GenerateResult]]) -> None:
        for request_id, result in results:
            future = self._futures.pop(request_id)
            if future.set_running_or_notify_cancel():
                future.set_result(result)

    def _fail(self, error: Exception) -> None:
        for future in self._futures.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
        self._futures.clear()

    def _tell_idle(self) -> None:
        if self._runner.num_active == 0:
            for future in self._idle:
                if future.set_running_or_notify_cancel():
                    future.set_result(None)
            self._idle.clear()

    def _load(self, weights: Weights, version: int) -> None:
        if not self._runner.paused:
            raise ValueError("pause the engine before its weights change")
        tensors: Mapping[str, torch.Tensor]
        match weights:
            case DirectoryWeights():
                tensors = {}
                for file in sorted(weights.path.glob("model*.safetensors")):
                    tensors |= load_file(file)
            case TensorWeights():
                tensors = weights.tensors
            case _:
                raise ValueError(
                    f"this engine takes weights from a directory or as tensors, not {type(weights).__name__}"
                )
        self._runner.load(tensors, version)

    def _move(self, device: str) -> None:
        if self._runner.num_active:
            raise ValueError("completions are under way; pause the engine first")
        self._runner.forget()
        self._policy.model.to(device)
