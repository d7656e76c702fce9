"""Commands, asked of the spawner and followed to their end.

`SpawnerLink` is the probe's side of the socket pair: it sends requests with descriptors and hands back pids, exit
statuses and facts about the desktop. `run` follows one command: it reads both outputs while the command lives, never
waits on a pipe that a background child still holds, and kills the command's process group at its deadline. Pipes that
children keep open are read on by `Drain`, so that nothing in the desktop is ended by a broken pipe.
"""

from __future__ import annotations

import array
import json
import os
import selectors
import signal
import socket
import threading
import time
from typing import Any

from sandbox.probe.waiting import ready

__all__ = ["CommandFailed", "Drain", "Outcome", "Process", "SpawnerLink", "run"]

MAX_REQUEST = 120_000
CHUNK = 1 << 16
START_TIMEOUT_S = 5.0
"""The desktop can stop a program of its own before it runs; then whoever asked for it gives up."""


class CommandFailed(Exception):
    """The command could not be started.

    Args:
        full: the desktop's limits are the reason, not the command.
    """

    def __init__(self, reason: str, *, full: bool = False) -> None:
        super().__init__(reason)
        self.full = full


class Process:
    """A started command. `ended` is a descriptor that becomes readable once `status` is known."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self._lock = threading.Lock()
        self.ended, self._signal = os.pipe()

    def finish(self, status: int) -> None:
        """Record the end and wake whoever waits."""
        self.status = status
        self._hang_up()

    def close(self) -> None:
        """Forget the descriptors."""
        self._hang_up()
        os.close(self.ended)

    def _hang_up(self) -> None:
        with self._lock:
            if self._signal >= 0:
                os.close(self._signal)
                self._signal = -1


class Outcome:
    """How a command ended."""

    __slots__ = ("status", "stderr", "stdout", "timed_out", "truncated")

    def __init__(self, status: int | None, stdout: bytes, stderr: bytes, truncated: bool, timed_out: bool) -> None:
        self.status = status
        self.stdout = stdout
        self.stderr = stderr
        self.truncated = truncated
        self.timed_out = timed_out


class SpawnerLink:
    """Asks the spawner to start and kill processes."""

    def __init__(self, link: socket.socket, facts: dict[str, str]) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._replies: dict[int, dict[str, Any]] = {}
        self._waiting: dict[int, threading.Event] = {}
        self._processes: dict[int, Process] = {}
        self._early: dict[int, int] = {}
        self._abandoned: set[int] = set()
        self._next = 0
        self.facts = facts
        """What became of the X server and the session, probe restarts."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            data = self._link.recv(200_000)
            if not data:
                os._exit(0)  # the spawner is gone, and with it the desktop
            message = json.loads(data)
            with self._lock:
                if "fact" in message:
                    self.facts[message["fact"]] = message["value"]
                elif "exit" in message:
                    process = self._processes.pop(message["exit"], None)
                    if process is not None:
                        process.finish(message["status"])
                    elif message["exit"] in self._abandoned:  # its pid may soon be another's
                        self._abandoned.remove(message["exit"])
                    else:  # it ended before its pid was taken note of
                        self._early[message["exit"]] = message["status"]
                elif message["ref"] in self._waiting:
                    self._replies[message["ref"]] = message
                    self._waiting[message["ref"]].set()
                elif "pid" in message:  # nobody waits any more
                    self._abandoned.add(message["pid"])
                    self._kill(message["pid"], signal.SIGKILL)

    def display_ready(self) -> None:
        """The display is configured: the session may start."""
        self._link.send(b'{"op":"display"}')

    def spawn(
        self,
        argv: list[str],
        fds: list[int],
        *,
        user: str,
        cwd: str | None,
        env: dict[str, str],
        detached: bool = False,
    ) -> Process:
        """Start a command in a process group of its own, with these three descriptors.

        Args:
            cwd: None is the home directory of who runs it.
            detached: it lives on when this probe dies.

        Raises:
            CommandFailed: it could not be executed, or the request is too long.
        """
        with self._lock:
            self._next += 1
            ref = self._next
        request = {"op": "spawn", "ref": ref, "argv": argv, "user": user, "cwd": cwd, "env": env}
        request["detached"] = detached
        data = json.dumps(request).encode()
        if len(data) > MAX_REQUEST:
            raise CommandFailed(
                f"the command is {len(data)} bytes long; the limit is {MAX_REQUEST}: put data in a file"
            )
        event = threading.Event()
        with self._lock:
            self._waiting[ref] = event
        self._link.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        event.wait(START_TIMEOUT_S)
        with self._lock:
            del self._waiting[ref]
            reply = self._replies.pop(ref, None)
            if reply is None:
                raise CommandFailed(f"{argv[0]} did not start within {START_TIMEOUT_S:g} s", full=True)
            if "error" in reply:
                raise CommandFailed(f"{argv[0]}: {reply['error']}", full=reply["full"])
            process = Process(reply["pid"])
            early = self._early.pop(process.pid, None)
            if early is None:
                self._processes[process.pid] = process
            else:
                process.finish(early)
            return process

    def kill(self, process: Process, signum: int = signal.SIGKILL) -> None:
        """Signal the command's process group."""
        self._kill(process.pid, signum)

    def _kill(self, pid: int, signum: int) -> None:
        self._link.send(json.dumps({"op": "kill", "pid": pid, "signal": int(signum)}).encode())


