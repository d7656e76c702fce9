"""The flush recipe before grading: what was saved gets onto the disk, and nothing else happens.

It never does the agent's work (gate G0 refuses keys that could save, G3 grades a no-op after it). An application that
does not end when told to is left alone: what it did not write is not there, which is what the evidence then says.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.errors import GraderFailed
from sandbox.desktop import Desktop
from verigen.assets import Assets
from verigen.steps import QUIET, StepFailed, run_step
from verigen.task import FlushStep

__all__ = ["run_settle"]


async def run_settle(desktop: Desktop, steps: Sequence[FlushStep], assets: Assets) -> None:
    """Run a flush recipe and wait until the screen is quiet.

    Raises:
        GraderFailed: a step other than `terminate` failed.
        DesktopError: the desktop failed.
    """
    for step in steps:
        try:
            await run_step(desktop, step, assets)
        except StepFailed as error:
            if step.type != "terminate":
                raise GraderFailed(f"the flush recipe's step {step.type} failed: {error}") from error
    await desktop.step((), settle=QUIET, want=())
