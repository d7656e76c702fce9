"""Policies behind somebody else's endpoint."""

from agent.models.openai_compatible import OpenAICompatiblePolicy

__all__ = ["OpenAICompatiblePolicy"]
