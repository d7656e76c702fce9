"""Desktops on this machine: overlayfs and bubblewrap, no container engine.

A desktop costs one mount namespace, a tmpfs for what it writes and a control group. A keeper process (one per backend)
owns them all, so that nothing outlives this process; `reap` removes what a killed keeper left.

::

    boot: keeper launches -> the probe's socket appears -> `ready` answers -> LocalDesktop -> close: gone
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from sandbox import errors
from sandbox.backends.cgroups import HIERARCHY, Cgroup, CgroupUnavailable, Hierarchy, find_hierarchy
from sandbox.backends.liveness import lock_of_dead
from sandbox.backends.owned import OwnedDesktop
from sandbox.client import ProbeAddress, ProbeClient
from sandbox.desktop import DesktopSpec
from sandbox.image import Image, ImageCache

__all__ = ["LocalBackend", "LocalDesktop"]

log = logging.getLogger(__name__)

POLL_S = 0.004
START_TIMEOUT_S = 15.0
CLOSE_TIMEOUT_S = 15.0
NEWS_S = 1.0
"""How long the news of a desktop's end may take, from its last process to here."""
KEEPER = "import sys; sys.path.insert(0, sys.argv.pop(2)); from sandbox.backends.keeper import main; sys.exit(main())"


class LocalDesktop(OwnedDesktop):
    """A desktop in a box of bubblewrap."""


class LocalBackend:
    """Makes desktops on this machine.

    Args:
        images: where built images lie.
        runtime_dir: for sockets and logs of live desktops; made when needed, left as it was found.
        image: boot desktops of its profile from exactly this one, whatever the definition is by now.
    """

    name = "local"

    def __init__(self, images: ImageCache, runtime_dir: Path, *, image: Image | None = None) -> None:
        self._images = images
        self._runtime_dir = runtime_dir
        self._directory = runtime_dir / f"frontdesk-{os.getpid()}-{secrets.token_hex(4)}"
        self._keeper: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._hierarchy: Hierarchy | None = None
        self._found: dict[str, Image] = {} if image is None else {image.profile: image}
        self._launched: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._gone: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ends: dict[str, str] = {}
        self._clients: dict[str, ProbeClient] = {}
        self._closed = False

    def image(self, profile: str) -> Image:
        """The image of a profile.

        Raises:
            ImageError: it is not built, or was built from another definition.
        """
        if profile not in self._found:
            self._found[profile] = self._images.require(profile)
        return self._found[profile]

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> LocalDesktop:
        """Start a fresh desktop and return it ready. See `Backend.boot`."""
        image = self.image(spec.profile)
        bwrap = _require_host()
        keeper = await self._start_keeper()
        desktop_id = secrets.token_hex(6)
        token = secrets.token_hex(16)
        loop = asyncio.get_running_loop()
        self._launched[desktop_id] = loop.create_future()
        self._gone[desktop_id] = loop.create_future()
        request = {
            "op": "launch",
            "id": desktop_id,
            "root": str(image.root),
            "bwrap": bwrap,
            "token": token,
            "spec": spec.model_dump(),
        }
        address = ProbeAddress(socket=self._directory / desktop_id / "ctl" / "probe.sock", token=token)
        client = self._clients[desktop_id] = ProbeClient(address)
        start = time.monotonic()
        try:
            self._tell(keeper, request)
            async with asyncio.timeout(deadline_s):
                await self._launched[desktop_id]
                await self._await_socket(desktop_id, address.socket)
            left = deadline_s - (time.monotonic() - start)
            await client.call("ready", {}, deadline_s=max(0.1, left))
        except BaseException as error:
            printed = await self.destroy(desktop_id)
            tail = f"; it printed:\n{printed}" if printed else ""
            if isinstance(error, TimeoutError):
                raise errors.BootFailed(f"not ready within {deadline_s:g} s{tail}") from error
            if isinstance(error, errors.DesktopError):
                raise errors.BootFailed(f"{error}{tail}", state=error.state) from error
            raise
        assert self._hierarchy is not None
        cgroup = Cgroup(self._hierarchy, f"{self._directory.name}-{desktop_id}")
        return LocalDesktop(desktop_id, spec, image, client, self, cgroup)

    async def _await_socket(self, desktop_id: str, socket: Path) -> None:
        while not socket.exists():
            ended = self.ended(desktop_id)
            if ended is not None:
                raise errors.BootFailed(f"the desktop ended while it booted: {ended}")
            await asyncio.sleep(POLL_S)

    def ended(self, desktop_id: str) -> str | None:
        """How a desktop ended; None while it lives."""
        return self._ends.get(desktop_id)

    async def fate(self, desktop_id: str) -> str | None:
        """`ended`, asked when a call has just failed: the keeper's news of an end is waited for."""
        gone = self._gone.get(desktop_id)
        if gone is not None:
            await asyncio.wait({gone}, timeout=NEWS_S)
        return self.ended(desktop_id)

    async def destroy(self, desktop_id: str) -> str:
        """End a desktop and wait until its processes are gone; returns the last that it printed. Idempotent."""
        gone = self._gone.get(desktop_id)
        if gone is None or self._keeper is None:
            return ""
        await self._clients[desktop_id].close()
        if not gone.done():
            with contextlib.suppress(OSError, RuntimeError):
                self._tell(self._keeper, {"op": "kill", "id": desktop_id})
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await asyncio.shield(gone)
            except TimeoutError as error:
                raise errors.DesktopError(f"desktop {desktop_id} does not end") from error
        self._gone.pop(desktop_id, None)
        self._launched.pop(desktop_id, None)
        self._clients.pop(desktop_id, None)
        printed: str = gone.result().get("log", "")
        return printed

    async def reap(self) -> list[str]:
        """Remove what backends left whose keeper was killed."""
        return await asyncio.to_thread(_reap, self._runtime_dir)

    async def close(self) -> None:
        """End every desktop and the keeper. Idempotent."""
        if self._closed:
            return
        self._closed = True
        async with self._starting:  # a keeper that is just being started is ended like any other
            await self._end_keeper()
        for client in self._clients.values():
            await client.close()

    async def _end_keeper(self) -> None:
        if self._keeper is not None:
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._keeper.wait()
            except TimeoutError:
                self._keeper.kill()
                await self._keeper.wait()
        if self._reader is not None:
            await self._reader

    # -- the keeper ---------------------------------------------------------------------------------------------

    async def _start_keeper(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._closed:
                raise errors.DesktopError("this backend is closed")
            if self._keeper is not None:
                # Its output ends before its exit code is known; whoever launched in between would wait for no answer.
                if self._keeper.returncode is not None or self._reader is None or self._reader.done():
                    raise errors.DesktopError("the keeper of this backend has ended; make a new backend")
                return self._keeper
            try:
                self._hierarchy = find_hierarchy()
            except CgroupUnavailable as error:
                raise errors.MissingRequirement(str(error), fix="see `frontdesk doctor`") from error
            keeper = await self._launch_keeper()
            assert keeper.stdout is not None
            self._keeper = keeper
            self._reader = asyncio.create_task(self._listen(keeper.stdout))
            return keeper

    async def _launch_keeper(self) -> asyncio.subprocess.Process:
        """Start the keeper and wait until it is ready; nothing is left of one that does not come to that."""
        self._directory.mkdir(parents=True, mode=0o700)
        keeper = None
        try:
            keeper = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                "-c",
                KEEPER,
                str(self._directory),
                str(Path(__file__).resolve().parent.parent.parent),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
                cwd="/",
            )
            assert keeper.stdout is not None
            async with asyncio.timeout(START_TIMEOUT_S):
                first = await keeper.stdout.readline()
            answer = json.loads(first) if first else {"error": "their keeper process ended at once"}
            if "error" in answer:
                raise errors.DesktopError(f"cannot hold desktops in {self._runtime_dir}: {answer['error']}")
            return keeper
        except BaseException as error:
            if keeper is not None:
                with contextlib.suppress(ProcessLookupError):
                    keeper.kill()
                await keeper.wait()
            shutil.rmtree(self._directory, ignore_errors=True)
            if isinstance(error, TimeoutError):
                raise errors.DesktopError(f"the keeper was not ready within {START_TIMEOUT_S:g} s") from error
            raise

    def _tell(self, keeper: asyncio.subprocess.Process, request: dict[str, Any]) -> None:
        assert keeper.stdin is not None
        keeper.stdin.write(json.dumps(request).encode() + b"\n")

    async def _listen(self, events: asyncio.StreamReader) -> None:
        while line := await events.readline():
            event = json.loads(line)
            desktop_id = event["id"]
            launched, gone = self._launched.get(desktop_id), self._gone.get(desktop_id)
            if "error" in event:
                self._ends[desktop_id] = event["error"]
                failure = errors.BootFailed(f"the desktop could not be launched: {event['error']}")
                if launched is not None and not launched.done():
                    launched.set_exception(failure)
                if gone is not None and not gone.done():
                    gone.set_result(event)
            elif "gone" in event:
                oom = f", {event['oom_kills']} processes were ended for lack of memory" if event["oom_kills"] else ""
                self._ends[desktop_id] = f"its first process ended with {event['status']}{oom}"
                if gone is not None and not gone.done():
                    gone.set_result(event)
            elif "pid" in event and launched is not None and not launched.done():
                launched.set_result(event)
        # The keeper is gone, and with it every desktop.
        for desktop_id, gone in self._gone.items():
            if not gone.done():
                self._ends.setdefault(desktop_id, "its keeper ended")
                gone.set_result({})
        for launched in self._launched.values():
            if not launched.done():
                launched.set_exception(errors.BootFailed("the keeper ended while the desktop booted"))


