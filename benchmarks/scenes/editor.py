"""Desktops with an editor open, and what is done on them: a key, a click or a pointer move."""

from __future__ import annotations

import asyncio
import random

from sandbox.actions import Action, Click, Move, Point, TypeText
from sandbox.desktop import Desktop, DesktopSpec

__all__ = ["SPEC", "editor_action", "open_editor"]

SPEC = DesktopSpec(width=1280, height=720)


async def open_editor(desktop: Desktop) -> None:
    """Start mousepad and wait until its window is there."""
    await desktop.spawn(["mousepad"])
    for _ in range(1200):
        if (await desktop.observe(("windows",))).windows:
            return
        await asyncio.sleep(0.05)
    raise RuntimeError("mousepad showed no window in 60 s")


def editor_action(rng: random.Random) -> Action:
    """A random action inside the text area, away from the menus."""
    point = Point(x=rng.randrange(20, 620), y=rng.randrange(120, 480))
    return rng.choice((TypeText(text=rng.choice("abcdefgh ")), Click(point=point), Move(point=point)))
