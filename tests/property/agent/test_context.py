"""The closed form of the context window against a plain simulation, and the context built on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context import Context, visible_count, visible_turns
from tests.support.screen import make_frame


@st.composite
def windows(draw: st.DrawFn) -> tuple[int, int]:
    window = draw(st.integers(1, 12))
    return window, draw(st.integers(1, window))


def simulate(num_turns: int, window: int, delta: int) -> list[list[int]]:
    """Append one image a turn; when more than `window` are there, drop the oldest `delta`. Turns count from 1."""
    images: list[int] = []
    seen = []
    for turn in range(1, num_turns + 1):
        images.append(turn)
        if len(images) > window:
            del images[:delta]
        seen.append(list(images))
    return seen


@given(windows(), st.integers(1, 60))
def test_closed_form_equals_simulation(sizes: tuple[int, int], num_turns: int) -> None:
    window, delta = sizes
    for turn, images in enumerate(simulate(num_turns, window, delta), start=1):
        assert visible_count(turn, window, delta) == len(images)
        assert list(visible_turns(turn, window, delta)) == images


def test_the_simulation_tells_a_sliding_window_apart() -> None:
    sliding = [list(range(max(1, turn - 3), turn + 1)) for turn in range(1, 20)]
    assert simulate(19, 4, 1) == sliding
    assert simulate(19, 4, 3) != sliding


def test_the_papers_setting() -> None:
    # K = delta = 5: five images are kept at a prune, and the new one comes on top.
    assert [visible_count(turn, 10, 5) for turn in range(1, 22)] == [*range(1, 11), *range(6, 11), *range(6, 11), 6]


@pytest.mark.parametrize(("turn", "window", "delta"), [(0, 4, 2), (1, 4, 0), (1, 4, 5), (1, 0, 0)])
def test_bad_arguments_are_refused(turn: int, window: int, delta: int) -> None:
    with pytest.raises(ValueError, match="delta <= window"):
        visible_count(turn, window, delta)


@given(windows(), st.integers(1, 40))
def test_context_shows_the_simulated_images_and_keeps_all_text(sizes: tuple[int, int], num_turns: int) -> None:
    window, delta = sizes
    context = Context(window=window, delta=delta)
    before: tuple[object, ...] = ()
    segments = 0
    for index, images in enumerate(simulate(num_turns, window, delta)):
        frame = make_frame(index, width=1, height=1)
        pruned = context.observe(frame, f"feedback {index}")
        segments += pruned or index == 0
        assert context.visible == tuple(turn - 1 for turn in images)
        shown = [turn.index for turn in context.turns if turn.frame is not None]
        assert shown == [turn - 1 for turn in images]
        assert [turn.feedback for turn in context.turns] == [f"feedback {k}" for k in range(index + 1)]
        assert [turn.reply for turn in context.turns] == [f"reply {k}" for k in range(index)] + [None]
        if not pruned:
            assert context.turns[:-1] == before, "between prunes the context only grows"
        else:
            assert context.turns[:-1] != before
        context.answer(f"reply {index}")
        before = context.turns
    assert context.segments == segments


def test_bad_windows_are_refused_before_the_first_turn() -> None:
    with pytest.raises(ValueError, match="delta"):
        Context(window=2, delta=3)
