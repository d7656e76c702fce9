"""What local desktops cost: boots, resets, ends, and steps at 1 to 32 desktops at once.

A step is a key, a click or a pointer move in mousepad, then settling, then the screenshot, stored once and lossless, as
in an episode. Desktops are leased from a hub, as episodes do. CPU time is that of the desktops (their control groups)
and of this process, which is the hub and stores the screenshots.
"""

from __future__ import annotations

import asyncio
import collections
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.record import Bench, Result, ResultTable
from benchmarks.scenes.editor import SPEC, editor_action, open_editor
from sandbox.backends.local import LocalBackend
from sandbox.desktop import Desktop, Observation
from sandbox.hub import Hub
from sandbox.image import ImageCache
from store import BlobStore

BOOTS = 10
RESET_S = 8.0
STEP_S = 8.0
"""How long resets, and steps at each number of desktops, are measured."""
DESKTOPS = (1, 2, 4, 8, 16, 32)
LATER_S = 0.5
"""After so long a settled screen should still be the same."""
CALLS = 300
Figures = dict[str, float]

END_SESSION = """
import contextlib, os, pwd
uid, alive = pwd.getpwnam("user").pw_uid, True
while alive:
    alive = False
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                alive = True
                os.kill(int(pid), 9)
"""
NEW_HOME = """
import os, shutil
for folder in (os.environ["HOME"], os.environ["XDG_RUNTIME_DIR"]):
    for entry in os.scandir(folder):
        shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
shutil.copytree("/etc/skel", os.environ["HOME"], symlinks=True, dirs_exist_ok=True)
"""


def run(bench: Bench) -> Result:
    """Measure every arm."""

    def arm(name: str, measure: Callable[[LocalBackend, Path], Coroutine[Any, Any, Figures]]) -> Figures:
        return bench.arm(name, lambda: asyncio.run(_with_backend(bench.home, measure)))

    boot = arm("boots", _boots)
    reset = arm("resets", _resets)
    kept = arm("sessions restarted in place", _restarts)
    steps = {
        count: arm(f"steps, {count} desktops", partial(_steps, num_desktops=count, seed=bench.seed))
        for count in DESKTOPS
    }
    late = arm("screens after settling", partial(_unsettled, seed=bench.seed))
    hub = arm("hub overhead", _overhead)
    most, eight = steps[DESKTOPS[-1]], steps[8]
    figures = {
        **boot,
        **reset,
        **kept,
        **{f"steps_per_s_{count}": each["steps_per_s"] for count, each in steps.items()},
        "ready32_s": most["ready_s"],
        "changed_share": most["changed_share"],
        **late,
        "cpu_ms_per_step": eight["cpu_ms"],
        "stored_kb_per_step": eight["stored_kb"],
        "frame_dedup_ratio": most["dedup_ratio"],
        "mb_per_desktop": eight["memory_mb"],
        **hub,
    }
    return Result(figures=figures, tables=_tables(figures, steps))


def _tables(figures: Figures, steps: dict[int, Figures]) -> tuple[ResultTable, ...]:
    return (
        ResultTable(
            title=f"One desktop, {SPEC.width}x{SPEC.height}",
            columns=("what", "wall s", "CPU s"),
            rows=(
                (f"cold boot until ready, median of {BOOTS}", figures["cold_boot_s"], figures["cold_boot_cpu_s"]),
                ("a lease of a warm desktop", figures["warm_boot_s"], ""),
                (
                    "reset: destroyed and booted, back to back",
                    round(1 / figures["resets_per_s"], 3),
                    figures["cpu_s_per_reset"],
                ),
                ("not offered: session restarted in place, unchecked", figures["restart_s"], figures["restart_cpu_s"]),
                ("end, with everything in it", figures["kill_ms"] / 1000, ""),
            ),
        ),
        ResultTable(
            title="Steps: act, settle, screenshot, stored once",
            columns=("desktops", "steps per s", "median ms", "p95 ms", "CPU ms", "of it desktop", "MB each", "changed"),
            rows=tuple(
                (
                    str(count),
                    each["steps_per_s"],
                    each["step_ms"],
                    each["step_p95_ms"],
                    each["cpu_ms"],
                    each["desktop_cpu_ms"],
                    each["memory_mb"],
                    each["changed_share"],
                )
                for count, each in steps.items()
            ),
        ),
    )


