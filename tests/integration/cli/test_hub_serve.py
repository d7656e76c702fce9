"""`frontdesk hub serve` as a process: borrowed from, looked at, stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from sandbox.actions import TypeText
from sandbox.desktop import DesktopSpec
from sandbox.errors import DesktopError
from sandbox.hub import HubAddress, RemoteHub
from sandbox.hub.token import read_token
from sandbox.image import ImageCache
from tests.support.backends import cannot_run, missing_for_desktops
from tests.support.machine_state import wait_until_gone

pytestmark = pytest.mark.desktop

SPEC = DesktopSpec(width=480, height=360)
HOUSE = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
async def test_a_served_hub_lends_tells_and_leaves_nothing(
    end: signal.Signals, images: ImageCache, tmp_path: Path
) -> None:
    missing = missing_for_desktops(images)
    if missing is not None:
        cannot_run(missing)
    home = tmp_path / "home"
    home.mkdir()
    (home / "images").symlink_to(images.root)
    environment = os.environ | {"FRONTDESK_HOME": str(home), "PYTHONPATH": str(HOUSE)}

    async def frontdesk(*words: str) -> asyncio.subprocess.Process:
        code = "from cli.main import run; run()"
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, *words, stdout=asyncio.subprocess.PIPE, env=environment, limit=1 << 20
        )

    hub = await frontdesk("hub", "serve", "--port", "0", "--desktops", "2", "--json")
    assert hub.stdout is not None
    try:
        told = ""
        while not told.endswith("}\n"):
            told += (await hub.stdout.readline()).decode()
        served = json.loads(told)
        address = HubAddress.parse(served["address"], read_token(Path(served["token_file"])))
        async with RemoteHub(address, alive_s=20) as far, far.lease(SPEC) as lease:
            await lease.desktop.put_file("/tmp/note", b"here")
            await lease.desktop.step((TypeText(text="x"),))
            assert (await lease.desktop.exec(["cat", "/tmp/note"])).stdout == b"here"
            status = await frontdesk("hub", "status", "--hub", served["address"], "--json")
            out, _ = await status.communicate()
            stats = json.loads(out)
            assert (status.returncode, stats["capacity"], stats["leased"]) == (0, 2, 1)
            assert stats["step_p95_s"] > 0
            hub.send_signal(end)
            assert await hub.wait() == (0 if end == signal.SIGTERM else -end)
            with pytest.raises(DesktopError):
                await lease.desktop.step((TypeText(text="y"),), deadline_s=1)
    finally:
        if hub.returncode is None:
            hub.kill()
            await hub.wait()
    left = await asyncio.to_thread(wait_until_gone, home)
    assert [line for line in left if "directory" not in line and "control group" not in line] == []
