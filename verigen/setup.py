"""Bringing a fresh desktop into a task's start state, and being sure that it is there.

::

    steps in order -> assertions (tried until they hold) -> screen quiet

Guarantee: when `run_setup` returns, every assertion held. A failure says which step, what was expected and what was
there. An assertion gets a few seconds, since an application may still be on its way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from agent.errors import GraderFailed, SetupFailed
from sandbox.desktop import Desktop
from verigen.assets import Assets
from verigen.checks import judge
from verigen.steps import POLL_S, QUIET, StepFailed, run_step
from verigen.task import AssertStep, SetupStep

__all__ = ["ASSERT_S", "run_setup"]

ASSERT_S = 5.0
"""Seconds that an assertion may take to become true."""


async def run_setup(
    desktop: Desktop, steps: Sequence[SetupStep], asserts: Sequence[AssertStep], assets: Assets
) -> None:
    """Carry out the steps and check the assertions.

    Raises:
        SetupFailed: a step failed, or an assertion does not hold.
        DesktopError: the desktop failed.
    """
    for number, step in enumerate(steps, start=1):
        try:
            await run_step(desktop, step, assets)
        except StepFailed as error:
            raise SetupFailed(f"setup step {number} of {len(steps)} ({step.type}): {error}") from error
    for number, assertion in enumerate(asserts, start=1):
        reason = await _awaits(desktop, assertion)
        if reason:
            raise SetupFailed(f"setup assertion {number} of {len(asserts)} does not hold: {reason}")
    await desktop.step((), settle=QUIET, want=())


async def _awaits(desktop: Desktop, assertion: AssertStep) -> str:
    """Why the assertion does not hold; empty once it does."""
    ends = time.monotonic() + ASSERT_S
    while True:
        evidence = await desktop.collect(assertion.evidence)
        try:
            score, results = judge(assertion.check, evidence, None)
            reason = "; ".join(f"{result.name}: {result.reason}" for result in results if result.score < 1)
        except GraderFailed as error:
            score, reason = 0.0, str(error)
        if score == 1.0:
            return ""
        if time.monotonic() >= ends:
            return reason
        await asyncio.sleep(POLL_S)
