"""The quickstart's check: the hand-made tasks, attempted by actors whose results are known in advance.

::

    start_run (the unfinished one of the same plan, or a new one) -> plan_rollouts -> run_rollouts -> finish_run

The oracle should always pass, the no-op never, and whoever calls everything infeasible only where that is right: on a
machine where that holds, outcomes can be trusted; `problems` says where it does not. A random actor is there to see.
Groups are planned by the uniform sampler. A run's plan always gives the same rollout ids, so a run that was interrupted
goes on where it was.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from agent import Harness
from agent.policies import AlwaysInfeasiblePolicy, NoopPolicy, RandomPolicy, ScriptedPolicy
from agent.policy import Policy
from evals.rollouts import Rollout
from frontier import UniformSampler
from store import Catalog, Trajectory
from store.tables import RunRow
from verigen.assets import Assets
from verigen.bundle import Bundle
from verigen.runner import TaskRunner

__all__ = ["ACTORS", "KIND", "QuickstartTask", "finish_run", "plan_rollouts", "problems", "start_run"]

KIND = "quickstart"
ACTORS = ("oracle", "noop", "always-infeasible", "random")
"""By the names that their trajectories carry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuickstartTask:
    """A task and the files of its setup."""

    bundle: Bundle
    assets: Assets


def start_run(
    catalog: Catalog,
    tasks: Sequence[QuickstartTask],
    *,
    image_digest: str,
    num_rollouts: int,
    seed: int,
    fresh: bool = False,
) -> RunRow:
    """The newest run with exactly these settings, finished or not; a new one if there is none.

    Args:
        num_rollouts: attempts of each actor at each task.
        fresh: start a new run in any case.
    """
    config = {
        "tasks": [task.bundle.id for task in tasks],
        "image_digest": image_digest,
        "harness": Harness().hash,
        "num_rollouts": num_rollouts,
        "seed": seed,
    }
    if not fresh:
        for run in catalog.runs(KIND):
            if run.config == config:
                return run
    run = RunRow(
        id=f"{KIND}-{uuid.uuid4().hex[:8]}",
        kind=KIND,
        config=config,
        status="running",
        started_at=time.time(),
        finished_at=None,
    )
    catalog.put_run(run)
    return run


def finish_run(catalog: Catalog, run: RunRow) -> None:
    """Note that every attempt of the run has ended."""
    if run.status != "finished":
        catalog.put_run(run.model_copy(update={"status": "finished", "finished_at": time.time()}))


def plan_rollouts(run_id: str, tasks: Sequence[QuickstartTask], *, num_rollouts: int, seed: int) -> list[Rollout]:
    """All attempts of a run. Equal arguments give equal plans."""
    by_id = {task.bundle.id: task for task in tasks}
    runners = {task_id: TaskRunner(task.bundle, task.assets) for task_id, task in by_id.items()}
    rollouts = []
    for actor in ACTORS:
        sampler = UniformSampler(by_id, seed=seed, group_size=num_rollouts, prefix=f"{run_id}-{actor}-")
        for group in sampler.plan(num_rollouts * len(by_id), version=0):
            bundle = by_id[group.task].bundle
            policy = _policy(actor, bundle)
            for number in range(group.n):
                rollouts.append(
                    Rollout(
                        id=f"{group.group_id}-{number}",
                        task=runners[group.task],
                        spec=bundle.task.desktop,
                        policy=policy,
                        group_id=group.group_id,
                        seed_env=seed,
                        seed_sampling=_seed(seed, actor, group.task, number),
                    )
                )
    return rollouts


def problems(tasks: Sequence[QuickstartTask], trajectories: Sequence[Trajectory]) -> list[str]:
    """What speaks against trusting this machine's outcomes, one sentence each."""
    bundles = {task.bundle.id: task.bundle for task in tasks}
    found = []
    for trajectory in trajectories:
        task, actor = bundles[trajectory.task_id].task, trajectory.actor
        if trajectory.error is not None:
            found.append(f"{trajectory.id} ended by {trajectory.error.type}: {trajectory.error.message}")
        elif actor == "oracle" and trajectory.outcome != "pass":
            found.append(f"{trajectory.id}: the solution of {task.name} failed")
        elif trajectory.outcome == "pass" and (actor == "noop" or (actor == "always-infeasible" and task.feasible)):
            found.append(f"{trajectory.id}: {actor} passed {task.name}")
    return found


def _policy(actor: str, bundle: Bundle) -> Policy:
    plain: dict[str, type[Policy]] = {
        "noop": NoopPolicy,
        "always-infeasible": AlwaysInfeasiblePolicy,
        "random": RandomPolicy,
    }
    return ScriptedPolicy(bundle.oracle) if actor == "oracle" else plain[actor]()


def _seed(seed: int, actor: str, task: str, number: int) -> int:
    digest = hashlib.blake2b(f"{seed}:{actor}:{task}:{number}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