class Drain(threading.Thread):
    """Reads and drops what background children still write, until they close their pipes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._selector = selectors.DefaultSelector()
        self._wake_r, self._wake_w = os.pipe()
        self._selector.register(self._wake_r, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self.start()

    def adopt(self, fd: int) -> None:
        """Take over a pipe."""
        os.set_blocking(fd, False)
        with self._lock:
            self._selector.register(fd, selectors.EVENT_READ)
        os.write(self._wake_w, b".")

    def run(self) -> None:
        """Read for ever."""
        while True:
            for key, _ in self._selector.select():
                try:
                    data = os.read(key.fd, CHUNK)
                except BlockingIOError:
                    continue
                if not data:
                    with self._lock:
                        self._selector.unregister(key.fd)
                    os.close(key.fd)


class _Output:
    """Collects one output up to a limit."""

    def __init__(self, fd: int, limit: int) -> None:
        self.fd = fd
        self.data = bytearray()
        self.truncated = False
        self.open = True
        self._limit = limit

    def read(self) -> bool:
        """Read what is there; False when there was nothing (now, or any more)."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.open = False
            return False
        room = self._limit - len(self.data)
        self.data += data[:room]
        self.truncated = self.truncated or len(data) > room
        return True


def run(
    link: SpawnerLink,
    drain: Drain,
    argv: list[str],
    *,
    user: str,
    cwd: str | None,
    env: dict[str, str],
    stdin: bytes,
    deadline: float,
    max_output: int,
) -> Outcome:
    """Run a command to its end.

    Args:
        deadline: on the monotonic clock; the process group is killed then.
        max_output: bytes kept of each output.

    Raises:
        CommandFailed: it could not be started.
    """
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    try:
        process = link.spawn(argv, [in_r, out_w, err_w], user=user, cwd=cwd, env=env)
    except CommandFailed:
        for fd in (in_w, out_r, err_r):
            os.close(fd)
        raise
    finally:
        for fd in (in_r, out_w, err_w):
            os.close(fd)
    outputs = [_Output(out_r, max_output), _Output(err_r, max_output)]
    try:
        timed_out = _follow(link, process, in_w, stdin, outputs, deadline)
        for output in outputs:
            while output.open and output.read():
                pass
        return Outcome(
            None if timed_out else process.status,
            bytes(outputs[0].data),
            bytes(outputs[1].data),
            outputs[0].truncated or outputs[1].truncated,
            timed_out,
        )
    finally:
        process.close()
        for output in outputs:
            if output.open:
                drain.adopt(output.fd)
            else:
                os.close(output.fd)


def _follow(
    link: SpawnerLink, process: Process, in_w: int, stdin: bytes, outputs: list[_Output], deadline: float
) -> bool:
    """Feed and read the command until it ends; True if it had to be killed."""
    for fd in (in_w, *(output.fd for output in outputs)):
        os.set_blocking(fd, False)
    view, killed = memoryview(stdin), False
    try:
        while True:
            if in_w >= 0 and not view:
                os.close(in_w)
                in_w = -1
            readers = [process.ended, *(output.fd for output in outputs if output.open)]
            left = deadline - time.monotonic()
            if left <= 0 and not killed:
                link.kill(process)
                killed, deadline, left = True, deadline + 5.0, 5.0
            elif left <= 0:
                return True
            able = ready(readers, left, writers=[in_w] if in_w >= 0 else [])
            if in_w in able:
                try:
                    view = view[os.write(in_w, view[:CHUNK]) :]
                except BrokenPipeError:
                    view = view[len(view) :]
            for output in outputs:
                if output.fd in able:
                    output.read()
            if process.ended in able:
                return killed
    finally:
        if in_w >= 0:
            os.close(in_w)
