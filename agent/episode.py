"""One attempt of one policy at one task, from a fresh desktop to a trajectory.

::

    prepare -> turns (agent.turns) -> grade -> Trajectory

Guarantees:

* Every failure is data. A failed setup, desktop, policy or grader gives a trajectory with outcome `infra_error`, its
  phase, and no reward (promise 4). What passes through is cancellation, a blob store that cannot store, and bugs.
* An attempt that ended unfinished (steps, time, tokens, unreadable output) is graded like any other, with no final
  action: what the policy left behind decides, and a check that asks for `done` fails.
* Screenshots and evidence are stored under their hashes before the trajectory that names them is returned. What is
  stored is the screen itself; `shown_frame` makes of it what the policy saw.

The caller owns the desktop and the policy, and must throw the desktop away afterwards.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agent.deadlines import within
from agent.errors import GraderFailed, PolicyError, SetupFailed
from agent.harness import Harness
from agent.policy import Policy
from agent.task import EpisodeTask, Grade
from agent.turns import BlobSink, TurnLoop
from sandbox.actions import action_json
from sandbox.desktop import Desktop
from sandbox.errors import DesktopError
from store.trajectory import ErrorInfo, StopReason, Trajectory

__all__ = ["run_episode"]


async def run_episode(
    desktop: Desktop,
    task: EpisodeTask,
    harness: Harness,
    policy: Policy,
    *,
    blobs: BlobSink,
    seed_env: int,
    seed_sampling: int,
    group_id: str | None = None,
    trajectory_id: str | None = None,
    now: Callable[[], float] = time.time,
) -> Trajectory:
    """Run one attempt to its end.

    Args:
        desktop: fresh, ready, and used by nobody else.
        blobs: keeps the screenshots and the evidence.
        seed_env: recorded; whatever made the desktop has used it.
        seed_sampling: every turn's sampling seed is drawn from it.
        group_id: the group that this attempt belongs to.
        trajectory_id: unique; a new one by default.
        now: seconds since the epoch, for the record only.

    Returns:
        The record, whatever happened. Its blobs are stored; committing it is the caller's.
    """
    trajectory_id = trajectory_id or uuid.uuid4().hex
    started_at, start = now(), time.monotonic()
    timings_ms: dict[str, float] = {}
    loop = TurnLoop(
        desktop, task, harness, policy, blobs=blobs, trajectory_id=trajectory_id, seed_sampling=seed_sampling
    )
    try:
        with _timed(timings_ms, "setup"):
            await _prepare(task, desktop, harness.limits.setup_limit_s)
        stop_reason = await loop.run()
        with _timed(timings_ms, "grade"):
            grade = await _grade(task, desktop, loop, harness.limits.grade_limit_s)
        evidence = await asyncio.to_thread(blobs.put, grade.evidence.model_dump_json().encode())
        ending = _verdict(stop_reason, grade, evidence)
    except SetupFailed as error:
        ending = _failure(error, phase="setup")
    except GraderFailed as error:
        ending = _failure(error, phase="grader")
    except PolicyError as error:
        ending = _failure(error, phase="policy", stop_reason="policy_error")
    except DesktopError as error:
        ending = _failure(error, phase=error.phase, state=error.state)
    return Trajectory(
        id=trajectory_id,
        task_id=task.id,
        instruction=task.instruction,
        group_id=group_id,
        actor=policy.name,
        harness_hash=harness.hash,
        image_digest=desktop.image_digest,
        policy_hash=policy.hash,
        policy_version=min(loop.versions, default=0),
        seed_env=seed_env,
        seed_sampling=seed_sampling,
        split=task.split,
        turns=tuple(loop.turns),
        final_frame=loop.last_frame,
        final_action=None if loop.final_action is None else action_json(loop.final_action),
        started_at=started_at,
        seconds=time.monotonic() - start,
        timings_ms=timings_ms,
        **ending,
    )


async def _prepare(task: EpisodeTask, desktop: Desktop, limit_s: float) -> None:
    await within(limit_s, task.prepare(desktop), SetupFailed(f"the setup was not over after {limit_s:g} s"))


async def _grade(task: EpisodeTask, desktop: Desktop, loop: TurnLoop, limit_s: float) -> Grade:
    work = task.grade(desktop, loop.final_action)
    return await within(limit_s, work, GraderFailed(f"the grading was not over after {limit_s:g} s"))


def _verdict(stop_reason: StopReason, grade: Grade, evidence: str) -> dict[str, Any]:
    return {
        "stop_reason": stop_reason,
        "outcome": "pass" if grade.score >= 1 else "fail",
        "reward": grade.score,
        "checks": tuple({"name": c.name, "score": c.score, "reason": c.reason} for c in grade.checks),
        "verifier_id": grade.verifier_id,
        "evidence": evidence,
    }


def _failure(
    error: Exception, *, phase: str, stop_reason: StopReason = "infra_error", state: dict[str, str] | None = None
) -> dict[str, Any]:
    # Messages may quote file names, whose undecodable bytes are lone surrogates; no record can hold those.
    message = str(error).encode("utf-8", "replace").decode("utf-8")
    info = ErrorInfo(type=type(error).__name__, phase=phase, message=message, state=state or {})
    return {"stop_reason": stop_reason, "outcome": "infra_error", "reward": None, "error": info}


@contextmanager
def _timed(timings_ms: dict[str, float], phase: str) -> Iterator[None]:
    begun = time.perf_counter()
    try:
        yield
    finally:
        timings_ms[phase] = 1000 * (time.perf_counter() - begun)