def _require_host() -> str:
    """Check what booting needs and return bubblewrap's path.

    Raises:
        MissingRequirement: with the way to mend it.
    """
    if os.geteuid() != 0:
        raise errors.MissingRequirement(
            "local desktops need root (they mount an overlay and change to other users)",
            fix="run the same command as root, e.g. `sudo frontdesk ...`; `frontdesk doctor` lists everything needed",
        )
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise errors.MissingRequirement("bubblewrap is not installed", fix="apt-get install bubblewrap")
    return bwrap


def _reap(runtime_dir: Path) -> list[str]:
    removed: list[str] = []
    for directory in sorted(runtime_dir.glob("frontdesk-*")):
        lock = lock_of_dead(directory)
        if lock is None:
            continue
        try:
            hierarchy = _hierarchy_of(directory)
            names = [path.name for path in directory.iterdir() if path.is_dir() and path.name != "code"]
            for name in names:
                _remove_group(Cgroup(hierarchy, f"{directory.name}-{name}"))
            shutil.rmtree(directory, ignore_errors=True)
            removed.extend(names or [directory.name])
        except CgroupUnavailable as error:
            log.warning("cannot reap %s: %s", directory, error)
        finally:
            os.close(lock)
    return removed


def _hierarchy_of(directory: Path) -> Hierarchy:
    """Where a dead keeper made its groups: not always where this process would."""
    try:
        return Hierarchy.load(directory / HIERARCHY)
    except (OSError, ValueError):  # killed before it wrote it down, and so before it made any group
        return find_hierarchy()


def _remove_group(group: Cgroup) -> None:
    deadline = time.monotonic() + 5
    while not group.remove() and time.monotonic() < deadline:
        group.kill()
        time.sleep(0.01)
