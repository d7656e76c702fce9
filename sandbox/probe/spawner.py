"""Pid 1 of a desktop: starts the X server, the probe and the session, and runs commands on the probe's behalf.

It is root with no capability but SETUID, SETGID and KILL, and it does nothing on its own account: it changes to the
right uid and starts what it is told. Its configuration (sizes, uids, token, environments) comes as a line of JSON on
standard input, where no other process can read it. Where its owner holds that input open (`owner_holds_input`), the box
ends when the owner does.

::

    Xvfb ready -> open its framebuffer as its uid -> probe (forked) -> probe answers "display" -> session
    Xvfb gone: told to the probe, the desktop is lost      probe gone: forked again      session gone: told to the probe

The probe speaks to it over a socket pair, one JSON message per packet, descriptors attached:
`spawn {ref, argv, env, cwd, user, detached} + [stdin, stdout, stderr]`, `kill {pid, signal}`, `display`; back come
`{ref, pid | error, full}` and `{exit, status}`. An argv that starts with "@" names a function of `userside.py`, run in
a fork under the asked uid: reading a file as the desktop's user needs no new program.
"""

from __future__ import annotations

import array
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

from sandbox.probe import server
from sandbox.probe.starter import Starter, StartFailed, read_problem

__all__ = ["Spawner", "main"]

MAX_MESSAGE = 160_000
PROBE_RESTARTS = 5
NO_ROOM = 75
LOG_LIMIT = 1 << 18
"""Bytes of what the X server, the probe and the session print that are kept: the log lies on the host's disk."""
FRAMEBUFFER_DIR = "/run/frontdesk/fb"
SESSION = "/usr/lib/frontdesk/session"


