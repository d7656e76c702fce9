"""The process that owns the desktops of one backend, so that they end when their owner ends, however it ends.

It reads one JSON request per line on standard input and writes one JSON event per line on standard output. When its
input ends (the owner exited, crashed or was killed) it ends every desktop, removes what is theirs and exits. It lives
in a session of its own: Ctrl-C and a signal to the owner's process group do not reach it. Should the keeper itself
be killed, bubblewrap ends the desktops (they are set to die with their parent), their mounts end with them, and what is
left (empty control groups, a directory) is removed by the next reap, which knows a dead keeper by its free lock.

::

    launch -> {id, pid, uids} ... {id, gone, status, oom_kills}       kill -> the same end, sooner
    end = kill every process of the control group -> reap -> remove the group -> remove the directory

Standard library only: one small process per backend.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from sandbox.backends.cgroups import HIERARCHY, Cgroup, CgroupUnavailable, Hierarchy, Limits, find_hierarchy
from sandbox.backends.launch import Uids, bwrap_argv, claim_uids, filter_descriptor, prepare, spawner_config, stage_code
from sandbox.backends.liveness import hold_lock

__all__ = ["Keeper", "main"]

PR_SET_CHILD_SUBREAPER = 36
END_TIMEOUT_S = 10.0
POLL_S = 0.002
LOG_TAIL = 2000
"""Characters of a desktop's log that are told when it is gone."""


class Held:
    """One desktop."""

    def __init__(self, *, pid: int, directory: Path, cgroup: Cgroup, slot: socket.socket) -> None:
        self.pid = pid
        self.directory = directory
        self.cgroup = cgroup
        self.slot = slot
        self.status: int | None = None
        self.ending_since: float | None = None


class Keeper:
    """Launches and ends desktops.

    Args:
        directory: the backend's run directory; its name names the control groups.
        hierarchy: where control groups are made.
    """

    def __init__(self, directory: Path, hierarchy: Hierarchy) -> None:
        self._directory = directory
        self._hierarchy = hierarchy
        self._held: dict[str, Held] = {}
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)

    def run(self) -> None:
        """Serve until standard input ends, then end everything."""
        # What loses its parent in a desktop becomes a child of this process, which is sure to reap it.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        buffer, open_ = b"", True
        while open_ or self._held:
            ending = any(held.ending_since is not None for held in self._held.values())
            readers = [self._wake_r, *([0] if open_ else [])]
            readable, _, _ = select.select(readers, [], [], POLL_S if ending else None)
            if self._wake_r in readable:
                os.read(self._wake_r, 4096)
            if 0 in readable:
                data = os.read(0, 1 << 16)
                buffer += data
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    self._serve(json.loads(line))
                if not data:
                    open_ = False
                    for desktop_id in list(self._held):
                        self._end(desktop_id)
            self._reap()
            self._finish()
        until = time.monotonic() + END_TIMEOUT_S
        while self._reap() and time.monotonic() < until:
            time.sleep(POLL_S)

    def _serve(self, request: dict[str, Any]) -> None:
        if request["op"] == "launch":
            try:
                self._launch(request)
            except (OSError, CgroupUnavailable) as error:
                _tell_owner({"id": request["id"], "error": str(error)})
        elif request["op"] == "kill" and request["id"] in self._held:
            self._end(request["id"])

    def _launch(self, request: dict[str, Any]) -> None:
        desktop_id, spec = request["id"], request["spec"]
        slot, uids = claim_uids()
        directory = self._directory / desktop_id
        cgroup = Cgroup(self._hierarchy, f"{self._directory.name}-{desktop_id}")
        try:
            (directory / "fs").mkdir(parents=True)
            control = directory / "ctl"
            control.mkdir(mode=0o700)
            os.chown(control, uids.probe, uids.probe)
            cgroup.create(Limits(memory_bytes=spec["memory_mb"] << 20, pids=spec["pids"], cpus=spec["cpus"]))
            config = spawner_config(spec, request["token"], uids)
            pid = self._fork(request, spec, directory, cgroup, uids, json.dumps(config).encode())
        except BaseException:
            slot.close()
            cgroup.remove()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        self._held[desktop_id] = Held(pid=pid, directory=directory, cgroup=cgroup, slot=slot)
        _tell_owner({"id": desktop_id, "pid": pid, "uids": uids.as_dict()})

    def _fork(
        self, request: dict[str, Any], spec: dict[str, Any], directory: Path, cgroup: Cgroup, uids: Uids, config: bytes
    ) -> int:
        config_r, config_w = os.pipe()
        log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            pid = os.fork()
        except OSError:
            for fd in (config_r, config_w, log):
                os.close(fd)
            raise
        if pid == 0:
            code = 1
            try:
                os.dup2(config_r, 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                cgroup.enter()
                root = prepare(directory, Path(request["root"]), spec, uids)
                shared = directory / "ctl", self._directory / "code"
                argv = bwrap_argv(request["bwrap"], root, *shared, spec, filter_descriptor())
                os.execv(argv[0], argv)
            except BaseException as error:  # noqa: BLE001 - the child must never return into the keeper's loop
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(code)
        os.close(config_r)
        os.close(log)
        os.write(config_w, config)
        os.close(config_w)
        return pid

    def _end(self, desktop_id: str) -> None:
        held = self._held[desktop_id]
        if held.ending_since is None:
            held.ending_since = time.monotonic()
            held.cgroup.kill()

    def _reap(self) -> bool:
        """Take note of the children that ended; False when none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            for desktop_id, held in self._held.items():
                if held.pid == pid:
                    held.status = os.waitstatus_to_exitcode(status)
                    self._end(desktop_id)

    def _finish(self) -> None:
        """Complete the ends whose processes are gone."""
        for desktop_id, held in list(self._held.items()):
            if held.ending_since is None:
                continue
            oom_kills = held.cgroup.oom_kills()
            if held.status is None or not held.cgroup.remove():
                if time.monotonic() - held.ending_since < END_TIMEOUT_S:
                    held.cgroup.kill()
                    continue
                _tell_owner({"id": desktop_id, "stuck": True})
            event = {"id": desktop_id, "gone": True, "status": held.status, "oom_kills": oom_kills}
            event["log"] = _tail(held.directory / "log")
            shutil.rmtree(held.directory, ignore_errors=True)
            held.slot.close()
            del self._held[desktop_id]
            _tell_owner(event)


def _tell_owner(event: dict[str, Any]) -> None:
    try:
        os.write(1, json.dumps(event).encode() + b"\n")
    except OSError:
        pass  # the owner is gone; standard input will say so


def _tail(log: Path) -> str:
    """The last that the desktop's own programs printed."""
    try:
        return log.read_text(errors="replace")[-LOG_TAIL:].strip()
    except OSError:
        return ""


def main() -> int:
    """Take the lock that says this backend is alive, and serve."""
    directory = Path(sys.argv[1])
    try:
        hold_lock(directory)
        hierarchy = find_hierarchy()
        hierarchy.save(directory / HIERARCHY)
        stage_code(directory / "code")
    except (OSError, CgroupUnavailable) as error:  # a full disk, say
        shutil.rmtree(directory, ignore_errors=True)
        _tell_owner({"error": str(error)})
        return 1
    keeper = Keeper(directory, hierarchy)
    _tell_owner({"ready": True})
    keeper.run()
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
