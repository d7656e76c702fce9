"""The hub in a storm, for a short while: what `frontdesk bench chaos` does for five minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chaos import Storm, storm
from sandbox.image import ImageCache
from tests.support.backends import cannot_run, missing_for_desktops

pytestmark = pytest.mark.desktop

SHORT = Storm(
    seconds=20.0,
    workers=10,
    workers_per_process=5,
    desktops=4,
    process_kill_every_s=7.0,
    probe_kill_every_s=4.0,
)


async def test_a_storm_breaks_no_promise_and_leaves_nothing(images: ImageCache, tmp_path: Path) -> None:
    missing = missing_for_desktops(images)
    if missing is not None:
        cannot_run(missing)
    (tmp_path / "images").symlink_to(images.root)
    outcome = await storm(SHORT, tmp_path, seed=7)
    found = outcome.findings
    assert (found.leaks, found.duplicates, found.false_done, found.false_refused) == ([], [], [], [])
    assert outcome.orphans == []
    # It did blow: there were kills, and actions of which some were sent more than once.
    assert outcome.killed_workers >= SHORT.workers_per_process
    assert found.counts["said done"] > 0
    assert found.counts["repeated"] + found.counts["cut"] > 0
    assert list((tmp_path / "chaos").iterdir()) == []
