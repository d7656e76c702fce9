"""How scripted policies write: an action in the dialect and the view that the request asks for."""

from __future__ import annotations

from agent.policy import PolicyReply, PolicyRequest
from sandbox.actions import Action
from sandbox.dialects import View, get_dialect

__all__ = ["say", "screen_size"]


def screen_size(request: PolicyRequest) -> tuple[int, int]:
    """Width and height of the screen, pixels."""
    frame = request.observation.frame
    assert frame is not None, "an episode always observes the screenshot"
    return frame.width, frame.height


def say(request: PolicyRequest, action: Action) -> PolicyReply:
    """The reply that does this action."""
    shown = request.turns[-1].frame
    assert shown is not None, "the newest screenshot is always visible"
    view = View(screen=screen_size(request), shown=(shown.width, shown.height))
    return PolicyReply(text=get_dialect(request.dialect).render(action, view))
