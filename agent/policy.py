"""What a policy is: something that reads a context and writes text in a dialect.

The harness renders the context and parses the text; a policy only turns one into the other. So an oracle script, a
random clicker, a hosted model and a trained one run through the same episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sandbox.desktop import Observation, Want
from sandbox.frame import Frame
from store.trajectory import TokenTrace

__all__ = ["ContextTurn", "Policy", "PolicyReply", "PolicyRequest"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextTurn:
    """One turn as the policy may see it."""

    index: int
    """0 for the first turn."""
    frame: Frame | None
    """At the size shown to the model; None once its image was dropped and `placeholder` stands in its place."""
    reply: str | None
    """What the policy wrote then; None for the turn that is to be answered now."""
    feedback: str
    """What the policy is told with this turn's observation (a parse error, a refused action); often empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyRequest:
    """Everything a policy is given for one turn."""

    trajectory_id: str
    """Affinity key: an engine keeps its cache for it."""
    instruction: str
    system_prompt: str
    turns: tuple[ContextTurn, ...]
    """Oldest first; the last is the one to answer."""
    placeholder: str
    """Text in the place of a dropped image."""
    dialect: str
    """Name of the dialect that the reply must be written in."""
    observation: Observation
    """The newest observation, unscaled."""
    seed: int
    """Seed of this turn's sampling."""
    temperature: float
    max_tokens: int
    deadline_s: float
    """Seconds left for this reply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyReply:
    """What the policy wrote."""

    text: str
    """Output in the harness's dialect, verbatim."""
    tokens: TokenTrace | None = None
    truncated: bool = False
    """Stopped by max_tokens."""
    overflow: bool = False
    """The context did not fit; nothing was generated."""
    version: int = 0
    """Weight version that answered."""


class Policy(Protocol):
    """Turns a context into text."""

    name: str
    """The actor's name on trajectories."""
    hash: str
    """Identifies weights, script or hosted model."""
    wants: tuple[Want, ...]
    """What it needs in an observation beyond the screenshot; only scripted actors ask for more."""

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """Write this turn's output.

        Raises:
            agent.errors.PolicyError: the engine or endpoint failed.
        """
        ...

    async def close(self) -> None:
        """Release what it holds. Idempotent."""
        ...
