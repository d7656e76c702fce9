"""A hub in a storm: 100 workers over 16 desktops, with workers, connections and probes killed under it.

A worker is a task with a hub client of its own. Ten of them share a process, so `kill -9` takes ten at once; single
ones vanish in the middle of a call (every fifth lease), and single connections are cut, slow, or carry requests twice
or late. The hub runs here, behind its socket, and destroys no desktop before its marks are read.

`hub_p99_ms` is what a step or command took at the worker beyond the time that its desktop took: both ways through the
socket, the worker's own coding, and waiting for a processor at either end. It is of calls that nothing was done to in
any of their attempts; `hub_cut_p99_ms` is the same of calls whose connection was cut, so it has the worker's pauses and
new connections in it. How late the hub's loop notices a desktop's answer counts as the desktop's time, and is measured
by itself as `hub_loop_lag_p99_ms`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos_audit import Findings, audit, leftovers, percentile
from benchmarks.chaos_worker import LEDGER, Order
from benchmarks.record import HOUSE, Bench, Result, ResultTable
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from sandbox.errors import SandboxError
from sandbox.hub import Hub, HubServer, HubStats
from sandbox.hub.admission import LoadAdmission
from sandbox.image import ImageCache

__all__ = ["Outcome", "Storm", "run", "storm"]

READ_S = 8.0
QUIET_S = 0.4
END_S = 90.0
LAG_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Storm:
    """How hard it blows."""

    seconds: float = 300.0
    workers: int = 100
    workers_per_process: int = 10
    desktops: int = 16
    process_kill_every_s: float = 20.0
    probe_kill_every_s: float = 8.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What it left."""

    findings: Findings
    orphans: list[str]
    stats: HubStats
    killed_workers: int
    """In processes that were killed; those that vanished alone are in the findings."""
    killed_probes: int
    lag_ms: list[float]
    """How late the hub's own event loop was, milliseconds."""
    load: float
    """Mean load of the machine meanwhile."""


class WitnessedBackend(LocalBackend):
    """Reads what each desktop's ledger holds before it is destroyed."""

    def __init__(self, images: ImageCache, runtime_dir: Path) -> None:
        super().__init__(images, runtime_dir)
        self.live: dict[str, LocalDesktop] = {}
        self.ledgers: dict[str, str | None] = {}
        """Desktop id -> its ledger at its end; None where it could not be read."""
        self.killed_probes = 0

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> LocalDesktop:
        desktop = await super().boot(spec, deadline_s=deadline_s)
        self.live[desktop.id] = desktop
        return desktop

    async def destroy(self, desktop_id: str) -> str:
        desktop = self.live.pop(desktop_id, None)
        if desktop is not None:
            self.ledgers[desktop_id] = None
            with contextlib.suppress(SandboxError, TimeoutError):
                async with asyncio.timeout(READ_S):
                    self.ledgers[desktop_id] = await _final_ledger(desktop)
        return await super().destroy(desktop_id)


async def _final_ledger(desktop: LocalDesktop) -> str:
    """The ledger when its program has written all that was typed."""
    before = None
    while True:
        try:
            now = (await desktop.get_file(LEDGER)).decode(errors="replace")
        except FileNotFoundError:
            now = ""
        if now == before:
            return now
        before = now
        await asyncio.sleep(QUIET_S)


def run(bench: Bench) -> Result:
    """Let it blow once."""
    plan = Storm()
    figures = bench.arm(
        f"{plan.workers} workers, {plan.desktops} desktops, {plan.seconds:g} s",
        lambda: _figures(asyncio.run(storm(plan, bench.home, seed=bench.seed)), plan),
    )
    rows = tuple((name, value) for name, value in figures.items())
    return Result(
        figures=figures, tables=(ResultTable(title="A hub in a storm", columns=("figure", "value"), rows=rows),)
    )


async def storm(plan: Storm, home: Path, *, seed: int) -> Outcome:
    """Let workers loose on a hub, kill some, and look at what is left.

    Args:
        home: the state folder, which has the `light` image.
    """
    folder = home / "chaos" / secrets.token_hex(4)
    (folder / "run").mkdir(parents=True)
    backend = WitnessedBackend(ImageCache(home / "images"), folder / "run")
    token, rng = secrets.token_hex(16), random.Random(seed)
    crowd = _Crowd(plan, folder, token, seed)
    lag_ms: list[float] = []
    loads: list[float] = []
    hub = Hub(backend, capacity=plan.desktops, admission=LoadAdmission(), reap_every_s=10.0)
    async with hub, HubServer(hub, token=token) as server:
        await crowd.start(server.address)
        nuisances = [
            asyncio.create_task(crowd.kill_processes(rng)),
            asyncio.create_task(_kill_probes(backend, plan, rng)),
            asyncio.create_task(_watch(lag_ms, loads)),
        ]
        await asyncio.sleep(plan.seconds)
        for task in nuisances[:2]:
            task.cancel()
        await asyncio.gather(*nuisances[:2], return_exceptions=True)
        await crowd.end()
        nuisances[2].cancel()
        await asyncio.gather(nuisances[2], return_exceptions=True)
        stats = hub.stats()
    outcome = Outcome(
        findings=audit(sorted(folder.glob("*.jsonl")), backend.ledgers),
        orphans=leftovers(folder / "run", backend.ledgers),
        stats=stats,
        killed_workers=crowd.killed,
        killed_probes=backend.killed_probes,
        lag_ms=lag_ms,
        load=statistics.mean(loads),
    )
    shutil.rmtree(folder)
    return outcome


