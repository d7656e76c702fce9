"""A doubted task's gates, run again while practice goes on: the sampler asks, desktops answer.

::

    sampler doubts -> request -> all gates on fresh desktops -> passed | failed -> sampler, catalog
                         ^                    `- left unproven by the machine: asked again after the next update
                         `- a killed run: the request is in the sampler's state, so it is asked again

One task at a time and one desktop at a time, in line with the attempts that wait: the hub serves priorities strictly,
and practice always waits for desktops, so a lower priority would never be served and a doubted task never come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from agent.errors import GraderFailed
from frontier import AsksForGates, Sampler
from sandbox.errors import DesktopError
from sandbox.hub import Lender
from store import Catalog
from trainer.tasks import TrainingTask
from verigen.assets import MemoryAssets
from verigen.proof import Proof, store_bundle, store_proof
from verigen.synth import PAUSES_S
from verigen.verify import verify

__all__ = ["GateRuns", "Prover", "prover_of"]

LEASE_WAIT_S = 600.0


class Prover(Protocol):
    """Runs the gates of a task; `prover_of` does on desktops."""

    async def __call__(self, task: TrainingTask) -> Proof:
        """All gates again, whatever was proven before.

        Raises:
            DesktopError, GraderFailed: the machine failed.
        """
        ...


class GateRuns:
    """The gates that a sampler asks for.

    Args:
        sampler: one that never doubts anything has no requests.
        tasks: by their ids.
        prove: None answers nothing: doubted tasks stay held.
    """

    def __init__(self, sampler: Sampler, tasks: Mapping[str, TrainingTask], prove: Prover | None) -> None:
        self.answered = 0
        """Requests answered in the whole run."""
        self.running = False
        self.last_fault = ""
        """Why the newest run of gates settled nothing; empty if it settled something."""
        self._sampler = sampler if isinstance(sampler, AsksForGates) else None
        self._tasks = tasks
        self._prove = prove
        self._tried: dict[str, int] = {}
        """When the machine last failed a task's gates, in updates."""

    def begin(self, step: int) -> TrainingTask | None:
        """The task to `run` now; None while another runs, or where nothing is left to ask.

        Args:
            step: updates so far; what the machine failed is asked again when this has grown.
        """
        if self.running or self._sampler is None or self._prove is None:
            return None
        asked = [request.task for request in self._sampler.gate_requests()]
        due = [task for task in asked if self._tried.get(task, -1) < step]
        if not due:
            return None
        self.running = True
        return self._tasks[min(due, key=lambda task: self._tried.get(task, -1))]

    async def run(self, task: TrainingTask, step: int, *, version: Callable[[], int]) -> None:
        """Run the gates that `begin` named and tell the sampler, unless the machine failed.

        Args:
            version: of the weights when the answer is there.
        """
        assert self._prove is not None, "`begin` named it"
        assert self._sampler is not None, "`begin` named it"
        try:
            proof = await self._prove(task)
        except (DesktopError, GraderFailed) as error:
            self._tried[task.id], self.last_fault = step, str(error)
            return
        finally:
            self.running = False
        stopped = proof.stopped_by
        if stopped is not None and stopped.outcome == "unproven":
            self._tried[task.id], self.last_fault = step, stopped.detail
            return
        self.last_fault = ""
        self._tried.pop(task.id, None)
        self._sampler.gate_answer(task.id, passed=proof.passed, version=version())
        self.answered += 1

    @property
    def held(self) -> int:
        """Tasks that are not practised, because they are doubted or broken."""
        return 0 if self._sampler is None else len(self._sampler.held())

    def metrics(self) -> dict[str, float]:
        """For the metrics of an update."""
        return {"gates_rerun": self.answered, "tasks_held": self.held}


def prover_of(hub: Lender, catalog: Catalog | None) -> Prover:
    """Gates on the desktops of a hub; a proof that settles the matter is kept in the place of the one before."""

    async def prove(task: TrainingTask) -> Proof:
        async with hub.lease(task.bundle.task.desktop, deadline_s=LEASE_WAIT_S) as lease:
            image_digest = lease.desktop.image_digest
        proof = await verify(
            task.bundle, task.assets or MemoryAssets(), hub, image_digest=image_digest, limit=1, delays_s=PAUSES_S
        )
        if catalog is not None and proof.outcome != "unproven":
            await asyncio.to_thread(store_bundle, catalog, task.bundle, split=task.split)
            await asyncio.to_thread(store_proof, catalog, proof)
        return proof

    return prove
