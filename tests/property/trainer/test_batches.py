"""Every sampled token of a trajectory is trained exactly once, behind exactly what it was sampled behind.

Those of a reply that was no action are never trained.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from agent.context import Context
from agent.engines.tokens import CompactFormat, ImagePlan, TokenStream, Vocabulary, expand_ids
from store.trajectory import TokenTrace, Trajectory, Turn
from tests.support.screen import make_frame
from tests.support.trajectories import make_trajectory
from trainer.batches import TrainingSequence, micro_batches, training_sequences
from trainer.objectives import GrpoObjective

FORM = CompactFormat(Vocabulary(width=96, height=64, words=("Save", "Open")), ImagePlan())
FRAMES = {
    frame.sha256: frame
    for frame in (make_frame(shade, width=32 * (1 + shade % 3), height=32 * (1 + shade % 2)) for shade in range(40))
}
NAMES = list(FRAMES)
TEXTS = ("# Save\nclick 3 4", "done", "press ctrl+s", "type ab\\c")
SPELLED = [FORM.vocabulary.byte(value) for value in b"Save"] + FORM.encode_reply("done")
"""A reply that would get other ids if it were made from its text again."""


def sampled_trajectory(
    seed: int, num_turns: int, window: int, delta: int, lost: frozenset[int], *, unreadable: float = 0.0
) -> Trajectory:
    """A trajectory as an engine policy records it; its stream is lost before some turns and begun anew.

    Args:
        unreadable: share of the replies that were no action.
    """
    rng = random.Random(seed)
    context = Context(window=window, delta=delta)

    def begin() -> TokenStream:
        return TokenStream(FORM, system_prompt="", instruction="Open it", placeholder="[gone]")

    stream = begin()
    turns = []
    for index in range(num_turns):
        name = rng.choice(NAMES)
        context.observe(FRAMES[name], rng.choice(["", "no such key"]) if index else "")
        if index in lost:
            stream = begin()
        prompt = stream.prompt(context.turns)
        reply = rng.choice([*map(FORM.encode_reply, TEXTS), SPELLED])
        reply = reply[: rng.choice([len(reply), len(reply), 1])]  # some are cut off
        stream.record(index, reply)
        context.answer(FORM.decode_reply(reply))
        lengths = [FORM.images.num_tokens(frame.width, frame.height) for frame in prompt.frames]
        trace = TokenTrace(
            sent_ids=prompt.ids,
            prompt_ids=tuple(expand_ids(prompt.ids, FORM.image_id, lengths)[0]),
            sampled_ids=tuple(reply),
            logprobs=tuple(-rng.random() for _ in reply),
            sampled_mask=tuple(rng.random() < 0.8 for _ in reply),
            action_mask=(True,) * len(reply),
            version_span=(index // 3, index // 2),
        )
        turns.append(
            Turn(
                index=index,
                frame=name,
                cursor=(0, 0),
                visible=context.visible,
                raw="",
                parse_error="no action" if rng.random() < unreadable else None,
                tokens=trace,
            ),
        )
    return make_trajectory("t", turns=tuple(turns))


def faults(sequences: Sequence[TrainingSequence], trajectory: Trajectory) -> list[str]:
    """What is wrong, by looking every trained token up in the record."""
    found = []
    trained: Counter[tuple[int, int]] = Counter()
    for sequence in sequences:
        for place, logprob in zip(sequence.trained, sequence.logprobs, strict=True):
            number = next(i for i, reply in enumerate(sequence.replies) if place in reply)
            turn, index = sequence.turns[number], place - sequence.replies[number].start
            trained[turn, index] += 1
            trace = trajectory.turns[turn].tokens
            assert trace is not None
            if sequence.ids[: place + 1] != (*trace.prompt_ids, *trace.sampled_ids[: index + 1]):
                found.append(f"token {index} of turn {turn} is behind other tokens")
            names = [image.name for image in sequence.images if image.start < place]
            if names != [trajectory.turns[seen].frame for seen in trajectory.turns[turn].visible]:
                found.append(f"token {index} of turn {turn} is behind other screenshots")
            if logprob != trace.logprobs[index]:
                found.append(f"token {index} of turn {turn} has another log-probability")
    due = Counter(
        (turn.index, index)
        for turn in trajectory.turns
        if turn.tokens is not None and turn.parse_error is None
        for index, sampled in enumerate(turn.tokens.sampled_mask)
        if sampled
    )
    if any(trajectory.turns[turn].parse_error is not None for turn, _ in trained):
        found.append("a reply that was no action is trained")
    if trained != due:
        found.append("not every sampled token is trained exactly once")
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Trajectory, int, int]:
    window = draw(st.integers(1, 5))
    delta = draw(st.integers(1, window))
    num_turns = draw(st.integers(0, 14))
    lost = draw(st.frozensets(st.integers(1, 13), max_size=2))
    unreadable = draw(st.sampled_from([0.0, 0.3, 1.0]))
    seed = draw(st.integers(0, 10**6))
    return sampled_trajectory(seed, num_turns, window, delta, lost, unreadable=unreadable), window, delta


def cut(trajectory: Trajectory, window: int, delta: int) -> list[TrainingSequence]:
    return training_sequences(trajectory, FORM, window=window, delta=delta, frames=FRAMES.__getitem__)


@given(cases(), st.integers(1, 2000))
def test_every_sampled_token_is_trained_exactly_once(case: tuple[Trajectory, int, int], budget: int) -> None:
    trajectory, window, delta = case
    sequences = cut(trajectory, window, delta)
    assert faults(sequences, trajectory) == []
    batches = micro_batches(sequences, budget)
    assert sorted(map(id, sequences)) == sorted(id(each) for batch in batches for each in batch)
    for batch in batches:
        lengths = [len(each.ids) for each in batch]
        assert len(batch) == 1 or len(batch) * max(lengths) <= budget
        assert max(lengths) <= 2 * min(lengths), "padding costs as much as tokens"


def test_a_context_that_was_begun_anew_opens_a_segment() -> None:
    cut_at = {
        sequence.turns.start
        for seed in range(20)
        for sequence in cut(sampled_trajectory(seed, 4, 5, 2, frozenset({3})), 5, 2)
    }
    assert cut_at == {0, 3}


def test_negative_controls_are_found() -> None:
    trajectory = sampled_trajectory(1, 9, 3, 2, frozenset())
    good = cut(trajectory, 3, 2)
    assert len(good) == 4
    assert faults(good, trajectory) == []
    assert "exactly once" in faults(good[:-1], trajectory)[-1]
    assert "exactly once" in faults([*good, good[-1]], trajectory)[-1]
    shifted = replace(good[0], ids=(good[0].ids[0], 300, *good[0].ids[2:]))
    assert any("other tokens" in fault for fault in faults([shifted, *good[1:]], trajectory))
    fewer = replace(good[0], images=good[0].images[1:])
    assert any("other screenshots" in fault for fault in faults([fewer, *good[1:]], trajectory))
    wrong = replace(good[0], logprobs=tuple(0.5 for _ in good[0].logprobs))
    assert any("log-probability" in fault for fault in faults([wrong, *good[1:]], trajectory))


def test_a_reply_that_was_no_action_is_masked_and_stays_in_the_context_of_the_others() -> None:
    readable = sampled_trajectory(1, 6, 6, 1, frozenset())
    turns = list(readable.turns)
    turns[2] = turns[2].model_copy(update={"parse_error": "no action"})
    told = readable.model_copy(update={"turns": tuple(turns)})
    (whole,), (masked,) = cut(readable, 6, 1), cut(told, 6, 1)
    assert (masked.ids, masked.images, masked.replies) == (whole.ids, whole.images, whole.replies)
    reply = whole.replies[2]
    assert any(place in reply for place in whole.trained), "the reply would be trained if it were readable"
    kept = [(place, p) for place, p in zip(whole.trained, whole.logprobs, strict=True) if place not in reply]
    assert list(zip(masked.trained, masked.logprobs, strict=True)) == kept
    assert faults([masked], told) == []
    assert "a reply that was no action is trained" in faults([whole], told)


def test_nothing_is_learned_from_an_attempt_of_unreadable_replies() -> None:
    objective = GrpoObjective(temperature=1.0)
    trajectory = sampled_trajectory(1, 9, 3, 2, frozenset(), unreadable=1.0)
    assert len(cut(trajectory, 3, 2)) == 4
    for advantage in (-1.0, 1.0):
        for sequence in cut(trajectory, 3, 2):
            assert not objective.teaches(replace(sequence, advantage=advantage))
    readable = cut(sampled_trajectory(1, 9, 3, 2, frozenset()), 3, 2)
    assert all(objective.teaches(replace(sequence, advantage=-1.0)) for sequence in readable)


def test_the_oldest_version_is_the_lowest_of_the_segments() -> None:
    trajectory = sampled_trajectory(1, 9, 3, 2, frozenset())
    assert [sequence.oldest_version for sequence in cut(trajectory, 3, 2)] == [0, 1, 1, 2]


def test_what_cannot_be_trained_on_is_refused() -> None:
    trajectory = sampled_trajectory(2, 6, 3, 2, frozenset())
    bare = trajectory.model_copy(
        update={"turns": (*trajectory.turns[:2], trajectory.turns[2].model_copy(update={"tokens": None}))}
    )
    with pytest.raises(ValueError, match="turn 2 of trajectory 't' has no tokens"):
        cut(bare, 3, 2)
    lost = make_trajectory("t", turns=trajectory.turns, outcome="infra_error")
    with pytest.raises(ValueError, match="failure of infrastructure"):
        cut(lost, 3, 2)
    with pytest.raises(ValueError, match="not made under window 4"):
        cut(trajectory, 4, 2)
    first = trajectory.turns[0]
    other = next(name for name in NAMES if FRAMES[name].width != FRAMES[first.frame or ""].width)
    renamed = trajectory.model_copy(
        update={"turns": (first.model_copy(update={"frame": other}), *trajectory.turns[1:])}
    )
    with pytest.raises(ValueError, match="not the one that was sent"):
        cut(renamed, 3, 2)