class _Crowd:
    """The processes of workers."""

    def __init__(self, plan: Storm, folder: Path, token: str, seed: int) -> None:
        self._plan = plan
        self._folder = folder
        self._token = token
        self._seed = seed
        self._until = 0.0
        self._address = ""
        self._started = 0
        self._processes: list[tuple[asyncio.subprocess.Process, tuple[int, ...]]] = []
        self.killed = 0

    async def start(self, address: str) -> None:
        """Start all workers."""
        self._address, self._until = address, time.time() + self._plan.seconds
        everyone, at_once = tuple(range(self._plan.workers)), self._plan.workers_per_process
        for first in range(0, len(everyone), at_once):
            await self._start(everyone[first : first + at_once])

    async def kill_processes(self, rng: random.Random) -> None:
        """Kill one process of workers after the other, and put another in its place."""
        while True:
            await asyncio.sleep(self._plan.process_kill_every_s)
            process, workers = self._processes.pop(rng.randrange(len(self._processes)))
            process.kill()
            await process.wait()
            self.killed += len(workers)
            await self._start(workers)

    async def end(self) -> None:
        """Wait for all workers to end by themselves; kill those that do not."""
        ends_at = time.monotonic() + END_S
        for process, _ in self._processes:
            try:
                async with asyncio.timeout(max(0.0, ends_at - time.monotonic())):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _start(self, workers: tuple[int, ...]) -> None:
        self._started += 1
        order = Order(
            address=self._address,
            token=self._token,
            workers=workers,
            seed=self._seed,
            until=self._until,
            journal=self._folder / f"{self._started:04d}.jsonl",
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.chaos_worker", stdin=asyncio.subprocess.PIPE, cwd=HOUSE
        )
        assert process.stdin is not None
        process.stdin.write(order.model_dump_json().encode())
        process.stdin.close()
        self._processes.append((process, workers))


async def _kill_probes(backend: WitnessedBackend, plan: Storm, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(plan.probe_kill_every_s)
        if not backend.live:
            continue
        pid = _probe_of(rng.choice(list(backend.live.values())))
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                backend.killed_probes += 1


def _probe_of(desktop: LocalDesktop) -> int | None:
    """The probe's process: it is Python under the probe's uid, the third of the desktop's four."""
    for pid in sorted(desktop.cgroup.processes()):
        try:
            if Path(f"/proc/{pid}").stat().st_uid % 4 == 2 and "python3" in Path(f"/proc/{pid}/comm").read_text():
                return pid
        except OSError:
            continue
    return None


async def _watch(lag_ms: list[float], loads: list[float]) -> None:
    """Measure how late the event loop is, and how busy the machine."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + LAG_S
        await asyncio.sleep(LAG_S)
        lag_ms.append((clock() - due) * 1000)
        loads.append(os.getloadavg()[0])


def _figures(outcome: Outcome, plan: Storm) -> Mapping[str, float]:
    found, stats = outcome.findings, outcome.stats
    kills = outcome.killed_workers + found.counts["vanished"] + outcome.killed_probes
    return {
        "hub_p50_ms": round(percentile(found.overhead_ms, 0.5), 1),
        "hub_p99_ms": round(percentile(found.overhead_ms, 0.99), 1),
        "hub_cut_p50_ms": round(percentile(found.cut_ms, 0.5), 1),
        "hub_cut_p99_ms": round(percentile(found.cut_ms, 0.99), 1),
        "hub_loop_lag_p99_ms": round(percentile(outcome.lag_ms, 0.99), 1),
        "load_per_core": round(outcome.load / len(os.sched_getaffinity(0)), 1),
        "chaos_kills": kills,
        "chaos_workers_killed_with_their_process": outcome.killed_workers,
        "chaos_workers_vanished": found.counts["vanished"],
        "chaos_probes_killed": outcome.killed_probes,
        "chaos_leaks": len(found.leaks),
        "chaos_orphans": len(outcome.orphans),
        "chaos_duplicates": len(found.duplicates),
        "chaos_false_done": len(found.false_done),
        "chaos_false_refused": len(found.false_refused),
        "chaos_unread": found.unread,
        "chaos_leases": found.counts["lease"],
        "chaos_actions": found.counts["mark"],
        "chaos_actions_done": found.counts["said done"],
        "chaos_requests_repeated": found.counts["repeated"],
        "chaos_connections_cut": found.counts["cut"],
        "chaos_requests_slow": found.counts["slow"],
        "chaos_seconds": plan.seconds,
        "boot_p50_s": round(stats.boot_p50_s or 0.0, 2),
        "boot_p95_s": round(stats.boot_p95_s or 0.0, 2),
        "lease_wait_p95_s": round(stats.lease_wait_p95_s or 0.0, 1),
        "step_p95_s": round(stats.step_p95_s or 0.0, 3),
        "utilisation": round(stats.utilisation, 2),
        "boots_held_back_share": round(stats.held_back_share, 2),
    }
