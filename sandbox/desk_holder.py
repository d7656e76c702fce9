"""The process that holds a desk: it boots the desktop, keeps it until its end comes, and closes it.

::

    fork, the parent ends -> stdin: the order -> boot -> write run/desks/NAME.json -> stdout: {"desk"} or {"error"}
        -> wait for SIGTERM, idleness, the desktop's death or the file's removal -> close the desktop, remove the file

Run by `sandbox.desks` as `python -m sandbox.desk_holder`, in a session of its own, with stderr in a log file.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from sandbox.backends.named import BackendName, make_backend
from sandbox.backends.owned import OwnedDesktop
from sandbox.desks import Desk, desk_file, process_start, write_desk
from sandbox.desktop import DesktopSpec
from sandbox.errors import DeadlineExceeded, DesktopError, MissingRequirement, SandboxError
from sandbox.image import ImageCache
from store import Home

LOOK_EVERY_S = 2.0

log = logging.getLogger(__name__)


class Order(BaseModel):
    """What the opener wants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path
    name: str
    spec: DesktopSpec
    backend: BackendName
    idle_s: float
    boot_deadline_s: float


async def hold(order: Order) -> None:
    """Hold one desk to its end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    home = Home(order.home)
    path = desk_file(home, order.name)
    backend = make_backend(order.backend, ImageCache(home.images), home.run)
    try:
        try:
            desktop = await backend.boot(order.spec, deadline_s=order.boot_deadline_s)
        except SandboxError as error:
            _answer({"error": _describe(error)})
            return
        desk = _desk(order, desktop)
        write_desk(path, desk)
        try:
            _answer({"desk": desk.model_dump(mode="json")})
        except BrokenPipeError:
            path.unlink(missing_ok=True)
            return
        ended = await _until_over(stop, desktop, path, order.idle_s)
        if ended is None:
            path.unlink(missing_ok=True)
        else:
            write_desk(path, desk.model_copy(update={"ended": ended}))
    finally:
        await backend.close()


async def _until_over(stop: asyncio.Event, desktop: OwnedDesktop, path: Path, idle_s: float) -> str | None:
    """Wait for the end of the desk; a reason when it came by itself."""
    while not stop.is_set():
        try:
            idle = time.time() - path.stat().st_mtime
        except FileNotFoundError:
            return None
        if idle > idle_s:
            return f"nobody used it for {idle_s / 60:.0f} minutes"
        health = await _health(desktop)
        if health is not None:
            return health
        try:
            await asyncio.wait_for(stop.wait(), min(LOOK_EVERY_S, idle_s))
        except TimeoutError:
            continue
    return None


async def _health(desktop: OwnedDesktop) -> str | None:
    """Why the desktop is dead; None while it lives."""
    try:
        health = await desktop.health()
    except DeadlineExceeded:
        return None  # a busy machine; the next look tells
    except DesktopError as error:
        return str(error)
    return None if health.alive else f"its desktop died ({', '.join(f'{k}: {v}' for k, v in health.detail.items())})"


def _desk(order: Order, desktop: OwnedDesktop) -> Desk:
    start = process_start(os.getpid())
    assert start is not None
    return Desk(
        name=order.name,
        spec=desktop.spec,
        backend=order.backend,
        image_digest=desktop.image_digest,
        desktop_id=desktop.id,
        socket=desktop.address.socket,
        token=desktop.address.token,
        epoch=desktop.address.epoch,
        holder_pid=os.getpid(),
        holder_start=start,
        opened_at=time.time(),
        idle_s=order.idle_s,
    )


def _describe(error: SandboxError) -> dict[str, Any]:
    """An exception in JSON, so that the opener can raise it as its own."""
    told: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, MissingRequirement):
        told |= {"what": error.what, "fix": error.fix}
    if isinstance(error, DesktopError):
        told |= {"phase": error.phase, "state": error.state}
    return told


def _answer(message: dict[str, Any]) -> None:
    """Tell the opener, once; it waits for the end of this stream."""
    os.write(1, json.dumps(message).encode())
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.close(quiet)


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(hold(Order.model_validate_json(sys.stdin.buffer.read())))
