"""Accessibility that agrees with the windows.

Where a widget lies is what its application believes. An application on a busy machine may learn late that its window
was moved, and until then accessibility tells where its widgets were. Pixels are never behind like this, so only a
policy that is given accessibility waits, and only before its first look: a setup has just placed the windows then.
"""

from __future__ import annotations

import asyncio
import time

from sandbox.desktop import Desktop, Observation, Rect

__all__ = ["await_agreement"]

LIMIT_S = 3.0
POLL_S = 0.1
MARGIN_PX = 64
"""The most that a frame and its title bar take on one side of a window's content."""


async def await_agreement(desktop: Desktop, *, limit_s: float = LIMIT_S) -> None:
    """Wait until every window's frame that accessibility shows is where a window is, or the time is over.

    An application that shows no frame to accessibility is not waited for.

    Raises:
        DesktopError: the desktop failed.
    """
    ends = time.monotonic() + limit_s
    while True:
        seen = await desktop.observe(("windows", "a11y"))
        if _agrees(seen) or time.monotonic() >= ends:
            return
        await asyncio.sleep(POLL_S)


def _agrees(seen: Observation) -> bool:
    contents = [window.bounds for window in seen.windows or ()]
    frames = [node.bounds for root in seen.a11y or () for node in root.children if node.bounds is not None]
    return all(any(_frames(frame, content) for content in contents) for frame in frames)


def _frames(frame: Rect, content: Rect) -> bool:
    """Whether this is the frame of a window with that content."""
    left, top = content.x - frame.x, content.y - frame.y
    right, bottom = frame.width - content.width - left, frame.height - content.height - top
    return all(0 <= margin <= MARGIN_PX for margin in (left, top, right, bottom))
