"""Segments partition the turns, and each turn is trained with the context that it was sampled in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context import Context
from tests.support.screen import make_frame
from trainer.segments import Segment, cut_segments, num_segments


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, int, set[int]]:
    window = draw(st.integers(1, 8))
    delta = draw(st.integers(1, window))
    num_turns = draw(st.integers(0, 40))
    breaks = draw(st.sets(st.integers(0, num_turns - 1), max_size=4)) if num_turns else set()
    return num_turns, window, delta, breaks


def sampled_contexts(num_turns: int, window: int, delta: int) -> list[tuple[int, ...]]:
    """What an episode's context really showed at each turn."""
    context = Context(window=window, delta=delta)
    contexts = []
    for index in range(num_turns):
        context.observe(make_frame(index, width=1, height=1))
        contexts.append(context.visible)
        context.answer("")
    return contexts


def faults(segments: Sequence[Segment], contexts: Sequence[tuple[int, ...]]) -> list[str]:
    """What is wrong with a cut, by replaying it: images in a sequence are only ever appended."""
    found = []
    trained = [turn for segment in segments for turn in segment.trained]
    if trained != list(range(len(contexts))):
        found.append("not every turn is trained exactly once")
    for segment in segments:
        if not segment.trained:
            found.append("a segment trains nothing")
            continue
        images = list(segment.visible)
        for turn in segment.trained:
            if turn != segment.trained.start:
                images.append(turn)
            if tuple(images) != contexts[turn]:
                found.append(f"turn {turn} is trained with another context")
    return found


@given(cases())
def test_every_turn_is_trained_once_in_its_own_context(case: tuple[int, int, int, set[int]]) -> None:
    num_turns, window, delta, breaks = case
    segments = cut_segments(num_turns, window, delta, breaks=breaks)
    contexts = sampled_contexts(num_turns, window, delta)
    assert faults(segments, contexts) == []
    assert breaks <= {segment.trained.start for segment in segments}
    for segment in segments:
        for turn in segment.trained:
            assert tuple(segment.visible_at(turn)) == contexts[turn]


@given(cases())
def test_the_number_of_segments_is_the_closed_form(case: tuple[int, int, int, set[int]]) -> None:
    num_turns, window, delta, _ = case
    expected = 1 + math.ceil(max(0, num_turns - window) / delta) if num_turns else 0
    assert num_segments(num_turns, window, delta) == expected
    assert len(cut_segments(num_turns, window, delta)) == expected


def test_the_papers_example() -> None:
    segments = cut_segments(30, 10, 5)
    assert [(segment.trained.start, segment.trained.stop) for segment in segments] == [
        (0, 10),
        (10, 15),
        (15, 20),
        (20, 25),
        (25, 30),
    ]
    assert segments[1].visible == range(5, 11)


def test_negative_controls_are_found() -> None:
    contexts = sampled_contexts(12, 4, 2)
    good = list(cut_segments(12, 4, 2))
    assert faults(good, contexts) == []
    whole = [Segment(visible=range(1), trained=range(12))]
    assert any("another context" in fault for fault in faults(whole, contexts))
    late = [*good[:1], Segment(visible=range(3, 5), trained=range(4, 6)), *good[2:]]
    assert any("turn 4" in fault for fault in faults(late, contexts))
    assert any("exactly once" in fault for fault in faults(good[:-1], contexts))
    assert any("exactly once" in fault for fault in faults([*good, good[-1]], contexts))
    # The same cut under a context that slides by one each turn is off-policy.
    assert faults(good, sampled_contexts(12, 4, 1)) != []


@pytest.mark.parametrize(
    ("num_turns", "window", "delta", "breaks", "message"),
    [
        (-1, 4, 2, (), "num_turns >= 0"),
        (3, 4, 0, (), "delta"),
        (3, 4, 5, (), "delta"),
        (3, 4, 2, (3,), "not turns"),
        (0, 4, 2, (0,), "not turns"),
    ],
)
def test_bad_arguments_are_refused(
    num_turns: int, window: int, delta: int, breaks: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cut_segments(num_turns, window, delta, breaks=breaks)


def test_context_of_an_untrained_turn_is_refused() -> None:
    with pytest.raises(ValueError, match="not trained"):
        cut_segments(12, 4, 2)[0].visible_at(4)