async def _with_backend(home: Path, measure: Callable[[LocalBackend, Path], Coroutine[Any, Any, Figures]]) -> Figures:
    backend = LocalBackend(ImageCache(home / "images"), home / "run")
    with tempfile.TemporaryDirectory(dir=home) as tmp:  # beside the real store: on the same disk
        try:
            return await measure(backend, Path(tmp))
        finally:
            await backend.close()


# -- boots and resets --------------------------------------------------------------------------------------------------


async def _boots(backend: LocalBackend, _: Path) -> Figures:
    await (await backend.boot(SPEC)).close()  # the first one starts the keeper and reads the image from the disk
    boots, cpu, kills = [], [], []
    for _n in range(BOOTS):
        begun = time.perf_counter()
        desktop = await backend.boot(SPEC)
        boots.append(time.perf_counter() - begun)
        cpu.append(desktop.cgroup.cpu_seconds())
        await open_editor(desktop)
        begun = time.perf_counter()
        await desktop.close()
        kills.append(time.perf_counter() - begun)
    waits = []
    async with Hub(backend, capacity=4, warm=2, specs=[SPEC], close_backend=False) as hub:
        for _n in range(BOOTS):
            for _poll in range(1500):
                if hub.stats().ready:
                    break
                await asyncio.sleep(0.02)
            begun = time.perf_counter()
            async with hub.lease(SPEC):
                waits.append(time.perf_counter() - begun)
    return {
        "cold_boot_s": round(statistics.median(boots), 3),
        "cold_boot_cpu_s": round(statistics.median(cpu), 3),
        "warm_boot_s": round(statistics.median(waits), 4),
        "kill_ms": round(1000 * statistics.median(kills), 1),
    }


async def _resets(backend: LocalBackend, _: Path) -> Figures:
    """As many boots and ends as the cores take, for a while."""
    ends, cpu = time.perf_counter() + RESET_S, [0.0]
    count = 0
    begun = time.perf_counter()

    async def worker() -> None:
        nonlocal count
        while time.perf_counter() < ends:
            desktop = await backend.boot(SPEC)
            cpu[0] += desktop.cgroup.cpu_seconds()
            await desktop.close()
            count += 1

    async with asyncio.TaskGroup() as group:
        for _n in range(2):
            group.create_task(worker())
    return {
        "resets_per_s": round(count / (time.perf_counter() - begun), 2),
        "cpu_s_per_reset": round(cpu[0] / count, 3),
    }


async def _restarts(backend: LocalBackend, _: Path) -> Figures:
    """The least that a reset in place costs: its programs ended, a new home, its session started; nothing verified."""
    took, cpu, failed = [], [], 0
    for _n in range(BOOTS):
        desktop = await backend.boot(SPEC)
        fresh = _sha(await desktop.observe())
        await open_editor(desktop)
        used, begun = desktop.cgroup.cpu_seconds(), time.perf_counter()
        for source, user in ((END_SESSION, "root"), (NEW_HOME, "user")):
            ended = await desktop.exec(["python3", "-I", "-S", "-c", source], user=user)  # type: ignore[arg-type]
            if not ended.ok:
                raise RuntimeError(ended.stderr.decode(errors="replace"))
        await desktop.spawn(["/usr/lib/frontdesk/session"])
        for _poll in range(500):
            if _sha(await desktop.observe()) == fresh:
                took.append(time.perf_counter() - begun)
                cpu.append(desktop.cgroup.cpu_seconds() - used)
                break
            await asyncio.sleep(0.01)
        else:  # a window manager that finds the one before not gone yet gives up
            failed += 1
        await desktop.close()
    return {
        "restart_s": round(statistics.median(took), 3),
        "restart_cpu_s": round(statistics.median(cpu), 3),
        "restart_failed_share": failed / BOOTS,
    }


# -- steps -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _editors(backend: LocalBackend, num_desktops: int) -> AsyncIterator[tuple[list[Desktop], float]]:
    """Leased desktops with an editor open, and how long it took until all were leased, seconds."""
    async with Hub(backend, capacity=num_desktops, close_backend=False) as hub, AsyncExitStack() as stack:
        begun = time.perf_counter()
        leases = await asyncio.gather(
            *(stack.enter_async_context(hub.lease(SPEC, deadline_s=300.0)) for _ in range(num_desktops))
        )
        ready_s = time.perf_counter() - begun
        desktops: list[Desktop] = [lease.desktop for lease in leases]
        for desktop in desktops:
            await open_editor(desktop)
        yield desktops, ready_s


