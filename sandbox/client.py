"""The host's side of the probe: calls over a few connections, and a `Desktop` made of them.

One connection serves one call at a time; calls side by side take connections of their own, so a long command does not
hold up a look at the screen. A connection that broke, or whose call outlived its deadline, is thrown away.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import select
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import errors
from sandbox.actions import Action, action_json, is_terminal
from sandbox.answers import read_changes, read_error, read_evidence, read_node, read_window
from sandbox.desktop import (
    ActionResult,
    DesktopSpec,
    ExecResult,
    Health,
    Observation,
    Settle,
    SettleReport,
    StepResult,
    User,
    Want,
)
from sandbox.evidence import Evidence, EvidenceRequest
from sandbox.frame import Frame
from sandbox.probe import wire

__all__ = ["ProbeAddress", "ProbeClient", "ProbeDesktop"]

CONNECT_S = 3.0
"""How long a probe that died is given to be started again, by the spawner."""
RETRY_S = 0.1
GRACE_S = 2.0
"""How much longer than the probe itself the host waits before it gives a call up."""
KEPT_FRAMES = 4
DEFAULT_SETTLE = Settle()
Body = bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeAddress:
    """Where a probe listens, and the right to talk to it."""

    socket: Path
    token: str
    epoch: int = 1


class ProbeClient:
    """Calls one probe."""

    def __init__(self, address: ProbeAddress) -> None:
        self.address = address
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(
        self,
        op: str,
        args: dict[str, Any],
        *,
        body: Body = b"",
        deadline_s: float,
        request_id: str | None = None,
        effect: bool = False,
    ) -> tuple[dict[str, Any], Body]:
        """Make one call.

        Args:
            effect: it changes the desktop, so when the connection breaks its fate is unknown.

        Raises:
            SandboxError: what the probe answered, or ProbeLost / DeadlineExceeded when it did not.
        """
        message = {
            "v": wire.VERSION,
            "token": self.address.token,
            "epoch": self.address.epoch,
            "id": request_id or uuid.uuid4().hex,
            "op": op,
            "deadline_ms": deadline_s * 1000,
            "args": args,
        }
        phase: errors.Phase = "unknown" if effect else "infra"
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                try:
                    answer, data = await self._exchange(message, body)
                except (OSError, EOFError, wire.WireError):
                    if effect:
                        raise
                    # Nothing can have happened: once more, when a probe that was just dying is gone.
                    await asyncio.sleep(RETRY_S)
                    answer, data = await self._exchange(message, body)
        except TimeoutError as error:
            raise errors.DeadlineExceeded(f"{op} did not end within {deadline_s:g} s", phase=phase) from error
        except (OSError, EOFError, wire.WireError) as error:
            raise errors.ProbeLost(f"the probe hung up during {op}", phase=phase) from error
        if "error" in answer:
            raise read_error(answer["error"])
        return answer["result"], data

    async def _exchange(self, message: dict[str, Any], body: Body) -> tuple[dict[str, Any], Body]:
        """Send a request and read its answer."""
        async with self._connection() as (reader, writer):
            writer.write(wire.encode(message, len(body)))
            if body:
                writer.write(body)
            await writer.drain()
            json_length, body_length = wire.decode_header(await reader.readexactly(wire.HEADER.size))
            answer = json.loads(await reader.readexactly(json_length))
            return answer, await reader.readexactly(body_length) if body_length else b""

    @contextlib.asynccontextmanager
    async def _connection(self) -> Any:
        connection = None
        while self._idle and connection is None:
            connection = self._idle.pop()
            if _hung_up(*connection):
                connection[1].transport.abort()
                connection = None
        if connection is None:
            try:
                connection = await _connect(self.address.socket)
            except OSError as error:
                message = f"no probe answers ({error.strerror}); nothing was done"
                raise errors.ProbeLost(message, phase="infra") from error
        try:
            yield connection
        except BaseException:
            connection[1].transport.abort()
            raise
        self._idle.append(connection)

    async def close(self) -> None:
        """Hang up."""
        while self._idle:
            _, writer = self._idle.pop()
            writer.transport.abort()
        await asyncio.sleep(0)


def _hung_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the other end of an idle connection is gone: then, and only then, there is something to read."""
    if reader.at_eof() or writer.is_closing():
        return True
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, waiting for a probe that is just being started again.

    Raises:
        OSError: there is no probe; nothing was done.
    """
    until = time.monotonic() + CONNECT_S
    while True:
        # A socket's path may have 108 bytes at most; through a descriptor of its directory any path fits.
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{path.name}", limit=1 << 20)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
        finally:
            os.close(directory)
        await asyncio.sleep(0.01)


class ProbeDesktop:
    """A desktop reached through its probe. A backend's own class adds how it ends.

    Args:
        desktop_id: unique on this host.
    """

    def __init__(self, desktop_id: str, spec: DesktopSpec, image_digest: str, client: ProbeClient) -> None:
        self._id = desktop_id
        self._spec = spec
        self._image_digest = image_digest
        self._client = client
        self._frames: collections.OrderedDict[str, Frame] = collections.OrderedDict()

    @property
    def id(self) -> str:
        """Unique on this host for ever."""
        return self._id

    @property
    def spec(self) -> DesktopSpec:
        """What it was asked to be."""
        return self._spec

    @property
    def image_digest(self) -> str:
        """Names the exact image content it was started from."""
        return self._image_digest

    @property
    def address(self) -> ProbeAddress:
        """Where its probe listens."""
        return self._client.address

    async def _call(
        self,
        op: str,
        args: dict[str, Any],
        *,
        deadline_s: float,
        body: Body = b"",
        request_id: str | None = None,
        effect: bool = False,
    ) -> tuple[dict[str, Any], Body]:
        return await self._client.call(op, args, body=body, deadline_s=deadline_s, request_id=request_id, effect=effect)

    async def step(
        self,
        actions: Sequence[Action],
        *,
        settle: Settle | None = None,
        want: Sequence[Want] = ("frame",),
        request_id: str | None = None,
        deadline_s: float = 30.0,
    ) -> StepResult:
        """Act, wait until the screen is settled, observe; one round trip. See `Desktop.step`."""
        for action in actions:
            if is_terminal(action):
                raise errors.BadRequest(f"{action.kind!r} ends an episode; a desktop cannot execute it")
        if settle is None and actions:
            settle = DEFAULT_SETTLE
        held = dict(self._frames)  # what the answer refers to, whatever calls side by side do meanwhile
        args = {
            "actions": [action_json(action) for action in actions],
            "settle": None
            if settle is None
            else {"first_ms": settle.first_ms, "quiet_ms": settle.quiet_ms, "cap_ms": settle.cap_ms},
            "want": list(want),
            "have": list(held),
        }
        result, body = await self._call(
            "step", args, deadline_s=deadline_s, request_id=request_id, effect=bool(actions)
        )
        return StepResult(
            actions=tuple(ActionResult(**item) for item in result["actions"]),
            settle=SettleReport(**result["settle"]),
            observation=self._observation(result["observation"], body, held),
        )

    async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
        """Look without acting."""
        return (await self.step((), want=want, deadline_s=deadline_s)).observation

    def _observation(self, data: dict[str, Any], body: Body, held: dict[str, Frame]) -> Observation:
        windows, tree = data["windows"], data["a11y"]
        return Observation(
            version=data["version"],
            frame=None if data["frame"] is None else self._frame(data["frame"], data["changes"], body, held),
            cursor=(data["cursor"][0], data["cursor"][1]),
            windows=None if windows is None else tuple(read_window(item) for item in windows),
            a11y=None if tree is None else tuple(read_node(item) for item in tree),
            clock_s=data["clock_s"],
        )

    def _frame(self, described: list[Any], changes: dict[str, Any] | None, body: Body, held: dict[str, Frame]) -> Frame:
        width, height, sha256 = described
        frame = held.get(sha256) or self._frames.get(sha256)
        if frame is None:
            if changes is not None and changes["base"] in held:
                body = read_changes(held[changes["base"]], changes["rows"], body)
            elif changes is not None or not body:
                raise errors.BadRequest("this request was executed long ago; its screenshot is no longer kept")
            frame = Frame.from_pixels(width, height, body)
            if frame.sha256 != sha256:
                raise errors.ProbeLost("a frame arrived damaged", phase="infra")
        self._frames.pop(sha256, None)
        self._frames[sha256] = frame
        while len(self._frames) > KEPT_FRAMES:
            self._frames.popitem(last=False)
        return frame

    async def exec(
        self,
        argv: Sequence[str],
        *,
        user: User = "user",
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        deadline_s: float = 30.0,
        max_output: int = 1 << 20,
    ) -> ExecResult:
        """Run a command to its end. See `Box.exec`."""
        args = {"argv": list(argv), "user": user, "cwd": cwd, "env": env or {}, "max_output": max_output}
        if not argv:
            raise errors.BadRequest("an empty command cannot be run")
        result, body = await self._call("exec", args, body=stdin, deadline_s=deadline_s, effect=True)
        split = result["stdout_bytes"]
        return ExecResult(
            exit_code=result["exit_code"],
            stdout=body[:split],
            stderr=body[split:],
            truncated=result["truncated"],
            timed_out=result["timed_out"],
            seconds=result["seconds"],
        )

    async def spawn(
        self, argv: Sequence[str], *, user: User = "user", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> int:
        """Start a program detached and return its pid inside the box."""
        args = {"argv": list(argv), "user": user, "cwd": cwd, "env": env or {}}
        result, _ = await self._call("spawn", args, deadline_s=10.0, effect=True)
        return int(result["pid"])

    async def put_file(self, path: str, data: bytes, *, user: User = "user", mode: int = 0o644) -> None:
        """Write a file whole or not at all, making its parent directories."""
        await self._call(
            "write_file", {"path": path, "user": user, "mode": mode}, body=data, deadline_s=60.0, effect=True
        )

    async def get_file(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
        """Read a regular file. See `Box.get_file`."""
        _, body = await self._call("read_file", {"path": path, "user": "user", "max_bytes": max_bytes}, deadline_s=60.0)
        return body

    async def collect(self, requests: Sequence[EvidenceRequest], *, deadline_s: float = 30.0) -> Evidence:
        """Gather evidence, item by item."""
        args = {"requests": [request.model_dump(mode="json") for request in requests]}
        if len({request.name for request in requests}) < len(requests):
            raise errors.BadRequest("two evidence requests have the same name; their answers could not be told apart")
        result, body = await self._call("collect", args, deadline_s=deadline_s)
        return read_evidence(result, body)

    async def health(self) -> Health:
        """Whether it still is usable, with causes."""
        result, _ = await self._call("health", {}, deadline_s=5.0)
        return Health(alive=result["alive"], detail=result["detail"])

    async def close(self) -> None:
        """Hang up; the desktop's owner ends it."""
        await self._client.close()
