"""What a local desktop costs: cold boot, steps at 1 and at 8 desktops, its end, and the bytes of a screenshot.

A step is a key, a click or a pointer move in mousepad, then settling, then the screenshot, as in an episode.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.record import Bench, Result, ResultTable
from sandbox.actions import Action, Click, Move, Point, TypeText
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from sandbox.image import ImageCache

BOOTS = 10
STEPS = 100
"""Per desktop."""
SPEC = DesktopSpec(width=1280, height=720)
Figures = dict[str, float]


def run(bench: Bench) -> Result:
    """Measure every arm."""

    def arm(name: str, measure: Callable[[LocalBackend], Coroutine[Any, Any, Figures]]) -> Figures:
        return bench.arm(name, lambda: asyncio.run(_with_backend(bench.home, measure)))

    boot = arm("cold boot", _boot)
    one = arm("steps, 1 desktop", lambda backend: _steps(backend, 1, bench.seed))
    eight = arm("steps, 8 desktops", lambda backend: _steps(backend, 8, bench.seed))
    frame = arm("screenshot", lambda backend: _screenshot(backend))
    figures = {
        **boot,
        **{f"one_{name}": value for name, value in one.items()},
        **{f"eight_{name}": value for name, value in eight.items()},
        **frame,
    }
    return Result(
        figures=figures,
        tables=(
            ResultTable(
                title=f"One desktop, {SPEC.width}x{SPEC.height}, median of {BOOTS}",
                columns=("what", "wall s", "CPU s"),
                rows=(
                    ("cold boot until ready", boot["boot_wall_s"], boot["boot_cpu_s"]),
                    ("end, with everything in it", boot["kill_wall_s"], ""),
                ),
            ),
            ResultTable(
                title="Steps: act, settle, screenshot",
                columns=("desktops", "steps per s", "median ms", "desktop's CPU ms per step", "MB each"),
                rows=tuple(
                    (name, each["steps_per_s"], each["step_ms"], each["step_cpu_ms"], each["memory_mb"])
                    for name, each in (("1", one), ("8", eight))
                ),
            ),
            ResultTable(
                title="One screenshot with mousepad open",
                columns=("form", "kB"),
                rows=(("pixels", frame["frame_raw_kb"]), ("as stored (zstd)", frame["frame_zstd_kb"])),
            ),
        ),
    )


async def _with_backend(home: Path, measure: Callable[[LocalBackend], Coroutine[Any, Any, Figures]]) -> Figures:
    backend = LocalBackend(ImageCache(home / "images"), home / "run")
    try:
        return await measure(backend)
    finally:
        await backend.close()


async def _boot(backend: LocalBackend) -> Figures:
    await (await backend.boot(SPEC)).close()  # the first one starts the keeper and reads the image from the disk
    boots, cpu, kills = [], [], []
    for _ in range(BOOTS):
        begun = time.perf_counter()
        desktop = await backend.boot(SPEC)
        boots.append(time.perf_counter() - begun)
        cpu.append(desktop.cgroup.cpu_seconds())
        begun = time.perf_counter()
        await desktop.close()
        kills.append(time.perf_counter() - begun)
    return {
        "boot_wall_s": round(statistics.median(boots), 3),
        "boot_cpu_s": round(statistics.median(cpu), 3),
        "kill_wall_s": round(statistics.median(kills), 3),
    }


async def _steps(backend: LocalBackend, num_desktops: int, seed: int) -> Figures:
    desktops = [await _with_mousepad(backend) for _ in range(num_desktops)]
    cpu_before = sum(desktop.cgroup.cpu_seconds() for desktop in desktops)
    took: list[float] = []

    async def work(desktop: LocalDesktop, rng: random.Random) -> None:
        for _ in range(STEPS):
            begun = time.perf_counter()
            await desktop.step([_action(rng)])
            took.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, desktop in enumerate(desktops):
            group.create_task(work(desktop, random.Random(seed * 1000 + number)))
    seconds = time.perf_counter() - begun
    cpu = sum(desktop.cgroup.cpu_seconds() for desktop in desktops) - cpu_before
    memory = statistics.mean(desktop.cgroup.memory_bytes() for desktop in desktops)
    num_steps = STEPS * num_desktops
    return {
        "steps_per_s": round(num_steps / seconds, 1),
        "step_ms": round(statistics.median(took) * 1000, 1),
        "step_cpu_ms": round(cpu / num_steps * 1000, 1),
        "memory_mb": round(memory / 1e6),
    }


async def _screenshot(backend: LocalBackend) -> Figures:
    desktop = await _with_mousepad(backend)
    frame = (await desktop.observe()).frame
    assert frame is not None
    stored = zstandard.ZstdCompressor(level=1).compress(frame.encode())
    return {"frame_raw_kb": round(len(frame.pixels) / 1e3), "frame_zstd_kb": round(len(stored) / 1e3, 1)}


async def _with_mousepad(backend: LocalBackend) -> LocalDesktop:
    desktop = await backend.boot(SPEC)
    await desktop.spawn(["mousepad"])
    for _ in range(200):
        if (await desktop.observe(("windows",))).windows:
            return desktop
        await asyncio.sleep(0.05)
    raise RuntimeError("mousepad showed no window in 10 s")


def _action(rng: random.Random) -> Action:
    point = Point(x=rng.randrange(20, 620), y=rng.randrange(120, 480))  # inside the text area, away from its menus
    return rng.choice((TypeText(text=rng.choice("abcdefgh ")), Click(point=point), Move(point=point)))
