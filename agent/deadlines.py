"""How long things may take in an episode. Every wait has an end, and whose failure it is when it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from sandbox.actions import Action, Press, TypeText, Wait

__all__ = ["clip_waits", "step_deadline_s", "within"]

T = TypeVar("T")

STEP_S = 30.0
"""For acting, settling and looking, beyond what the actions ask for."""
TYPE_S = 0.02
"""For each character that is typed; several times what typing takes."""


async def within(limit_s: float, work: Awaitable[T], error: Exception) -> T:
    """Wait for the work, but no longer than the limit; then cancel it and raise the error.

    A TimeoutError of the work's own passes through: it is not this limit.
    """
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await work
    except TimeoutError as cause:
        if limit.expired():
            raise error from cause
        raise


def clip_waits(actions: Sequence[Action], left_s: float) -> tuple[Action, ...]:
    """The actions with waits and held keys cut to the time that is left, in order."""
    clipped: list[Action] = []
    for action in actions:
        asked_s = _asked_s(action)
        given_s = min(asked_s, max(0.0, left_s))
        if given_s < asked_s:
            action = action.model_copy(update={"seconds" if isinstance(action, Wait) else "hold_s": given_s})
        left_s -= given_s
        clipped.append(action)
    return tuple(clipped)


def step_deadline_s(actions: Sequence[Action]) -> float:
    """The deadline of a step with these actions, seconds."""
    typed = sum(len(action.text) for action in actions if isinstance(action, TypeText))
    return STEP_S + sum(map(_asked_s, actions)) + TYPE_S * typed


def _asked_s(action: Action) -> float:
    if isinstance(action, Wait):
        return action.seconds
    return action.hold_s if isinstance(action, Press) else 0.0
