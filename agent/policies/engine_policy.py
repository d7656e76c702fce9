"""A policy whose replies a `PolicyEngine` samples, with every token on record.

It keeps each trajectory's context as ids that only grow (`TokenStream`), so the engine's cache holds from turn to turn
and a segment of turns is exactly one training sequence. Where the context cannot grow (screenshots were dropped) a new
segment is opened and counted.
"""

from __future__ import annotations

from collections import OrderedDict

from agent.engines.protocol import GenerateRequest, GenerateResult, ImageRef, PolicyEngine
from agent.engines.tokens import PolicyFormat, TokenStream
from agent.errors import PolicyError
from agent.policy import PolicyReply, PolicyRequest
from sandbox.desktop import Want
from store.trajectory import TokenTrace

__all__ = ["EnginePolicy"]


class EnginePolicy:
    """Samples replies from an engine.

    Args:
        engine: closed by its owner, not by this policy: many policies may share one.
        form: of the engine's model.
        name: the actor's name on trajectories.
        hash: identifies the run whose weights the engine serves; the version says which of them.
        max_trajectories: whose contexts are kept; one that was dropped is continued in a new segment.
    """

    wants: tuple[Want, ...] = ()

    def __init__(
        self, engine: PolicyEngine, form: PolicyFormat, *, name: str, hash: str, max_trajectories: int = 256
    ) -> None:
        self.name = name
        self.hash = hash
        self.segments = 0
        """Contexts that were begun anew: one for each trajectory, and one more wherever a context could not grow."""
        self._engine = engine
        self._format = form
        self._max_trajectories = max_trajectories
        self._streams: OrderedDict[str, TokenStream] = OrderedDict()

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """Sample this turn's reply.

        Raises:
            agent.errors.PolicyError: the engine failed, or stopped for another reason than the policy's own.
        """
        stream = await self._stream(request)
        prompt = stream.prompt(request.turns)
        self.segments += prompt.anew
        turn = request.turns[-1].index
        try:
            result = await self._engine.generate(
                GenerateRequest(
                    request_id=f"{request.trajectory_id}:{turn}",
                    affinity=request.trajectory_id,
                    prompt_ids=prompt.ids,
                    images=tuple(
                        ImageRef(sha256=frame.sha256, width=frame.width, height=frame.height, pixels=frame.pixels)
                        for frame in prompt.frames
                    ),
                    max_tokens=request.max_tokens,
                    temperature=request.temperature,
                    seed=request.seed,
                    stop_ids=self._format.stop_ids,
                    banned_ids=self._format.banned_ids,
                    grammar=None if self._format.grammar is None else self._format.grammar.name,
                    deadline_s=request.deadline_s,
                )
            )
        except ValueError as error:
            raise PolicyError(f"the engine refused the request: {error}") from error
        if result.stop_reason == "overflow":
            return PolicyReply(text="", overflow=True, version=self._engine.version)
        if result.stop_reason == "abort":
            raise PolicyError("the engine ended the reply before it was complete")
        stream.record(turn, result.sampled_ids)
        return PolicyReply(
            text=self._format.decode_reply(result.sampled_ids),
            tokens=self._trace(prompt.ids, result),
            truncated=result.stop_reason == "length",
            version=result.versions[0].version,
        )

    async def finish(self, trajectory_id: str) -> None:
        """Forget an episode that is over, here and in the engine. Idempotent."""
        self._streams.pop(trajectory_id, None)
        await self._engine.release(trajectory_id)

    async def close(self) -> None:
        """Forget all episodes."""
        for trajectory_id in list(self._streams):
            await self.finish(trajectory_id)

    async def _stream(self, request: PolicyRequest) -> TokenStream:
        if request.trajectory_id not in self._streams:
            self._streams[request.trajectory_id] = TokenStream(
                self._format,
                system_prompt=request.system_prompt,
                instruction=request.instruction,
                placeholder=request.placeholder,
            )
        self._streams.move_to_end(request.trajectory_id)
        while len(self._streams) > self._max_trajectories:
            await self.finish(next(iter(self._streams)))
        return self._streams[request.trajectory_id]

    def _trace(self, sent_ids: tuple[int, ...], result: GenerateResult) -> TokenTrace:
        sampled = result.sampled_ids
        grammar = self._format.grammar
        forced = [False] * len(sampled)
        if grammar is not None:
            forced = [grammar.forced(state) is not None for state in grammar.states(sampled)]
        return TokenTrace(
            sent_ids=sent_ids,
            prompt_ids=result.prompt_ids,
            sampled_ids=sampled,
            logprobs=result.logprobs,
            sampled_mask=tuple(not each for each in forced),
            action_mask=tuple(self._format.action_mask(sampled)),
            version_span=(result.versions[0].version, result.versions[-1].version),
        )
