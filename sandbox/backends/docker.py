"""Desktops in Docker containers, from the same image, with the same users, probe and session as the local backend's.

A container's first process reads its configuration from standard input, which this process holds open: when this
process ends, however it ends, the daemon closes that input, the first process ends, and the daemon removes the
container. What a killed daemon left is removed by `reap`, which knows the dead by the free lock of their directory.

::

    boot: create -> users -> attach -> start -> configuration -> the probe answers `ready` -> close: removed
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import select
import shutil
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sandbox import errors
from sandbox.backends.cgroups import Cgroup, CgroupUnavailable
from sandbox.backends.docker_box import COMMAND, desktop_files, host_config, lower_loopback
from sandbox.backends.docker_engine import Engine, EngineError, connect
from sandbox.backends.launch import Uids, claim_uids, spawner_config, stage_code
from sandbox.backends.liveness import hold_lock, lock_of_dead
from sandbox.backends.owned import OwnedDesktop
from sandbox.client import ProbeAddress, ProbeClient
from sandbox.desktop import DesktopSpec
from sandbox.image import Image, ImageCache
from sandbox.image.docker import docker_image, require_imported

__all__ = ["DockerBackend", "DockerDesktop"]

log = logging.getLogger(__name__)
T = TypeVar("T")

PREFIX = "docker-"
OWNER, RUNTIME, DESKTOP, EPOCH = (f"frontdesk.{key}" for key in ("owner", "runtime", "desktop", "epoch"))
CALLS_AT_ONCE = 8
POLL_S = 0.005
NEWS_S = 5.0
"""How long the daemon is given to say how a container ended."""
LOG_TAIL = 2000
"""Bytes kept of the last that a desktop printed."""


class DockerDesktop(OwnedDesktop):
    """A desktop in a container."""


class _Held:
    """A container of ours, from before it is made until it is gone."""

    def __init__(self, desktop_id: str, directory: Path, token: str) -> None:
        self.id = desktop_id
        self.name = f"frontdesk-{desktop_id}"
        self.directory = directory
        self.client = ProbeClient(ProbeAddress(socket=directory / "ctl" / "probe.sock", token=token))
        self.claim: socket.socket | None = None
        self.stream: socket.socket | None = None
        self.first = -1
        """Descriptor of its first process."""
        self.cgroup: Cgroup | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.reader: asyncio.Task[None] | None = None
        self.printed = b""
        self.launched = asyncio.Event()
        """Set when no thread is making it any longer, so that it can be removed for good."""

    def running(self) -> bool:
        """Whether its first process is."""
        if self.first < 0:
            return False
        poll = select.poll()
        poll.register(self.first, select.POLLIN)
        return not poll.poll(0)

    def release(self) -> None:
        """Give up everything but the container. Idempotent."""
        if self.writer is not None:
            self.writer.transport.abort()
        if self.reader is not None:
            self.reader.cancel()
        for held in (self.claim, self.stream):
            if held is not None:
                held.close()
        if self.first >= 0:
            os.close(self.first)
            self.first = -1
        shutil.rmtree(self.directory, ignore_errors=True)


class DockerBackend:
    """Makes desktops in the Docker daemon of this machine.

    Args:
        images: where built images lie.
        runtime_dir: for sockets of live desktops; made when needed, left as it was found.
        base_url: the daemon's socket, `unix://` and a path; the default is `$DOCKER_HOST`, else Docker's own default.
        image: boot desktops of its profile from exactly this one, whatever the definition is by now.
    """

    name = "docker"

    def __init__(
        self, images: ImageCache, runtime_dir: Path, *, base_url: str | None = None, image: Image | None = None
    ) -> None:
        self._images = images
        self._runtime_dir = runtime_dir.absolute()
        self._directory = self._runtime_dir / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        self._base_url = base_url
        self._starting = asyncio.Lock()
        self._engine: Engine | None = None
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="docker")
        self._events: Any = None
        self._watcher: threading.Thread | None = None
        self._lock = -1
        self._found: dict[str, Image] = {} if image is None else {image.profile: image}
        self._held: dict[str, _Held] = {}
        self._ends: dict[str, str] = {}
        self._ooms: dict[str, int] = {}
        self._closed = False

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> DockerDesktop:
        """Start a fresh desktop and return it ready. See `Backend.boot`."""
        if spec.profile not in self._found:
            self._found[spec.profile] = self._images.require(spec.profile)
        image = self._found[spec.profile]
        start = time.monotonic()
        engine = await self._start()
        desktop_id, token = secrets.token_hex(6), secrets.token_hex(16)
        held = self._held[desktop_id] = _Held(desktop_id, self._directory / desktop_id, token)
        try:
            async with asyncio.timeout(deadline_s):
                try:
                    uids = await self._in_thread(self._launch, engine, held, spec, image)
                finally:
                    held.launched.set()
                await self._configure(held, spawner_config(spec.model_dump(), token, uids))
                await self._await_socket(held)
            left = deadline_s - (time.monotonic() - start)
            await held.client.call("ready", {}, deadline_s=max(0.1, left))
        except BaseException as error:
            printed = await self.destroy(desktop_id)
            tail = f"; it printed:\n{printed}" if printed else ""
            if isinstance(error, TimeoutError):
                raise errors.BootFailed(f"not ready within {deadline_s:g} s{tail}") from error
            if isinstance(error, errors.DesktopError):
                raise errors.BootFailed(f"{error}{tail}", state=error.state) from error
            if isinstance(error, EngineError | CgroupUnavailable | OSError):
                raise errors.BootFailed(f"the container could not be started: {error}{tail}") from error
            raise
        assert held.cgroup is not None
        return DockerDesktop(desktop_id, spec, image, held.client, self, held.cgroup)

    def _launch(self, engine: Engine, held: _Held, spec: DesktopSpec, image: Image) -> Uids:
        """Make and start the container; runs in a thread."""
        require_imported(engine, image, spec.profile)
        held.claim, uids = claim_uids()
        control = held.directory / "ctl"
        control.mkdir(parents=True, mode=0o700)
        os.chown(control, uids.probe, uids.probe)
        labels = {
            OWNER: self._directory.name,
            RUNTIME: str(self._runtime_dir),
            DESKTOP: held.id,
            EPOCH: str(held.client.address.epoch),
        }
        host = host_config(spec, uids, control=control, code=self._directory / "code")
        engine.create(held.name, docker_image(image), COMMAND, host, labels)
        engine.put(held.name, desktop_files(image.root, uids))
        held.stream = engine.attach(held.name)
        pid = engine.start(held.name)
        # A first process may have ended by now: whoever waits for its socket tells how, and what it printed.
        with contextlib.suppress(ProcessLookupError):
            held.first = os.pidfd_open(pid) if pid else -1
        try:
            if held.running():
                held.cgroup = Cgroup.of_process(pid)
                if spec.network == "none":
                    lower_loopback(pid)
        except (CgroupUnavailable, OSError):
            if held.running():
                raise
        return uids

    async def _configure(self, held: _Held, config: dict[str, Any]) -> None:
        assert held.stream is not None
        reader, held.writer = await asyncio.open_unix_connection(sock=held.stream)
        held.reader = asyncio.create_task(_listen(held, reader))
        config |= {"skeleton": "/etc/skel", "owner_holds_input": True}
        held.writer.write(json.dumps(config).encode() + b"\n")

    async def _await_socket(self, held: _Held) -> None:
        while not held.client.address.socket.exists():
            if not held.running():
                raise errors.BootFailed(f"the desktop ended while it booted: {await self.fate(held.id)}")
            await asyncio.sleep(POLL_S)

    def ended(self, desktop_id: str) -> str | None:
        """How a desktop ended; None while it lives."""
        return self._ends.get(desktop_id)

    async def fate(self, desktop_id: str) -> str | None:
        """`ended`, asked when a call has just failed: the daemon's news of an end is waited for."""
        await asyncio.sleep(0.05)
        held = self._held.get(desktop_id)
        until = time.monotonic() + NEWS_S
        while held is not None and self.ended(desktop_id) is None and not held.running():
            if time.monotonic() > until:
                return "its first process ended"
            await asyncio.sleep(POLL_S)
        return self.ended(desktop_id)

    async def destroy(self, desktop_id: str) -> str:
        """End a desktop and wait until its container is gone; returns the last that it printed. Idempotent."""
        held = self._held.get(desktop_id)
        if held is None or self._engine is None:
            return ""
        await held.launched.wait()
        await held.client.close()
        try:
            await self._in_thread(self._engine.remove, held.name)
        except EngineError as error:
            if held.first < 0 or held.running():
                raise errors.DesktopError(f"desktop {desktop_id} does not end: {error}") from error
        self._ends.setdefault(desktop_id, "it was closed")
        self._held.pop(desktop_id, None)
        await asyncio.sleep(0)  # what it printed last may lie ready
        held.release()
        return held.printed[-LOG_TAIL:].decode(errors="replace").strip()

    async def reap(self) -> list[str]:
        """Remove the containers and directories of backends whose process is gone."""
        return await self._in_thread(_reap, self._runtime_dir, self._base_url)

    async def close(self) -> None:
        """End every desktop. Idempotent."""
        if self._closed:
            return
        self._closed = True
        async with self._starting:
            await asyncio.gather(*(self.destroy(desktop_id) for desktop_id in list(self._held)))
            if self._engine is not None:
                self._events.close()
                assert self._watcher is not None
                await asyncio.to_thread(self._watcher.join)
                self._engine.close()
                shutil.rmtree(self._directory, ignore_errors=True)
                os.close(self._lock)
            self._threads.shutdown()

    # -- the daemon ---------------------------------------------------------------------------------------------

    async def _in_thread(self, call: Callable[..., T], *args: Any) -> T:
        """Make a blocking call. When the caller is cancelled, the call is still waited for: it may make something."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, call, *args)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # nobody else will ask
            raise

    async def _start(self) -> Engine:
        async with self._starting:
            if self._closed:
                raise errors.DesktopError("this backend is closed")
            if self._engine is None:
                engine = await self._in_thread(connect, self._base_url)
                await self._in_thread(self._prepare)
                self._events = await self._in_thread(engine.events, f"{OWNER}={self._directory.name}")
                loop = asyncio.get_running_loop()
                self._watcher = threading.Thread(target=self._watch, args=(loop,), name="docker-events", daemon=True)
                self._watcher.start()
                self._engine = engine
            elif self._watcher is not None and not self._watcher.is_alive():
                raise errors.DesktopError("the docker daemon of this backend ended")
            return self._engine

    def _prepare(self) -> None:
        """Make the directory; it appears with its lock held, so nobody takes it for one of the dead."""
        self._runtime_dir.mkdir(parents=True, exist_ok=True)
        made = self._runtime_dir / f".{self._directory.name}"
        made.mkdir(mode=0o700)
        self._lock = hold_lock(made)
        stage_code(made / "code")
        made.rename(self._directory)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            for event in self._events:
                loop.call_soon_threadsafe(self._notice, event)
            loop.call_soon_threadsafe(self._lose_daemon)

    def _notice(self, event: dict[str, Any]) -> None:
        told = event["Actor"]["Attributes"]
        desktop_id = told[DESKTOP]
        if event["Action"] == "oom":
            self._ooms[desktop_id] = self._ooms.get(desktop_id, 0) + 1
        elif event["Action"] == "die":
            code = int(told.get("exitCode", 0))
            oom = ", processes were ended for lack of memory" if desktop_id in self._ooms else ""
            self._ends[desktop_id] = f"its first process ended with {128 - code if code > 128 else code}{oom}"

    def _lose_daemon(self) -> None:
        if not self._closed:
            for desktop_id in self._held:
                self._ends.setdefault(desktop_id, "the docker daemon ended")


async def _listen(held: _Held, reader: asyncio.StreamReader) -> None:
    """Keep the last that the desktop printed. Docker frames it: stream number, three zeros, length."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            header = await reader.readexactly(8)
            printed = await reader.readexactly(int.from_bytes(header[4:], "big"))
            held.printed = (held.printed + printed)[-LOG_TAIL:]


def _reap(runtime_dir: Path, base_url: str | None) -> list[str]:
    engine = connect(base_url)
    removed: list[str] = []
    try:
        containers = engine.containers(f"{RUNTIME}={runtime_dir}")
        for directory in sorted(runtime_dir.glob(f"{PREFIX}*")):
            lock = lock_of_dead(directory)
            if lock is None:
                continue
            try:
                names = {path.name for path in directory.iterdir() if path.is_dir() and path.name != "code"}
                shutil.rmtree(directory, ignore_errors=True)
                removed.extend(sorted(names) or [directory.name])
            finally:
                os.close(lock)
        for name, labels in containers:
            if not (runtime_dir / labels[OWNER]).exists():
                engine.remove(name)
                if labels[DESKTOP] not in removed:
                    removed.append(labels[DESKTOP])
    except EngineError as error:
        log.warning("cannot reap the containers of %s: %s", runtime_dir, error)
    finally:
        engine.close()
    return removed
