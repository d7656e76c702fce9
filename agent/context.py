"""The context window: which screenshots a policy still sees, H(W, delta).

::

    turn     1  2 .. W | W+1      W+2      ..  W+delta | W+delta+1 ..
    visible  1  2 .. W | W+1-delta  W+2-delta ..   W   | W+1-delta ..
                       ^ prune                         ^ prune

Images are appended until W are visible; then the oldest `delta` are dropped at once, each replaced by a fixed
placeholder. Text is never dropped. Between prunes the context only grows, which is what keeps an engine's prefix cache
valid and makes a segment of turns trainable in one pass with exactly the contexts they were sampled in. The price is
that the number of visible images swings between W+1-delta and W.

`visible_count` is the closed form; a property test holds it equal to the plain simulation. Turns count from 1 in the
closed form, as in the paper, and from 0 in `Context` and in trajectories.
"""

from __future__ import annotations

from agent.policy import ContextTurn
from sandbox.frame import Frame

__all__ = ["Context", "visible_count", "visible_turns"]


def visible_count(turn: int, window: int, delta: int) -> int:
    """How many screenshots are visible when a turn is answered, that turn's included.

    Args:
        turn: 1 for the first.
        window: W, the most that are ever visible.
        delta: how many are dropped at a prune; 1 <= delta <= W.

    Raises:
        ValueError: an argument is out of its range.
    """
    if turn < 1 or not 1 <= delta <= window:
        raise ValueError(f"need turn >= 1 and 1 <= delta <= window, got turn={turn}, delta={delta}, window={window}")
    if turn <= window:
        return turn
    return window + 1 - delta + (turn - window - 1) % delta


def visible_turns(turn: int, window: int, delta: int) -> range:
    """The turns (1 for the first) whose screenshots are visible when this turn is answered, that turn included."""
    return range(turn + 1 - visible_count(turn, window, delta), turn + 1)


class Context:
    """The turns of one episode as its policy sees them."""

    def __init__(self, *, window: int, delta: int) -> None:
        visible_count(1, window, delta)  # refuses a bad window before the first turn
        self._window = window
        self._delta = delta
        self._turns: list[ContextTurn] = []
        self._visible = range(0)
        self.segments = 0
        """Segments opened so far: 1 after the first turn, one more at each prune."""

    @property
    def turns(self) -> tuple[ContextTurn, ...]:
        """Oldest first."""
        return tuple(self._turns)

    @property
    def visible(self) -> tuple[int, ...]:
        """Indices (0 for the first) of the turns whose screenshots are visible."""
        return tuple(self._visible)

    def observe(self, frame: Frame, feedback: str = "") -> bool:
        """Open the next turn.

        Returns:
            Whether older screenshots were dropped, so that this turn starts a new segment.
        """
        assert not self._turns or self._turns[-1].reply is not None, "the turn before has no reply yet"
        index = len(self._turns)
        self._turns.append(ContextTurn(index=index, frame=frame, reply=None, feedback=feedback))
        first = visible_turns(index + 1, self._window, self._delta).start - 1
        dropped = range(self._visible.start, first)
        for old in dropped:
            turn = self._turns[old]
            self._turns[old] = ContextTurn(index=old, frame=None, reply=turn.reply, feedback=turn.feedback)
        self._visible = range(first, index + 1)
        pruned = len(dropped) > 0
        self.segments += pruned or index == 0
        return pruned

    def answer(self, text: str) -> None:
        """Record what the policy wrote in the open turn, verbatim."""
        turn = self._turns[-1]
        assert turn.reply is None, "this turn is answered already"
        self._turns[-1] = ContextTurn(index=turn.index, frame=turn.frame, reply=text, feedback=turn.feedback)
