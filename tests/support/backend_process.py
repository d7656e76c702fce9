"""A process of its own that uses a backend: boots desktops, says what it has, and ends as it is told.

Run as `python -m tests.support.backend_process RUNTIME_DIR END [DOCKER_URL]`, where END is `close` (as it should end),
`forget` (it returns without closing), `wait` (until it is killed), or `deaf` (so, and Ctrl-C does not reach it).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from sandbox.backends.docker import DockerBackend
from sandbox.backends.local import LocalBackend
from sandbox.desktop import DesktopSpec
from sandbox.image import ImageCache
from store import Home
from tests.support.backends import DesktopBackend


async def main(runtime_dir: Path, end: str, docker: str | None = None) -> None:
    """Boot two desktops, tell of them in one line of JSON, and end."""
    if end == "deaf":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    images = ImageCache(Home.default().images)
    backend: DesktopBackend = LocalBackend(images, runtime_dir)
    if docker is not None:
        backend = DockerBackend(images, runtime_dir, base_url=docker)
    try:
        spec = DesktopSpec(width=320, height=240)
        desktops = await asyncio.gather(*(backend.boot(spec) for _ in range(2)))
        for desktop in desktops:
            await desktop.spawn(["bash", "-c", "trap '' TERM INT HUP; sleep 600"])
        pids = sorted(pid for desktop in desktops for pid in desktop.cgroup.processes())
        groups = [str(path) for desktop in desktops for path in desktop.cgroup.directories]
        told = {"pids": pids, "groups": groups, "ids": [desktop.id for desktop in desktops]}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        if end in ("wait", "deaf"):
            await asyncio.sleep(600)
        if end == "forget":
            os._exit(0)
    finally:
        await backend.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
