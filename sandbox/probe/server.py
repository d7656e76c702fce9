"""The probe's server: one thread per connection, one request at a time on each.

Guarantees: a request is executed at most once (a repeated id gets the first answer, or waits for it); every request
carries the token, and an epoch older than one already seen is refused; nothing here waits for the X server without the
caller being able to give up on it (the caller's deadline closes the connection, other connections go on).
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from Xlib import display, error

from sandbox.probe.a11y import Accessibility, AccessibilityUnavailable
from sandbox.probe.actor import Actor
from sandbox.probe.collect import Collector
from sandbox.probe.commands import CommandFailed, Drain, SpawnerLink, run
from sandbox.probe.files import Files
from sandbox.probe.keyboard import Keyboard
from sandbox.probe.pointer import Pointer
from sandbox.probe.requests import Body, Memory, Refused, Reply, command_refusal
from sandbox.probe.screen import Screen
from sandbox.probe.settle import DamageWatcher
from sandbox.probe.streams import Streams
from sandbox.probe.windows import WindowReader
from sandbox.probe.wire import MAX_JSON, VERSION, WireError, encode, recv_message

__all__ = ["serve"]

SOCKET = "/run/frontdesk/ctl/probe.sock"
CAPABILITIES = ["step", "ready", "exec", "spawn", "read_file", "write_file", "forward", "collect", "health"]
MAX_NODES = 5000
VERSIONS_PER_PROBE = 1 << 32
MAX_PATIENCE_S = 86_400.0
SOCKET_GRACE_S = 2.0
"""A caller that neither sends nor takes anything for as long as its own deadline, and this, is hung up on."""


class Probe:
    """Everything the probe can do, by operation name."""

    def __init__(self, config: dict[str, Any], framebuffer: int, link: SpawnerLink) -> None:
        self._config = config
        self._link = link
        self._drain = Drain()
        self._x_lock = threading.RLock()
        self._display: Any = display.Display(":0")  # owns no resource, so no other client can have it killed
        # Versions go on when a probe takes over from one that died: the same number never means another screen.
        self._screen = Screen(framebuffer, first_version=int(link.facts["probe_restarts"]) * VERSIONS_PER_PROBE)
        self._pointer = Pointer(self._display, self._screen.width, self._screen.height)
        self._actor = Actor(self._pointer, Keyboard(self._display))
        self._damage = DamageWatcher(":0")
        self._windows = WindowReader(self._display)
        files = Files(link, config["env"]["user"]["HOME"])
        self._streams = Streams(files)
        self._accessibility = Accessibility(link)
        self._collector = Collector(
            link, self._drain, files, self._accessibility, self._window_list, config["uids"]["user"]
        )
        self._memory = Memory()
        self._epoch = 0
        self._publish_resolution()

    def _publish_resolution(self) -> None:
        """Tell toolkits the font resolution, before any of them starts."""
        root = self._display.screen().root
        resources = f"Xft.dpi:\t{self._config['dpi']}\nXft.antialias:\t1\nXft.hinting:\t1\n"
        atom = self._display.intern_atom("RESOURCE_MANAGER")
        root.change_property(atom, self._display.intern_atom("STRING"), 8, resources.encode())
        self._display.sync()

    # -- one request --------------------------------------------------------------------------------------------

    def handle(self, request: dict[str, Any], body: Body) -> Iterator[bytes]:
        """Answer one request as pieces to send. A `forward` takes the connection over and answers itself."""
        try:
            self._admit(request)
            deadline = time.monotonic() + request["deadline_ms"] / 1000
            operation, args = request["op"], request.get("args", {})
            if operation == "read_file":
                yield from self._streams.read_file(request["id"], args, deadline)
                return
            if operation == "forward":
                self._streams.forward(request["id"], args, body, deadline)
                return
            if operation == "write_file":
                answer = self._streams.write_file(args, body, deadline), b""
            else:
                answer = self._answer(operation, request["id"], args, body.all(), deadline)
        except Refused as refused:
            answer = refused.answer(), b""
        except (error.ConnectionClosedError, error.DisplayError, BrokenPipeError) as lost:
            state = {**self._link.facts, "cause": str(lost)}
            answer = _error("DesktopLost", f"the X server does not answer: {self._xserver_fate()}", state), b""
        except (KeyError, TypeError, IndexError) as problem:
            answer = _error("BadRequest", f"malformed request: {type(problem).__name__}: {problem}", {}), b""
        # Before what is left of the body: who is refused need not send a file to its end to learn it.
        yield encode({"id": request.get("id"), **answer[0]}, len(answer[1]), clean=True)
        if answer[1]:
            yield answer[1]
        body.drop()

    def _admit(self, request: dict[str, Any]) -> None:
        if not hmac.compare_digest(str(request.get("token", "")), self._config["token"]):
            raise Refused("BadRequest", "the token is wrong")
        if request.get("v") != VERSION:
            raise Refused("BadRequest", f"this probe speaks version {VERSION}, not {request.get('v')}")
        if request["epoch"] < self._epoch:
            raise Refused("LeaseExpired", f"epoch {request['epoch']} is over; the desktop is at {self._epoch}")
        if request["epoch"] > self._epoch:
            self._streams.drop_forwards()  # they are of an epoch that is over
        self._epoch = request["epoch"]

    def _xserver_fate(self) -> str:
        return self._link.facts.get("xserver", "its connection broke")

    def _answer(self, operation: str, request_id: str, args: dict[str, Any], body: bytes, deadline: float) -> Reply:
        if operation == "step":
            if not args["actions"]:
                return self._step(args, deadline)
            return self._once(request_id, lambda: self._step(args, deadline))
        if operation == "exec":
            return self._once(request_id, lambda: self._exec(args, body, deadline))
        if operation == "spawn":
            return self._once(request_id, lambda: self._spawn(args))
        if operation == "collect":
            return self._collect(args, deadline)
        if operation == "ready":
            return self._ready(deadline), b""
        if operation == "health":
            return self._health(), b""
        raise Refused("BadRequest", f"unknown operation {operation!r}; this probe offers {', '.join(CAPABILITIES)}")

    def _once(self, request_id: str, execute: Any) -> Reply:
        known = self._memory.claim(request_id)
        if known is not None:
            return known
        answer: Reply = _error("ProbeLost", "the probe failed while it executed this", {}), b""
        try:
            answer = execute()
        except Refused as refused:
            answer = refused.answer(), b""
        except (error.ConnectionClosedError, error.DisplayError, BrokenPipeError) as lost:
            state = {**self._link.facts, "cause": str(lost)}
            answer = _error("DesktopLost", f"the X server does not answer: {self._xserver_fate()}", state), b""
        finally:
            self._memory.keep(request_id, answer)
        return answer

    # -- operations ---------------------------------------------------------------------------------------------

    def _step(self, args: dict[str, Any], deadline: float) -> Reply:
        shortest, left = self._actor.shortest_s(args["actions"]), deadline - time.monotonic()
        if shortest > left:
            # Begun and given up, it would go on under the calls that follow.
            raise Refused("BadRequest", f"these actions take {shortest:.1f} s or more; the deadline is in {left:.1f} s")
        with self._x_lock:
            self._require_xserver()
            results: list[dict[str, Any]] = []
            if args["actions"]:
                self._damage.drain()
                results = self._actor.run(args["actions"])
            settle = args["settle"]
            outcome = {"changed": False, "settled": True, "waited_ms": 0.0}
            if settle is not None:
                cap = min(settle["cap_ms"], max(0.0, (deadline - time.monotonic()) * 1000 - 500))
                done = self._damage.wait(settle["first_ms"], settle["quiet_ms"], cap)
                outcome = {"changed": done.changed, "settled": done.settled, "waited_ms": done.waited_ms}
            observation, body = self._observe(args["want"], args["have"], deadline)
        return {"result": {"actions": results, "settle": outcome, "observation": observation}}, body

    def _observe(self, want: list[str], have: list[str], deadline: float) -> tuple[dict[str, Any], bytes]:
        body = b""
        observation: dict[str, Any] = {"frame": None, "changes": None, "windows": None, "a11y": None}
        if "a11y" in want:
            try:
                observation["a11y"] = self._accessibility.tree(app=None, max_nodes=MAX_NODES, deadline=deadline)["apps"]
            except AccessibilityUnavailable as problem:
                raise Refused("Unavailable", str(problem)) from problem
        if "windows" in want:
            observation["windows"] = self._windows.list()
        if "frame" in want:
            capture = self._screen.capture()
            observation["frame"] = [self._screen.width, self._screen.height, capture.sha256]
            observation["changes"], body = self._screen.transfer(capture, have)
        observation["version"] = self._screen.version
        observation["cursor"] = list(self._pointer.position())
        observation["clock_s"] = time.time()
        return observation, body

    def _require_xserver(self) -> None:
        if "xserver" in self._link.facts:
            raise Refused("DesktopLost", f"the X server is {self._link.facts['xserver']}", dict(self._link.facts))

    def _window_list(self) -> list[dict[str, Any]]:
        with self._x_lock:
            return self._windows.list()

    def _exec(self, args: dict[str, Any], body: bytes, deadline: float) -> Reply:
        start = time.monotonic()
        try:
            outcome = run(
                self._link,
                self._drain,
                args["argv"],
                user=args["user"],
                cwd=args["cwd"],
                env=args["env"],
                stdin=body,
                deadline=deadline,
                max_output=args["max_output"],
            )
        except CommandFailed as problem:
            raise command_refusal(problem) from problem
        result = {
            "exit_code": outcome.status,
            "stdout_bytes": len(outcome.stdout),
            "truncated": outcome.truncated,
            "timed_out": outcome.timed_out,
            "seconds": time.monotonic() - start,
        }
        return {"result": result}, outcome.stdout + outcome.stderr

    def _spawn(self, args: dict[str, Any]) -> Reply:
        null = os.open("/dev/null", os.O_RDWR)
        try:
            process = self._link.spawn(
                args["argv"],
                [null, null, null],
                user=args["user"],
                cwd=args["cwd"],
                env=args["env"],
                detached=True,
            )
        except CommandFailed as problem:
            raise command_refusal(problem) from problem
        finally:
            os.close(null)
        process.close()
        return {"result": {"pid": process.pid}}, b""

    def _collect(self, args: dict[str, Any], deadline: float) -> Reply:
        """Gather evidence. The bytes of files follow as the body, in order; each item says how many are its own."""
        items, files, room = {}, [], MAX_JSON - (1 << 16)
        for request in args["requests"]:
            answer = self._collector.collect(request, deadline)
            if isinstance(answer["data"], bytes):
                files.append(answer["data"])
                answer = {**answer, "data": None, "body_bytes": len(files[-1])}
            size = len(json.dumps(answer))
            if size > room:
                answer = {"status": "too_large", "data": None, "reason": f"it takes {size} bytes; {room} are left"}
            else:
                room -= size
            items[request["name"]] = answer
        return {"result": {"items": items, "clock_s": time.time()}}, b"".join(files)

    def _ready(self, deadline: float) -> dict[str, Any]:
        """Wait until the window manager has drawn and accessibility is up."""
        bus = self._display.intern_atom("AT_SPI_BUS")
        while True:
            with self._x_lock:
                manager = self._windows.manager_ready()
                accessible = self._display.screen().root.get_full_property(bus, 0) is not None
            if manager and accessible:
                break
            missing = [name for name, ok in (("window manager", manager), ("accessibility", accessible)) if not ok]
            if "session" in self._link.facts or time.monotonic() > deadline:
                raise Refused("BootFailed", f"not ready: {' and '.join(missing)}", dict(self._link.facts))
            time.sleep(0.01)
        with self._x_lock:
            self._damage.wait(first_ms=60, quiet_ms=60, cap_ms=max(0.0, (deadline - time.monotonic()) * 1000))
        return {"result": {"version": VERSION, "capabilities": CAPABILITIES}}

    def _health(self) -> dict[str, Any]:
        facts = dict(self._link.facts)
        facts["damage_reconnects"] = str(self._damage.reconnects)
        alive = "xserver" not in facts
        if alive and self._x_lock.acquire(timeout=1.0):
            try:
                facts["window_manager"] = "running" if self._windows.manager_ready() else "gone"
            except (error.ConnectionClosedError, OSError):
                alive = False
            finally:
                self._x_lock.release()
        elif alive:
            facts["window_manager"] = "unknown: the X server is busy"
        return {"result": {"alive": alive, "detail": facts}}


def _error(kind: str, message: str, state: dict[str, str]) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message, "state": state}}


def _patience_s(request: dict[str, Any]) -> float:
    """How long one send or receive may take while this request is served."""
    asked = request.get("deadline_ms")
    return SOCKET_GRACE_S + (min(max(asked, 0) / 1000, MAX_PATIENCE_S) if isinstance(asked, (int, float)) else 0.0)


def _talk(probe: Probe, connection: socket.socket) -> None:
    """Serve one connection until it ends."""
    with connection:
        try:
            while connection.fileno() >= 0 and (received := recv_message(connection)) is not None:
                connection.settimeout(_patience_s(received[0]))
                for piece in probe.handle(received[0], Body(connection, received[1])):
                    connection.sendall(piece)
                connection.settimeout(None)
        except (WireError, OSError):
            return  # the caller learns it from the closed connection


def _turn_away(connection: socket.socket) -> None:
    """Say that there is no room for another connection."""
    with connection:
        connection.settimeout(1.0)
        try:
            received = recv_message(connection)
            if received is not None:
                refusal = _error("Unavailable", "the desktop has no room for another connection", {})
                connection.sendall(encode({"id": received[0].get("id"), **refusal}))
        except (WireError, OSError):
            return


def serve(config: dict[str, Any], framebuffer: int, spawner: socket.socket, facts: dict[str, str]) -> None:
    """Run the probe; returns only with the process."""
    link = SpawnerLink(spawner, facts)
    probe = Probe(config, framebuffer, link)
    link.display_ready()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    pending = f"{SOCKET}.new"
    with contextlib.suppress(FileNotFoundError):  # of a probe that died just here
        os.unlink(pending)
    listener.bind(pending)
    listener.listen(64)
    os.rename(pending, SOCKET)  # whoever sees the socket can connect to it
    while True:
        connection, _ = listener.accept()
        try:
            threading.Thread(target=_talk, args=(probe, connection), daemon=True).start()
        except RuntimeError:  # root's programs took the last process
            _turn_away(connection)
