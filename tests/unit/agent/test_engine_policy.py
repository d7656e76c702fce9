"""The policy over an engine: prompts that only grow, segments that are counted, and what it records. No model here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent.engines.protocol import EngineStop, GenerateRequest, GenerateResult, VersionSpan
from agent.engines.tokens import CompactFormat, ImagePlan, Vocabulary, expand_ids
from agent.errors import PolicyError
from agent.policies.engine_policy import EnginePolicy
from tests.support.rollouts import play
from tests.support.screen import make_frame

FORM = CompactFormat(Vocabulary(width=96, height=64, words=("Save", "Open", "Click", "it")), ImagePlan())
FRAMES = [make_frame(shade, width=96, height=64) for shade in range(9)]


class FakeEngine:
    """Answers with scripted replies and records what it was asked."""

    version = 7

    def __init__(self, replies: Sequence[str] = (), *, stop: EngineStop = "stop", cut: int | None = None) -> None:
        self.requests: list[GenerateRequest] = []
        self.released: list[str] = []
        self._replies = replies
        self._stop = stop
        self._cut = cut

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        self.requests.append(request)
        text = self._replies[(len(self.requests) - 1) % len(self._replies)] if self._replies else "# Save\nclick 3 4"
        sampled = tuple(FORM.encode_reply(text)[: self._cut]) if self._stop != "overflow" else ()
        lengths = [FORM.images.num_tokens(image.width, image.height) for image in request.images]
        return GenerateResult(
            prompt_ids=tuple(expand_ids(request.prompt_ids, FORM.image_id, lengths)[0]),
            placeholders=(),
            sampled_ids=sampled,
            logprobs=(-0.5,) * len(sampled),
            versions=(VersionSpan(version=7, start=0, stop=len(sampled)),) if sampled else (),
            stop_reason=self._stop,
        )

    async def release(self, affinity: str) -> None:
        self.released.append(affinity)


def make_policy(engine: Any, **options: Any) -> EnginePolicy:
    return EnginePolicy(engine, FORM, name="tiny", hash="h", **options)


async def test_prompts_grow_until_screenshots_are_dropped() -> None:
    engine = FakeEngine(["# Save\nclick 3 4", "press ctrl+s", "done"])
    policy = make_policy(engine)
    trajectory = await play(policy, FRAMES, window=3, delta=2, feedback="not there")
    anew = []
    for before, after in zip(trajectory.turns, trajectory.turns[1:], strict=False):
        assert before.tokens is not None
        assert after.tokens is not None
        whole = before.tokens.sent_ids + before.tokens.sampled_ids
        if after.tokens.sent_ids[: len(whole)] != whole:
            anew.append(after.index)
        assert len(engine.requests[after.index].images) == len(after.visible)
    assert anew == [3, 5, 7]
    assert policy.segments == 4
    # What was sampled stays as it was sampled, also behind a prune.
    last = trajectory.turns[-1].tokens
    assert last is not None
    for turn in trajectory.turns[:-1]:
        assert turn.tokens is not None
        assert " ".join(map(str, turn.tokens.sampled_ids)) in " ".join(map(str, last.sent_ids))
    dropped = FORM.vocabulary.special("<|dropped|>")
    assert last.sent_ids.count(dropped) == 6
    assert last.sent_ids.count(FORM.image_id) == 3


async def test_the_reply_is_text_with_its_tokens() -> None:
    engine = FakeEngine(["# Save\nclick 3 4"])
    trajectory = await play(make_policy(engine), FRAMES[:1], window=3, delta=2, temperature=0.7, seed=5)
    turn = trajectory.turns[0]
    trace = turn.tokens
    assert turn.raw == "# Save\nclick 2 6"
    assert trace is not None
    assert trace.sampled_mask == (True, True, True, True, False)  # the grammar leaves no choice but to end
    assert trace.action_mask == (True, False, True, True, True)
    assert trace.version_span == (7, 7)
    (asked,) = engine.requests
    assert (asked.affinity, asked.temperature, asked.seed, asked.grammar) == ("t", 0.7, 5000, "compact")
    assert FORM.image_id in asked.banned_ids
    assert asked.stop_ids == FORM.stop_ids


async def test_a_reply_that_was_cut_off_is_closed_in_the_next_prompt() -> None:
    engine = FakeEngine(stop="length", cut=2)
    policy = make_policy(engine)
    trajectory = await play(policy, FRAMES[:2], window=3, delta=2)
    first, second = (turn.tokens for turn in trajectory.turns)
    assert first is not None
    assert second is not None
    whole = first.sent_ids + first.sampled_ids
    assert second.sent_ids[: len(whole) + 1] == (*whole, *FORM.stop_ids)
    assert trajectory.turns[0].raw == "# Save\nclick"


async def test_a_forgotten_trajectory_goes_on_in_a_new_segment() -> None:
    engine = FakeEngine(["# Save\nclick 2 6"])
    policy = make_policy(engine, max_trajectories=1)
    context_frames = FRAMES[:3]
    await play(policy, context_frames, window=3, delta=2, trajectory_id="a")
    await play(policy, context_frames, window=3, delta=2, trajectory_id="b")
    assert engine.released == ["a"]
    assert policy.segments == 2
    await policy.close()
    assert engine.released == ["a", "b"]


async def test_what_the_engine_cannot_do_is_told_as_it_is() -> None:
    overflow = FakeEngine(stop="overflow")
    trajectory = await play(make_policy(overflow), FRAMES[:1], window=3, delta=2)
    assert trajectory.turns[0].tokens is None
    with pytest.raises(PolicyError, match="before it was complete"):
        await play(make_policy(FakeEngine(stop="abort")), FRAMES[:1], window=3, delta=2)

    class Refusing(FakeEngine):
        async def generate(self, request: GenerateRequest) -> GenerateResult:
            raise ValueError("no")

    with pytest.raises(PolicyError, match="refused the request: no"):
        await play(make_policy(Refusing()), FRAMES[:1], window=3, delta=2)
