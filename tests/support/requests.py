"""Requests to a policy, as an episode would make them."""

from __future__ import annotations

from agent.policy import ContextTurn, PolicyRequest
from sandbox.desktop import Observation
from tests.support.screen import make_observation

__all__ = ["make_request"]


def make_request(
    observation: Observation | None = None,
    *,
    turns: tuple[ContextTurn, ...] | None = None,
    index: int = 0,
    trajectory_id: str = "trajectory",
    dialect: str = "compact",
    seed: int = 1,
    deadline_s: float = 5.0,
) -> PolicyRequest:
    """The request for one turn; without `turns` the context is that turn alone."""
    observation = observation if observation is not None else make_observation()
    newest = ContextTurn(index=index, frame=observation.frame, reply=None, feedback="")
    return PolicyRequest(
        trajectory_id=trajectory_id,
        instruction="Press Save.",
        system_prompt="You operate a computer.",
        turns=turns if turns is not None else (newest,),
        placeholder="[dropped]",
        dialect=dialect,
        observation=observation,
        seed=seed,
        temperature=0.5,
        max_tokens=64,
        deadline_s=deadline_s,
    )
