"""A whole deterministic run in a process of its own, so that a test can kill it.

`python -m tests.support.deterministic_run ROOT TAPE record|play [attempts:N | checkpoint]` practises with a tiny
policy, an engine and a learner in processes of their own. `record` uses a desktop in memory and records it; `play` has
nothing but the tape. At the start of the Nth attempt, or while a checkpoint is being written, the process kills itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from agent.engines.qwen3vl.checkpoint import build_tiny, save_policy
from agent.engines.tokens import Vocabulary
from agent.harness import Limits
from agent.policies.script import SayDone
from sandbox.actions import Action
from sandbox.backends.recorded import RecordedBackend, RecordingDesktop
from sandbox.backends.tape import Tape
from sandbox.desktop import Desktop, DesktopSpec
from sandbox.evidence import FileRequest
from sandbox.hub import Hub
from store import BlobStore, Catalog, TrajectoryStore
from tests.support.desktop import FakeDesktop
from tests.support.screen import make_frame
from tests.support.tiny_policy import SIZE
from trainer.config import Practice, RunConfig, small_harness
from trainer.session import Session
from trainer.tasks import TrainingTask
from verigen.bundle import Bundle, Provenance
from verigen.checks.model import TextCheck
from verigen.task import Task

__all__ = ["CONFIG", "HalvedBackend"]

SPEC = DesktopSpec(width=160, height=120)
SHADES = {"neither": 0x202020, "left": 0xC04040, "right": 0x4040C0}
"""What the screen looks like after a click on a half of it."""
CONFIG = RunConfig(
    name="run",
    desktops=1,
    deterministic=True,
    policy="start",
    harness=small_harness().model_copy(update={"limits": Limits(max_tokens=10, max_steps=3, max_parse_errors=2)}),
    practice=Practice(updates=3, group_size=4, groups_per_update=1, checkpoint_every=2, max_flat_groups=40),
)


def make_task(side: str) -> TrainingTask:
    """Leave the pointer's last click on one half of the screen."""
    task = Task(
        name=f"halved-{side}",
        instruction=f"Click on the {side} half of the screen.",
        apps=("halved",),
        skills=(side,),
        desktop=SPEC,
        setup=(),
        evidence=(FileRequest(name="side", path="side.txt"),),
        check=TextCheck(item="side", expected=side),
    )
    bundle = Bundle(task=task, oracle=(SayDone(),), provenance=Provenance(generator="hand"), seed_state=side)
    return TrainingTask(bundle=bundle, split="train")


class HalvedBackend:
    """Desktops in memory that know which half of the screen was clicked last; recorded."""

    name = "halved"

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> Desktop:
        """A fresh desktop."""

        def on_step(desktop: FakeDesktop, actions: Sequence[Action]) -> None:
            for action in actions:
                point = getattr(action, "point", None)
                if action.kind == "click" and point is not None:
                    side = "left" if point.x < spec.width // 2 else "right"
                    desktop.files["side.txt"] = side.encode()
                    desktop.frames = [make_frame(SHADES[side], width=spec.width, height=spec.height)]

        frames = [make_frame(SHADES["neither"], width=spec.width, height=spec.height)]
        desktop = FakeDesktop(spec=spec, frames=frames, on_step=on_step, image_digest="sha256:halved")
        return RecordingDesktop(desktop, self._tape, clock=lambda: 1_700_000_000.0)

    async def reap(self) -> list[str]:
        """Nothing is ever left behind."""
        return []

    async def close(self) -> None:
        """Nothing to close."""


class DyingBackend:
    """Ends the process at a boot.

    Args:
        boots: desktops that are given before.
    """

    def __init__(self, backend: HalvedBackend | RecordedBackend, boots: int) -> None:
        self.name = backend.name
        self._backend = backend
        self._left = boots

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> Desktop:
        """A desktop, or the end."""
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1
        return await self._backend.boot(spec, deadline_s=deadline_s)

    async def reap(self) -> list[str]:
        """As the backend does."""
        return await self._backend.reap()

    async def close(self) -> None:
        """As the backend does."""
        await self._backend.close()


def die_in_a_checkpoint(directory: Path) -> None:
    """End the process as soon as a checkpoint is begun."""

    def watch() -> None:
        while not list(directory.glob(".draft-*")):
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


async def run(root: Path, tape: Tape, mode: str, death: str) -> None:
    """Practise to the end, or to death."""
    start = root / "start"
    if not start.exists():
        words = ("Click", "on", "the", "left", "right", "half", "of", "screen.")
        save_policy(build_tiny(Vocabulary(width=SPEC.width, height=SPEC.height, words=words), SIZE, seed=0), start)
    backend: HalvedBackend | RecordedBackend = HalvedBackend(tape) if mode == "record" else RecordedBackend(tape)
    boots = int(death.removeprefix("attempts:")) if death.startswith("attempts:") else -1
    if death == "checkpoint":
        die_in_a_checkpoint(root / "run" / "checkpoints")
    with Catalog.open(f"sqlite:///{root / 'catalog.sqlite'}") as catalog:
        blobs = BlobStore(root / "blobs")
        store = TrajectoryStore(root / "trajectories", blobs, catalog)
        async with Hub(DyingBackend(backend, boots), capacity=1) as hub:
            session = Session(
                config=CONFIG,
                tasks=[make_task(side) for side in ("left", "right")],
                root=root / "run",
                hub=hub,
                store=store,
                blobs=blobs,
                blobs_at=root / "blobs",
                catalog=catalog,
            )
            await session.run()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)  # a path in the configuration is part of it, and must be the same in every run
    with Tape.record(sys.argv[2]) if sys.argv[3] == "record" else Tape.open(sys.argv[2]) as opened:
        asyncio.run(run(Path(), opened, sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else ""))
