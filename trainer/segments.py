"""Visual context segmentation: which turns of a trajectory train together.

Under the context window H(W, delta) (see `agent.context`) a context only grows between prunes, so all turns between two
prunes are answered inside one growing sequence. That sequence is a *segment*: its first turn's context comes in with no
loss, then each turn's reply is trained where it was sampled::

    segment = context of its first turn [no loss] + reply [loss] + observation [no loss] + reply [loss] + ...

Guarantees (property tests): every turn is trained in exactly one segment, and the screenshots before its reply in that
segment are exactly those it was sampled with. Without extra breaks a trajectory of T turns has
S = 1 + ceil(max(0, T - W) / delta) segments (ScaleCUA, visual context segmentation).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Segment", "cut_segments", "num_segments"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One training sequence. Turns count from 0."""

    visible: range
    """Turns whose screenshots are in the context of the first trained turn, that turn included."""
    trained: range
    """Turns whose replies are trained; never empty. Turns before them are context only."""

    def visible_at(self, turn: int) -> range:
        """Turns whose screenshots come before this trained turn's reply.

        Raises:
            ValueError: the turn is not trained in this segment.
        """
        if turn not in self.trained:
            raise ValueError(f"turn {turn} is not trained in the segment of turns {self.trained}")
        return range(self.visible.start, turn + 1)


def num_segments(num_turns: int, window: int, delta: int) -> int:
    """S = 1 + ceil(max(0, T - W) / delta); 0 for a trajectory without turns."""
    return 0 if num_turns == 0 else 1 + -(-max(0, num_turns - window) // delta)


def cut_segments(num_turns: int, window: int, delta: int, *, breaks: Iterable[int] = ()) -> tuple[Segment, ...]:
    """Cut a trajectory into segments.

    Args:
        num_turns: T, turns that have a reply.
        window: W, the most screenshots that are ever visible.
        delta: how many are dropped at a prune; 1 <= delta <= W.
        breaks: further turns (from 0) that start a segment: where the prompt did not extend the one before it. They
            change no context, they only stop a sequence from growing across them.

    Returns:
        Segments in order; their trained turns partition range(num_turns).

    Raises:
        ValueError: an argument is out of its range.
    """
    if num_turns < 0 or not 1 <= delta <= window:
        raise ValueError(
            f"need num_turns >= 0 and 1 <= delta <= window, got num_turns={num_turns}, delta={delta}, window={window}"
        )
    extra = set(breaks)
    if not extra <= set(range(num_turns)):
        raise ValueError(f"breaks {sorted(extra - set(range(num_turns)))} are not turns of 0..{num_turns - 1}")
    starts = sorted({0, *range(window, num_turns, delta), *extra}) if num_turns else []
    ends = [*starts[1:], num_turns]
    segments = []
    for start, end in zip(starts, ends, strict=False):
        num_prunes = 0 if start < window else 1 + (start - window) // delta
        segments.append(Segment(visible=range(num_prunes * delta, start + 1), trained=range(start, end)))
    return tuple(segments)
