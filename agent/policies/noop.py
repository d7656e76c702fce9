"""Policies that do nothing: the floor that every task and every result is measured against."""

from __future__ import annotations

from agent.policies.speaking import say
from agent.policy import PolicyReply, PolicyRequest
from sandbox.actions import Done, Infeasible
from sandbox.desktop import Want

__all__ = ["AlwaysInfeasiblePolicy", "NoopPolicy"]


class NoopPolicy:
    """Claims at once that the task is done. A task that it passes checks nothing."""

    name = "noop"
    hash = "noop"
    wants: tuple[Want, ...] = ()

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """Say done."""
        return say(request, Done())

    async def close(self) -> None:
        """Nothing to release."""


class AlwaysInfeasiblePolicy:
    """Claims at once that the task cannot be done. What it passes is the share of infeasible tasks."""

    name = "always-infeasible"
    hash = "always-infeasible"
    wants: tuple[Want, ...] = ()

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """Say infeasible."""
        return say(request, Infeasible())

    async def close(self) -> None:
        """Nothing to release."""
