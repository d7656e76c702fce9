"""A policy behind any OpenAI-compatible chat endpoint: hosted models, vLLM, llama.cpp, and so on."""

from __future__ import annotations

import os
from typing import Any

from agent.models.chat_client import ChatClient, ContextOverflow
from agent.models.messages import chat_messages, data_url
from agent.policy import PolicyReply, PolicyRequest
from sandbox.desktop import Want
from sandbox.frame import Frame

__all__ = ["OpenAICompatiblePolicy"]

CACHED_URLS = 64


class OpenAICompatiblePolicy:
    """Asks a chat endpoint for each reply. Its trajectories have no tokens, so they cannot be trained on.

    One object serves any number of episodes at once.

    Args:
        base_url: up to and including the version part, e.g. `http://localhost:8000/v1`.
        model: the model's name at that endpoint.
        api_key_env: environment variable that holds the key; None sends no key.
        attempt_timeout_s: seconds after which one attempt at a reply is given up and made again.
        extra_body: further fields of the request. None leaves a field out, for servers that refuse it: say
            `{"max_tokens": None, "max_completion_tokens": 512}`.

    Raises:
        ValueError: the variable is not set, or the URL is not one.
    """

    wants: tuple[Want, ...] = ()

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str | None = None,
        attempt_timeout_s: float = 60.0,
        extra_body: dict[str, Any] | None = None,
    ) -> None:
        api_key = None if api_key_env is None else os.environ.get(api_key_env, "").strip()
        if api_key == "":
            raise ValueError(f"the environment variable {api_key_env} holds no key; set it, or name none")
        self.name = model
        self.hash = model
        self._client = ChatClient(base_url, api_key=api_key, attempt_timeout_s=attempt_timeout_s)
        self._extra_body = dict(extra_body or {})
        self._urls: dict[str, str] = {}

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """Ask for this turn's output.

        Raises:
            agent.errors.PolicyError: the endpoint failed; the message says what to change.
        """
        fields = {
            "model": self.name,
            "messages": chat_messages(request, self._image_url),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            **self._extra_body,
        }
        body = {key: value for key, value in fields.items() if value is not None}
        try:
            completion = await self._client.complete(body, deadline_s=request.deadline_s)
        except ContextOverflow:
            return PolicyReply(text="", overflow=True)
        return PolicyReply(text=completion.text, truncated=completion.truncated)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.close()

    def _image_url(self, frame: Frame) -> str:
        url = self._urls.get(frame.sha256)
        if url is None:
            url = self._urls[frame.sha256] = data_url(frame)
            if len(self._urls) > CACHED_URLS:
                del self._urls[next(iter(self._urls))]
        return url
