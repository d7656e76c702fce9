"""Episodes of an `EnginePolicy` on frames of noise, without a desktop: what the trainer gets to see of real ones."""

from __future__ import annotations

from collections.abc import Sequence

from agent.context import Context
from agent.policy import Policy, PolicyRequest
from sandbox.frame import Frame
from store.trajectory import Trajectory, Turn
from tests.support.screen import make_observation
from tests.support.trajectories import make_trajectory

__all__ = ["play"]


async def play(
    policy: Policy,
    frames: Sequence[Frame],
    *,
    window: int,
    delta: int,
    trajectory_id: str = "t",
    instruction: str = "Open the File menu",
    temperature: float = 1.0,
    seed: int = 0,
    max_tokens: int = 12,
    feedback: str = "",
) -> Trajectory:
    """One turn per frame, whatever the policy writes."""
    context = Context(window=window, delta=delta)
    turns: list[Turn] = []
    for index, frame in enumerate(frames):
        context.observe(frame, feedback if index else "")
        reply = await policy.reply(
            PolicyRequest(
                trajectory_id=trajectory_id,
                instruction=instruction,
                system_prompt="You act.",
                turns=context.turns,
                placeholder="[screenshot dropped]",
                dialect="compact",
                observation=make_observation(frame),
                seed=1000 * seed + index,
                temperature=temperature,
                max_tokens=max_tokens,
                deadline_s=60.0,
            )
        )
        turns.append(
            Turn(
                index=index,
                frame=frame.sha256,
                cursor=(0, 0),
                visible=context.visible,
                raw=reply.text,
                tokens=reply.tokens,
            )
        )
        context.answer(reply.text)
    return make_trajectory(trajectory_id, turns=tuple(turns), instruction=instruction)
