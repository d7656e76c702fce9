"""Evaluating a policy on a fixed set of tasks, beside what doing nothing, refusing and luck achieve.

Attempts are named by what they are of, so an interrupted evaluation goes on and a finished one is only read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agent.engines.protocol import PolicyEngine
from agent.engines.tokens import PolicyFormat
from agent.harness import Harness
from agent.policies import AlwaysInfeasiblePolicy, NoopPolicy, RandomPolicy
from agent.policies.engine_policy import EnginePolicy
from agent.policy import Policy, PolicyReply, PolicyRequest
from evals.rollouts import Rollout, run_rollouts
from sandbox.desktop import Want
from sandbox.frame import Frame
from sandbox.hub import Lender
from store import BlobStore, Trajectory, TrajectoryStore
from trainer.tasks import TrainingTask

__all__ = ["Blindfolded", "baseline_rollouts", "policy_identity", "policy_rollouts", "run_all"]


class Blindfolded:
    """A policy that sees black wherever it would see the screen: what it still passes needs no looking."""

    wants: tuple[Want, ...] = ()

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.hash = policy.hash
        self._policy = policy

    async def reply(self, request: PolicyRequest) -> PolicyReply:
        """The policy's reply to black screens; without tokens, since nobody may train on it."""
        turns = tuple(replace(turn, frame=None if turn.frame is None else _black(turn.frame)) for turn in request.turns)
        reply = await self._policy.reply(replace(request, turns=turns))
        return replace(reply, tokens=None)

    async def close(self) -> None:
        """Close the policy."""
        await self._policy.close()


def policy_identity(directory: Path) -> str:
    """Names the weights in a directory."""
    digest = hashlib.sha256()
    for file in sorted(directory.glob("model*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def policy_rollouts(
    tasks: Sequence[TrainingTask],
    engine: PolicyEngine,
    form: PolicyFormat,
    harness: Harness,
    *,
    label: str,
    identity: str,
    greedy: bool,
    attempts: int = 1,
    black: bool = False,
    seed: int = 0,
) -> list[Rollout]:
    """Attempts of a policy at each task.

    Args:
        label: the actor's name on trajectories.
        identity: of its weights.
        greedy: take the likeliest token each time, instead of sampling at the harness's temperature.
        black: show it black screens.
    """
    if greedy:
        harness = harness.model_copy(update={"sampling": harness.sampling.model_copy(update={"temperature": 0.0})})
    policy: Policy = EnginePolicy(engine, form, name=label, hash=identity)
    if black:
        policy = Blindfolded(policy)
    what = f"{label} {identity} {harness.hash} {'black ' if black else ''}{seed}"
    return _rollouts(tasks, policy, harness, what=what, attempts=attempts, seed=seed)


def baseline_rollouts(tasks: Sequence[TrainingTask], harness: Harness, *, seed: int = 0) -> list[Rollout]:
    """One attempt of each baseline at each task."""
    baselines: list[Policy] = [NoopPolicy(), AlwaysInfeasiblePolicy(), RandomPolicy()]
    return [
        rollout
        for policy in baselines
        for rollout in _rollouts(
            tasks, policy, harness, what=f"{policy.name} {harness.hash} {seed}", attempts=1, seed=seed
        )
    ]


async def run_all(
    rollouts: Sequence[Rollout],
    hub: Lender,
    store: TrajectoryStore,
    blobs: BlobStore,
    *,
    limit: int,
    on_end: Callable[[Rollout, Trajectory, bool], None] = lambda rollout, trajectory, kept: None,
) -> list[Trajectory]:
    """Run what was not run before; return all trajectories, each under its actor's name."""
    trajectories = await run_rollouts(rollouts, hub, store, blobs, limit=limit, on_end=on_end)
    for policy in {id(rollout.policy): rollout.policy for rollout in rollouts}.values():
        await policy.close()
    return trajectories


def _rollouts(
    tasks: Sequence[TrainingTask], policy: Policy, harness: Harness, *, what: str, attempts: int, seed: int
) -> list[Rollout]:
    found = []
    for task in tasks:
        for number in range(attempts):
            digest = hashlib.sha256(f"{what} {task.id} {number}".encode()).hexdigest()
            found.append(
                Rollout(
                    id=f"eval-{digest[:24]}",
                    task=task.runner,
                    spec=task.bundle.task.desktop,
                    policy=policy,
                    group_id=f"eval-{hashlib.sha256(what.encode()).hexdigest()[:16]}",
                    seed_env=seed,
                    seed_sampling=int(digest[:15], 16),
                    harness=harness,
                )
            )
    return found


def _black(frame: Frame) -> Frame:
    return Frame.from_pixels(frame.width, frame.height, bytes(len(frame.pixels)))
