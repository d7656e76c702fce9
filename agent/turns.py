"""The turns of one episode: look, let the policy write, do what it wrote, and so on until something ends it.

::

    look -> [ context -> reply -> parse -> act, settle, look ] ...
                                             `- also the next turn's observation: one round trip a turn

Guarantees:

* Every wait has a deadline. A desktop call in flight is not cut short when the episode's time is over, because its
  effect would be unknown; so the turns may run over by one step. Waits inside actions are cut to the time left.
* A policy that hangs has failed; it does not run out of time. Only a policy that says itself that it was still at work
  (`ReplyTimeout`) when the episode's own time was over ends it by `time_limit`. So an engine's failure is never graded.
* Each screenshot is stored before the policy sees it, and equal ones once.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import Protocol, TypeVar

from agent.agreement import await_agreement
from agent.context import Context
from agent.deadlines import clip_waits, step_deadline_s, within
from agent.errors import PolicyError, ReplyTimeout
from agent.harness import Harness
from agent.policy import Policy, PolicyReply, PolicyRequest
from agent.shown import observation_text, shown_frame
from agent.task import EpisodeTask
from sandbox.actions import Action, action_json, is_terminal
from sandbox.desktop import Desktop, Observation, StepResult, Want
from sandbox.dialects import ParsedTurn, View, get_dialect
from sandbox.errors import DeadlineExceeded, DesktopError
from sandbox.frame import Frame
from store.trajectory import StopReason, Turn

__all__ = ["BlobSink", "TurnLoop", "turn_seed"]

T = TypeVar("T")

GRACE_S = 1.0
"""How long after its deadline a call that should have kept it is given up."""
_ENDINGS: dict[str, StopReason] = {"done": "done", "infeasible": "infeasible", "answer": "answer"}


class BlobSink(Protocol):
    """Where screenshots and evidence go; `store.BlobStore` is one."""

    def put(self, data: bytes) -> str:
        """Keep the bytes and return their sha256."""
        ...


def turn_seed(seed_sampling: int, index: int) -> int:
    """A turn's own sampling seed, 31 bits: endpoints take no more."""
    digest = hashlib.blake2b(f"{seed_sampling}:{index}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


class TurnLoop:
    """Runs the turns and holds what happened, also when it is left by an exception.

    Args:
        desktop: in the task's start state.
        trajectory_id: the policy's affinity key, and the start of every step's request id.
        seed_sampling: every turn's seed is drawn from it.
    """

    def __init__(
        self,
        desktop: Desktop,
        task: EpisodeTask,
        harness: Harness,
        policy: Policy,
        *,
        blobs: BlobSink,
        trajectory_id: str,
        seed_sampling: int,
    ) -> None:
        self.turns: list[Turn] = []
        """Every turn that the policy answered."""
        self.versions: list[int] = []
        """Weight version of each turn's reply."""
        self.final_action: Action | None = None
        """How the policy ended it, if it did."""
        self.last_frame: str | None = None
        """sha256 of the newest screenshot."""
        self._desktop = desktop
        self._instruction = task.instruction
        self._harness = harness
        self._policy = policy
        self._blobs = blobs
        self._trajectory_id = trajectory_id
        self._seed_sampling = seed_sampling
        limits = harness.limits
        self._max_steps = min(task.max_steps, limits.max_steps or task.max_steps)
        self._time_limit_s = min(task.time_limit_s, limits.time_limit_s or task.time_limit_s)
        self._end = 0.0
        self._want: tuple[Want, ...] = tuple(dict.fromkeys((*harness.observe, *policy.wants)))
        self._dialect = get_dialect(harness.dialect)
        self._context = Context(window=harness.window, delta=harness.delta)
        self._feedback: list[str] = []
        self._num_unreadable = 0
        self._stored: set[str] = set()

    async def run(self) -> StopReason:
        """Turn after turn until something ends it.

        Raises:
            agent.errors.PolicyError: the policy failed.
            sandbox.errors.DesktopError: the desktop failed.
        """
        if "a11y" in self._want:
            await self._within(step_deadline_s(()), await_agreement(self._desktop))
        observation, _ = await self._step((), name="look")
        self._end = time.monotonic() + self._time_limit_s
        for index in range(self._max_steps):
            if self._left_s <= 0:
                return "time_limit"
            view = self._open_turn(observation)
            begun = time.perf_counter()
            reply = await self._reply(observation, view, index)
            if not isinstance(reply, PolicyReply):
                return reply
            observation = await self._take_turn(observation, view, reply, policy_s=time.perf_counter() - begun)
            if self.final_action is not None:
                return _ENDINGS[self.final_action.kind]
            if self._num_unreadable == self._harness.limits.max_parse_errors:
                return "parse_errors"
        return "max_steps"

    @property
    def _left_s(self) -> float:
        return self._end - time.monotonic()

    def _open_turn(self, observation: Observation) -> View:
        frame = _frame_of(observation)
        shown = shown_frame(frame, self._harness.max_side)
        view = View(screen=(frame.width, frame.height), shown=(shown.width, shown.height))
        seen = observation_text(observation, self._harness.observe, view.shown)
        self._context.observe(shown, "\n".join(part for part in (*self._feedback, seen) if part))
        return view

    async def _reply(self, observation: Observation, view: View, index: int) -> PolicyReply | StopReason:
        reply_limit_s = self._harness.limits.reply_limit_s
        deadline_s = min(self._left_s, reply_limit_s)
        width, height = view.shown
        request = PolicyRequest(
            trajectory_id=self._trajectory_id,
            instruction=self._instruction,
            system_prompt=self._harness.prompt(
                fragment=self._dialect.system_prompt_fragment(view), width=width, height=height
            ),
            turns=self._context.turns,
            placeholder=self._harness.placeholder,
            dialect=self._dialect.name,
            observation=observation,
            seed=turn_seed(self._seed_sampling, index),
            temperature=self._harness.sampling.temperature,
            max_tokens=self._harness.limits.max_tokens,
            deadline_s=deadline_s,
        )
        hangs = PolicyError(
            f"{self._policy.name} hangs: no reply {GRACE_S:g} s after its deadline of {deadline_s:.1f} s"
        )
        try:
            reply = await within(deadline_s + GRACE_S, self._policy.reply(request), hangs)
        except ReplyTimeout:
            if deadline_s < reply_limit_s:
                return "time_limit"
            raise
        return "token_limit" if reply.overflow else reply

    async def _take_turn(
        self, observation: Observation, view: View, reply: PolicyReply, *, policy_s: float
    ) -> Observation:
        """Do what the reply says, record the turn, and return what is on the screen then."""
        begun = time.perf_counter()
        text = _storable(reply.text)
        parsed = self._dialect.parse(text, view)
        parsed_at = time.perf_counter()
        *body, last = parsed.actions or (None,)
        ending = last if last is not None and is_terminal(last) else None
        actions = clip_waits(parsed.actions if ending is None else tuple(body), self._left_s)
        errors: tuple[str, ...] = ()
        changed = None
        after = observation
        if actions or parsed.error is not None:
            after, step = await self._step(actions, name=str(len(self.turns)))
            errors = tuple(
                f"{action.kind}: {result.error}"
                for action, result in zip(actions, step.actions, strict=False)
                if not result.ok
            )
            changed = step.settle.changed if actions else None
        told = self._feedback_on(parsed, reply)
        # An action that was refused stops those after it, also the one that would have ended the episode.
        self.final_action = None if errors else ending
        self._num_unreadable = 0 if parsed.error is None else self._num_unreadable + 1
        self._feedback = (
            [told] if told else [self._dialect.render_result(each, parsed.tool_call_ids) for each in errors]
        )
        self.turns.append(
            Turn(
                index=len(self.turns),
                frame=_frame_of(observation).sha256,
                cursor=observation.cursor,
                visible=self._context.visible,
                raw=text,
                thought=parsed.thought,
                actions=tuple(action_json(action) for action in parsed.actions),
                parse_error=told or None,
                action_errors=errors,
                changed=changed,
                timings_ms={
                    "policy": 1000 * policy_s,
                    "parse": 1000 * (parsed_at - begun),
                    "step": 1000 * (time.perf_counter() - parsed_at),
                },
                facts=_facts(observation),
                tokens=reply.tokens,
            )
        )
        self.versions.append(reply.version)
        self._context.answer(text)
        return after

    def _feedback_on(self, parsed: ParsedTurn, reply: PolicyReply) -> str:
        if parsed.error is None:
            return ""
        error = parsed.error
        if reply.truncated:
            cut_off = f"It was cut off at {self._harness.limits.max_tokens} tokens; be brief."
            error = replace(error, message=f"{error.message} {cut_off}")
        return self._dialect.render_result(error, parsed.tool_call_ids)

    async def _step(self, actions: tuple[Action, ...], *, name: str) -> tuple[Observation, StepResult]:
        """Act, settle, look, and keep the screenshot."""
        deadline_s = step_deadline_s(actions)
        work = self._desktop.step(
            actions,
            settle=self._harness.settle.settle(),
            want=self._want,
            request_id=f"{self._trajectory_id}:{name}",
            deadline_s=deadline_s,
        )
        step = await self._within(deadline_s, work)
        frame = _frame_of(step.observation)
        if frame.sha256 not in self._stored:
            stored = await asyncio.to_thread(self._blobs.put, frame.encode())
            assert stored == frame.sha256, "the blob store names blobs by another hash than frames"
            self._stored.add(stored)
        self.last_frame = frame.sha256
        return step.observation, step

    async def _within(self, deadline_s: float, work: Awaitable[T]) -> T:
        """Wait for the desktop, a little longer than its own deadline."""
        late = DeadlineExceeded(f"the desktop did not answer {GRACE_S:g} s after the deadline of {deadline_s:.1f} s")
        return await within(deadline_s + GRACE_S, work, late)


def _frame_of(observation: Observation) -> Frame:
    if observation.frame is None:
        raise DesktopError("the desktop gave no screenshot")
    return observation.frame


def _facts(observation: Observation) -> dict[str, str | float]:
    """The desktop's clock, and the active window's title where windows were observed."""
    active = next((window for window in observation.windows or () if window.active), None)
    return {"clock_s": observation.clock_s} | ({} if active is None else {"active_window": active.title})


def _storable(text: str) -> str:
    """The text without lone surrogates, which no file and no tokeniser takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