async def _steps(backend: LocalBackend, tmp: Path, *, num_desktops: int, seed: int) -> Figures:
    blobs = BlobStore(tmp / "blobs")
    took: list[float] = []
    seen: collections.Counter[str] = collections.Counter()
    changed = 0

    async def work(desktop: Desktop, rng: random.Random, ends: float) -> None:
        nonlocal changed
        before = _sha(await desktop.observe())
        while time.perf_counter() < ends:
            begun = time.perf_counter()
            frame = (await desktop.step([editor_action(rng)])).observation.frame
            assert frame is not None
            if not seen[frame.sha256]:
                await asyncio.to_thread(blobs.put, frame.encode())
            seen[frame.sha256] += 1
            changed += frame.sha256 != before
            before = frame.sha256
            took.append(time.perf_counter() - begun)

    async with _editors(backend, num_desktops) as (desktops, ready_s):
        cpu, own = (await _used(desktops))["cpu_seconds"], time.process_time()
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number, desktop in enumerate(desktops):
                tasks.create_task(work(desktop, random.Random(seed * 1000 + number), begun + STEP_S))
        seconds = time.perf_counter() - begun
        own = time.process_time() - own
        used = await _used(desktops)
        cpu = used["cpu_seconds"] - cpu
    stored = sum(path.stat().st_size for path in (tmp / "blobs").rglob("*") if path.is_file())
    took.sort()
    return {
        "ready_s": round(ready_s, 2),
        "steps_per_s": round(len(took) / seconds, 1),
        "step_ms": round(1000 * took[len(took) // 2], 1),
        "step_p95_ms": round(1000 * took[int(len(took) * 0.95)], 1),
        "cpu_ms": round(1000 * (cpu + own) / len(took), 1),
        "desktop_cpu_ms": round(1000 * cpu / len(took), 1),
        "memory_mb": round(used["memory_bytes"] / num_desktops / 1e6),
        "changed_share": round(changed / len(took), 3),
        "dedup_ratio": round(seen.total() / len(seen), 3),
        "stored_kb": round(stored / 1000 / len(took), 1),
    }


async def _unsettled(backend: LocalBackend, _: Path, *, seed: int) -> Figures:
    """How many screens that counted as settled changed within `LATER_S`; as many desktops again make the load."""
    settled = changed = 0

    async def look(desktop: Desktop, rng: random.Random, ends: float) -> None:
        nonlocal settled, changed
        while time.perf_counter() < ends:
            step = await desktop.step([editor_action(rng)])
            await asyncio.sleep(LATER_S)
            if step.settle.settled:
                settled += 1
                changed += _sha(await desktop.observe()) != _sha(step.observation)

    async def load(desktop: Desktop, rng: random.Random, ends: float) -> None:
        while time.perf_counter() < ends:
            await desktop.step([editor_action(rng)])

    async with _editors(backend, 16) as (desktops, _ready_s), asyncio.TaskGroup() as tasks:
        ends = time.perf_counter() + 2 * STEP_S
        for number, desktop in enumerate(desktops):
            work = (look, load)[number % 2]
            tasks.create_task(work(desktop, random.Random(seed * 1000 + number), ends))
    return {"unsettled_share": round(changed / settled, 4), "settled_screens": settled}


async def _overhead(backend: LocalBackend, _: Path) -> Figures:
    """What a lease adds to a call that asks for nothing."""

    async def call_ms(desktop: Desktop) -> float:
        took = []
        for _n in range(CALLS):
            begun = time.perf_counter()
            await desktop.observe(())
            took.append(time.perf_counter() - begun)
        return 1000 * statistics.median(took)

    direct = await backend.boot(SPEC)
    alone_ms = await call_ms(direct)
    async with Hub(backend, capacity=1, close_backend=False) as hub, hub.lease(SPEC) as lease:
        leased_ms = await call_ms(lease.desktop)
    return {"call_ms": round(alone_ms, 3), "hub_overhead_ms": round(leased_ms - alone_ms, 3)}


async def _used(desktops: list[Desktop]) -> Figures:
    """CPU time and memory of all of them together."""
    details = [(await desktop.health()).detail for desktop in desktops]
    return {name: sum(float(detail[name]) for detail in details) for name in ("cpu_seconds", "memory_bytes")}


def _sha(observation: Observation) -> str:
    assert observation.frame is not None
    return observation.frame.sha256