class Spawner:
    """Owns every process of the desktop.

    Args:
        config: width, height, dpi, pids, token, uids {xserver, probe, user}, env {root, user}; and where the backend
            asks for it skeleton (directory that the empty home is filled from), owner_holds_input.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._selector = selectors.DefaultSelector()
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        self._log_r, self._log_w = os.pipe()
        os.set_blocking(self._log_r, False)
        self._selector.register(self._log_r, selectors.EVENT_READ)
        self._log_left = LOG_LIMIT
        self._starter = Starter(config["uids"], config["pids"], self._log_w)
        self._xserver = self._probe = self._session = 0
        self._framebuffer = -1
        self._link: socket.socket | None = None
        self._owned: dict[int, bool] = {}  # pid -> whether it outlives the probe that asked for it
        self._starting: dict[int, tuple[int, int]] = {}  # descriptor that tells of the start -> (ref, pid)
        self._ended: dict[int, int] = {}  # pid -> exit status of what ended before its start was noticed
        self._probe_starts: list[float] = []
        self._facts: dict[str, str] = {"probe_restarts": "0"}

    def run(self) -> int:
        """Serve until the probe cannot be kept alive, or the owner is gone; the box ends with this process."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        if "skeleton" in self._config:
            self._furnish_home(self._config["skeleton"])
        if self._config.get("owner_holds_input"):
            self._selector.register(0, selectors.EVENT_READ)
        self._start_xserver()
        self._start_probe()
        while True:
            for key, _ in self._selector.select(timeout=None if self._probe else 0):
                if key.fd == self._wake_r:
                    self._drain_wakeups()
                elif key.fd == self._log_r:
                    self._forward_log()
                elif key.fd == 0:
                    if not os.read(0, 4096):
                        return 0
                elif key.fd in self._starting:
                    self._finish_start(key.fd)
                elif self._link is not None and key.fd == self._link.fileno():
                    self._serve_link()
            self._reap()
            if not self._probe and not self._start_probe():
                return 1

    # -- starting -----------------------------------------------------------------------------------------------

    def _furnish_home(self, skeleton: str) -> None:
        home = self._config["env"]["user"]["HOME"]
        pid = self._starter.start("user", ["@", "furnish", skeleton, home], {}, "/")
        if os.waitpid(pid, 0)[1] != 0:
            self._forward_log()
            raise SystemExit(f"{home} cannot be filled from {skeleton}")

    def _start_xserver(self) -> None:
        ready_r, ready_w = os.pipe()
        os.set_inheritable(ready_w, True)
        argv = ["Xvfb", ":0", "-displayfd", str(ready_w), "-screen", "0"]
        argv += [f"{self._config['width']}x{self._config['height']}x24", "-dpi", str(self._config["dpi"])]
        argv += ["-fbdir", FRAMEBUFFER_DIR, "-nolisten", "tcp", "-nolisten", "local", "-ac", "-noreset"]
        argv += ["-s", "0", "-maxclients", "512"]
        argv += ["-extension", "GLX"]  # Mesa in every X server: a quarter of a desktop's memory, for programs in 3D
        self._xserver = self._starter.start("xserver", argv, self._config["env"]["root"], "/")
        os.close(ready_w)
        ready = b""
        while not ready.endswith(b"\n"):
            chunk = os.read(ready_r, 64)
            if not chunk:
                self._forward_log()
                raise SystemExit("Xvfb ended before it was ready")
            ready += chunk
        os.close(ready_r)
        self._framebuffer = self._open_framebuffer()

    def _open_framebuffer(self) -> int:
        """A read-only descriptor of the framebuffer, which only the X server's uid may open.

        A child opens it: were this process to change its uid, if only for a moment, the kernel would forget that it is
        to die with its parent.
        """
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                self._starter.become("xserver")
                descriptor = os.open(f"{FRAMEBUFFER_DIR}/Xvfb_screen0", os.O_RDONLY)
                socket.send_fds(theirs, [b"."], [descriptor])
            finally:
                os._exit(0)
        theirs.close()
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(pid, 0)
        ours.close()
        if not fds:
            raise SystemExit("the framebuffer cannot be opened")
        os.set_inheritable(fds[0], False)
        return fds[0]

    def _start_probe(self) -> bool:
        now = time.monotonic()
        self._probe_starts = [start for start in self._probe_starts if now - start < 60]
        if len(self._probe_starts) >= PROBE_RESTARTS:
            sys.stderr.write("the probe died too often; giving up\n")
            return False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:  # no room; the next turn of the loop tries again
            ours.close()
            theirs.close()
            time.sleep(0.05)
            return True
        self._probe_starts.append(now)
        if pid == 0:
            code = 1
            try:
                ours.close()
                os.dup2(self._log_w, 1)
                os.dup2(self._log_w, 2)
                self._starter.become("probe")
                server.serve(self._config, self._framebuffer, theirs, dict(self._facts))
                code = 0
            except BaseException as error:  # noqa: BLE001 - the child must never return into the parent's loop
                code = NO_ROOM if isinstance(error, RuntimeError) else 1  # it is thrown where no thread can be started
                sys.stderr.write(f"probe: {type(error).__name__}: {error}\n")
            finally:
                os._exit(code)
        theirs.close()
        self._probe, self._link = pid, ours
        self._selector.register(ours, selectors.EVENT_READ)
        return True

    def _start_session(self) -> None:
        home = self._config["env"]["user"]["HOME"]
        self._session = self._starter.start("user", [SESSION], self._config["env"]["user"], home)

    # -- serving ------------------------------------------------------------------------------------------------

    def _drain_wakeups(self) -> None:
        try:
            while os.read(self._wake_r, 4096):
                pass
        except BlockingIOError:
            pass

    def _forward_log(self) -> None:
        """Pass on what was printed, up to the limit; the rest is read and dropped, so that nobody waits or is ended."""
        try:
            data = os.read(self._log_r, 1 << 16)
        except BlockingIOError:
            return
        os.write(2, data[: self._log_left])
        self._log_left = max(0, self._log_left - len(data))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if pid == self._probe:
                self._lose_probe(code)
            elif pid == self._xserver:
                self._fact("xserver", f"gone ({_ending(code)})")
            elif pid == self._session:
                self._fact("session", f"gone ({_ending(code)})")
            elif pid in self._owned:
                if any(pid == starting for _, starting in self._starting.values()):
                    self._ended[pid] = code
                else:
                    del self._owned[pid]
                    self._send({"exit": pid, "status": code})

    def _lose_probe(self, code: int) -> None:
        assert self._link is not None
        self._selector.unregister(self._link)
        self._link.close()
        self._link, self._probe = None, 0
        if code == NO_ROOM:  # no fault of the probe's
            self._probe_starts.pop()
            time.sleep(0.05)
        self._facts["probe_restarts"] = str(int(self._facts["probe_restarts"]) + 1)
        self._facts["probe_last_end"] = _ending(code)
        for pid, detached in self._owned.items():
            if not detached and pid not in self._ended:  # nobody is left who waits for it
                _kill_group(pid, signal.SIGKILL)
        self._owned.clear()
        for fd in self._starting:
            self._selector.unregister(fd)
            os.close(fd)
        self._starting.clear()
        self._ended.clear()

    def _fact(self, name: str, value: str) -> None:
        self._facts[name] = value
        self._send({"fact": name, "value": value})

    def _send(self, message: dict[str, Any]) -> None:
        if self._link is not None:
            try:
                self._link.send(json.dumps(message).encode())
            except OSError:
                pass  # the probe just died; it is reaped and started again

    def _serve_link(self) -> None:
        assert self._link is not None
        try:
            data, fds = _receive(self._link)
        except OSError:
            return
        if not data:  # the probe hung up: it is ending and will be reaped
            time.sleep(0.001)
            return
        message = json.loads(data)
        try:
            if message["op"] == "spawn":
                self._spawn(message, fds)
            elif message["op"] == "kill":
                if message["pid"] in self._owned:
                    _kill_group(message["pid"], message["signal"])
            elif message["op"] == "display" and not self._session:
                self._start_session()
        finally:
            for fd in fds:
                os.close(fd)

    def _spawn(self, message: dict[str, Any], fds: list[int]) -> None:
        try:
            who = message["user"]
            env = {**self._config["env"][who], **message["env"]}
            cwd = message["cwd"] or self._config["env"][who]["HOME"]
            pid, error_r = self._starter.fork(who, message["argv"], env, cwd, fds)
        except StartFailed as error:
            self._send({"ref": message["ref"], "error": str(error), "full": True})
            return
        except (KeyError, TypeError) as error:
            self._send({"ref": message["ref"], "error": f"malformed: {error!r}", "full": False})
            return
        self._owned[pid] = message["detached"]
        self._starting[error_r] = message["ref"], pid
        self._selector.register(error_r, selectors.EVENT_READ)

    def _finish_start(self, fd: int) -> None:
        """Tell the probe how a start went."""
        ref, pid = self._starting.pop(fd)
        self._selector.unregister(fd)
        problem, status = read_problem(fd), self._ended.pop(pid, None)
        if problem is not None:
            del self._owned[pid]
            self._send({"ref": ref, "error": problem[0], "full": problem[1]})
            return
        self._send({"ref": ref, "pid": pid})
        if status is not None:
            del self._owned[pid]
            self._send({"exit": pid, "status": status})


def _receive(link: socket.socket) -> tuple[bytes, list[int]]:
    """One packet and the descriptors that came with it."""
    fds = array.array("i")
    data, ancillary, _, _ = link.recvmsg(MAX_MESSAGE, socket.CMSG_LEN(3 * fds.itemsize))
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, list(fds)


def _kill_group(pid: int, signum: int) -> None:
    try:
        os.killpg(pid, signum)
    except ProcessLookupError:  # it has not made its group yet
        os.kill(pid, signum)


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def main() -> int:
    """Read the configuration from standard input and serve."""
    config = json.loads(sys.stdin.buffer.readline())
    return Spawner(config).run()


if __name__ == "__main__":
    sys.exit(main())
