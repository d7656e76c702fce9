"""Text in the office desktop: how many typed texts arrive exactly in six applications, and how soon trees are read."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from benchmarks.record import Bench, Result, ResultTable
from sandbox.backends.local import LocalBackend
from sandbox.desktop import Desktop
from sandbox.image import ImageCache
from tests.support.office import TREES, office_desktop, shown, tree_of
from tests.support.office_text import APPS, CASES, type_into

LOOKS = 5
"""At each tree; the median counts."""


def run(bench: Bench) -> Result:
    """Type every case into every application, and read the trees."""
    typed = {app: bench.arm(app, lambda app=app: asyncio.run(_type(bench, app))) for app in APPS}  # type: ignore[misc]
    trees = {
        name: bench.arm(f"tree of {name}", lambda name=name: asyncio.run(_tree(bench, name)))  # type: ignore[misc]
        for name in TREES
    }
    return Result(
        figures={
            "typing_cases": sum(found["cases"] for found in typed.values()),
            "typing_exact": sum(found["exact"] for found in typed.values()),
            "tree_max_s": max(found["median_s"] for found in trees.values()),
        },
        tables=(
            ResultTable(
                title="Texts typed into new documents, saved and read back, starting the application included",
                columns=("application", "texts", "exact", "characters", "seconds"),
                rows=tuple(
                    (app, int(f["cases"]), int(f["exact"]), int(f["characters"]), round(f["seconds"], 1))
                    for app, f in typed.items()
                ),
            ),
            ResultTable(
                title=f"One look at all accessibility trees, median of {LOOKS}, s",
                columns=("application open", "nodes", "median", "longest"),
                rows=tuple((name, int(f["nodes"]), f["median_s"], f["longest_s"]) for name, f in trees.items()),
            ),
        ),
    )


@asynccontextmanager
async def _desktop(bench: Bench) -> AsyncIterator[Desktop]:
    backend = LocalBackend(ImageCache(bench.home / "images"), bench.home / "run")
    try:
        async with office_desktop(backend) as desktop:
            yield desktop
    finally:
        await backend.close()


async def _type(bench: Bench, app: str) -> Mapping[str, float]:
    found = {"cases": 0.0, "exact": 0.0, "characters": 0.0, "seconds": 0.0}
    async with _desktop(bench) as desktop:
        for number, text in enumerate(CASES.values()):
            begun = time.perf_counter()
            saved = await type_into(desktop, APPS[app], text, f"typed-{number:02d}")
            found["cases"] += 1
            found["exact"] += saved == text
            found["characters"] += len(text)
            found["seconds"] += time.perf_counter() - begun
    return found


async def _tree(bench: Bench, name: str) -> Mapping[str, float]:
    took = []
    async with _desktop(bench) as desktop, shown(desktop, TREES[name]):
        for _ in range(LOOKS):
            begun = time.perf_counter()
            root = await tree_of(desktop, TREES[name])
            took.append(time.perf_counter() - begun)
    nodes, level = 0, [root]
    while level:
        nodes += len(level)
        level = [child for node in level for child in node.children]
    return {"nodes": nodes, "median_s": round(statistics.median(took), 3), "longest_s": round(max(took), 3)}
