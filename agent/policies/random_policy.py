"""A policy that acts at random: what luck alone achieves, and a cheap way to stir a desktop."""

from __future__ import annotations

import random

from agent.policies.speaking import say, screen_size
from agent.policy import PolicyReply, PolicyRequest
from sandbox.actions import Action, Click, Done, Point, Press, Scroll, TypeText
from sandbox.desktop import Want

__all__ = ["RandomPolicy"]

KINDS = {"click": 60, "press": 15, "type": 10, "scroll": 10, "done": 5}
"""Weights of the kinds of action."""
CHORDS = (("Return",), ("Escape",), ("Tab",), ("Down",), ("Up",), ("ctrl", "s"), ("ctrl", "a"), ("alt", "F4"))
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 "


class RandomPolicy:
    """Valid actions drawn from the turn's sampling seed, so equal seeds act equally."""

    name = "random"
    hash = "random"
    wants: tuple[Want, ...] = ()

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """Write a random action; sometimes it is done."""
        return say(request, _draw(random.Random(request.seed), screen_size(request)))

    async def close(self) -> None:
        """Nothing to release."""


def _draw(rng: random.Random, screen: tuple[int, int]) -> Action:
    point = Point(x=rng.randrange(screen[0]), y=rng.randrange(screen[1]))
    (kind,) = rng.choices(list(KINDS), weights=list(KINDS.values()))
    match kind:
        case "click":
            (button,) = rng.choices(("left", "right"), weights=(4, 1))
            return Click(point=point, button="left" if button == "left" else "right", clicks=rng.choice((1, 1, 1, 2)))
        case "press":
            return Press(keys=rng.choice(CHORDS))
        case "type":
            return TypeText(text="".join(rng.choices(LETTERS, k=rng.randint(1, 8))))
        case "scroll":
            return Scroll(point=point, dy=rng.choice((-5, -1, 1, 5)))
        case _:
            return Done()
