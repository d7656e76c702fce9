"""A context as chat messages: a pure function, so that equal contexts are equal requests.

Between prunes each request's messages start with those of the one before, which lets a server reuse its prefix cache.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from agent.policy import PolicyRequest
from sandbox.frame import Frame

__all__ = ["chat_messages", "data_url"]

Message = dict[str, Any]


def data_url(frame: Frame) -> str:
    """The frame as a PNG data URL."""
    return "data:image/png;base64," + base64.b64encode(frame.png()).decode()


def chat_messages(request: PolicyRequest, image_url: Callable[[Frame], str] = data_url) -> list[Message]:
    """The messages of a chat completion.

    Args:
        request: its visible screenshots become image parts, its dropped ones the placeholder text.
        image_url: gives a screenshot's URL; pass a cache to encode each only once.
    """
    messages: list[Message] = [{"role": "system", "content": request.system_prompt}]
    for turn in request.turns:
        parts: list[Message] = []
        if turn.index == 0:
            parts.append({"type": "text", "text": f"Task: {request.instruction}"})
        if turn.feedback:
            parts.append({"type": "text", "text": turn.feedback})
        if turn.frame is None:
            parts.append({"type": "text", "text": request.placeholder})
        else:
            parts.append({"type": "image_url", "image_url": {"url": image_url(turn.frame)}})
        messages.append({"role": "user", "content": parts})
        if turn.reply is not None:
            messages.append({"role": "assistant", "content": turn.reply})
    return messages
