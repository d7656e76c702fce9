"""A program that uses the store in child processes and lets them die.

Run as `python -m tests.support.store_process MODE ROOT N`.

It imports once and forks, so that a child's life costs milliseconds. Children report each thing that they were told is
stored, one line each, after the call returned: `blob SHA` or `trajectory ID`.

kill   N times, two children put and commit for ever, until SIGKILL ends them in the middle of whatever they do
steps  children put, commit and collect; the n-th dies at its n-th effect on the disk; each has its own root, ROOT/n
race   N children open a new catalog and put and commit the same things at the same moment
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from store.blobs import BlobStore
from store.catalog import Catalog
from store.errors import TrajectoryConflict
from store.trajectories import TrajectoryStore
from tests.support.trajectories import make_trajectory

DIED = 17
FINISHED = 0


def open_stores(root: Path) -> tuple[BlobStore, Catalog, TrajectoryStore]:
    """The three stores under a root."""
    blobs = BlobStore(root / "blobs")
    catalog = Catalog.open(f"sqlite:///{root / 'catalog.sqlite'}")
    return blobs, catalog, TrajectoryStore(root / "trajectories", blobs, catalog)


def report(line: str) -> None:
    """Tell the test; a short write to a pipe happens whole or not at all."""
    os.write(1, f"{line}\n".encode())


def fork(work: Callable[[], None]) -> int:
    """Run `work` in a child that never returns here; give its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = FINISHED
    except Exception:  # noqa: BLE001 - the child must end here, whatever happened to it
        traceback.print_exc()
    os._exit(code)


def put_and_commit_for_ever(root: Path, seed: int) -> NoReturn:
    """Blobs of all sizes, and trajectories that refer to them."""
    rng = random.Random(seed)
    blobs, _, trajectories = open_stores(root)
    number = 0
    while True:
        frames = []
        for _ in range(3):
            size = rng.choice((10, 5_000, 300_000))
            data = rng.randbytes(size) if rng.random() < 0.5 else bytes([rng.randrange(3)]) * size
            if rng.random() < 0.5:
                sha = blobs.put(data)
            else:
                source = root / f"source-{seed}"
                source.write_bytes(data)
                sha = blobs.put_file(source)
            assert sha == hashlib.sha256(data).hexdigest()
            report(f"blob {sha}")
            frames.append(sha)
        trajectory = make_trajectory(f"ep-{seed}-{number}", frames=tuple(frames))
        trajectories.commit(trajectory)
        report(f"trajectory {trajectory.id}")
        number += 1


def kill(root: Path, rounds: int) -> None:
    """Kill pairs of busy children, each pair a little after some number of reports."""
    rng = random.Random(0)
    for number in range(rounds):
        receive, send = os.pipe()

        def work(seed: int, send: int = send) -> None:
            os.dup2(send, 1)
            put_and_commit_for_ever(root, seed)

        pids = [fork(lambda seed=2 * number + which: work(seed)) for which in range(2)]  # type: ignore[misc]
        os.close(send)
        with os.fdopen(receive, "rb") as reports:
            seen = [reports.readline() for _ in range(rng.randrange(1, 16))]
            time.sleep(rng.uniform(0, 0.01))
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            seen += reports.readlines()
        for pid in pids:
            _, status = os.waitpid(pid, 0)
            assert os.WIFSIGNALED(status), f"a child ended by itself: {status}"
        os.write(1, b"".join(seen))


def die_at_step(count: int) -> None:
    """Make this process die just before its `count`-th effect."""
    left = count

    def stop_before(effect: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(DIED)
            return effect(*args, **options)

        return run

    for name in ("fsync", "replace", "pwrite", "utime", "unlink", "mkdir"):
        setattr(os, name, stop_before(getattr(os, name)))
    Catalog.add_episode = stop_before(Catalog.add_episode)  # type: ignore[method-assign]


def put_commit_collect(root: Path, step: int) -> None:
    """One of each, dying at a step."""
    blobs, catalog, trajectories = open_stores(root)
    garbage = blobs.put(b"garbage" * 1000)
    os.utime(blobs.root / garbage[:2] / garbage, (0, 0))
    die_at_step(step)
    source = root / "source"
    source.write_bytes(random.Random(1).randbytes(50_000))
    frames = (blobs.put(b"frame" * 1000), blobs.put_file(source))
    for sha in frames:
        report(f"{step} blob {sha}")
    trajectories.commit(make_trajectory("ep-1", frames=frames))
    report(f"{step} trajectory ep-1")
    blobs.gc(trajectories.live_blobs(), grace_s=1000)
    catalog.close()


def steps(root: Path, most: int) -> None:
    """Die at the first effect, the second, and so on until one child comes through."""
    for step in range(1, most):
        (root / str(step)).mkdir()
        _, status = os.waitpid(fork(lambda step=step: put_commit_collect(root / str(step), step)), 0)  # type: ignore[misc]
        code = os.waitstatus_to_exitcode(status)
        assert code in (DIED, FINISHED), f"step {step} ended with {code}"
        if code == FINISHED:
            report(f"{step} finished")
            return


def race_one(root: Path, start: int, number: int) -> None:
    """Wait for the start, then do what the others do."""
    os.read(start, 1)
    blobs, catalog, trajectories = open_stores(root)
    with catalog:
        frames = tuple(blobs.put(bytes([n]) * 10_000) for n in range(5))
        trajectories.commit(make_trajectory("same", frames=frames))
        report("trajectory same")
        try:
            trajectories.commit(make_trajectory("contested", frames=frames, seed_env=number))
            report(f"won {number}")
        except TrajectoryConflict:
            report(f"lost {number}")


def race(root: Path, children: int) -> None:
    """Start all at once."""
    start, go = os.pipe()
    pids = []
    for number in range(children):

        def work(number: int = number) -> None:
            os.close(go)
            race_one(root, start, number)

        pids.append(fork(work))
    os.close(go)
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"a child failed: {status}"


if __name__ == "__main__":
    {"kill": kill, "steps": steps, "race": race}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
