"""A `Desktop` made of calls to its probe."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from sandbox import errors, streams
from sandbox.actions import Action, action_json, is_terminal
from sandbox.answers import read_changes, read_evidence, read_node, read_window
from sandbox.client import Body, Connection, ProbeAddress, ProbeClient
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
from sandbox.evidence import BrowserRequest, Evidence, EvidenceRequest
from sandbox.forward import Forward
from sandbox.frame import Frame

__all__ = ["ProbeDesktop"]

KEPT_FRAMES = 4
DEFAULT_SETTLE = Settle()


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
        self._forwards: set[Forward] = set()

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
        async with self._explained():
            return await self._client.call(
                op, args, body=body, deadline_s=deadline_s, request_id=request_id, effect=effect
            )

    @contextlib.asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        """Where a backend adds what it knows of the desktop to the failure of a call."""
        yield

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

    async def put_file(
        self, path: str, data: bytes, *, user: User = "user", mode: int = 0o644, deadline_s: float = 60.0
    ) -> None:
        """Write a file whole or not at all, making its parent directories."""
        async with self._explained():
            source = streams.BytesSource(data)
            await streams.send_file(self._client, path, source, user=user, mode=mode, deadline_s=deadline_s)

    async def get_file(self, path: str, *, max_bytes: int = 64 << 20, deadline_s: float = 60.0) -> bytes:
        """Read a regular file. See `Box.get_file`."""
        async with self._explained():
            sink = streams.BytesSink()
            await streams.receive_file(self._client, path, sink, max_bytes=max_bytes, deadline_s=deadline_s)
            return sink.data()

    async def upload(
        self, source: Path, path: str, *, user: User = "user", mode: int = 0o644, deadline_s: float = 600.0
    ) -> int:
        """Copy a file of this machine into the desktop. See `Box.upload`."""
        async with self._explained():
            with streams.FileSource(source) as opened:
                return await streams.send_file(self._client, path, opened, user=user, mode=mode, deadline_s=deadline_s)

    async def download(self, path: str, target: Path, *, max_bytes: int = 16 << 30, deadline_s: float = 600.0) -> int:
        """Copy a file of the desktop to this machine. See `Box.download`."""
        async with self._explained():
            with streams.FileSink(target) as opened:
                size = await streams.receive_file(
                    self._client, path, opened, max_bytes=max_bytes, deadline_s=deadline_s
                )
                await opened.keep()
                return size

    @contextlib.asynccontextmanager
    async def forward(self, port: int) -> AsyncIterator[Forward]:
        """Lend a port of this machine that leads to one of the desktop. See `Desktop.forward`."""

        async def connect() -> Connection:
            async with self._explained():
                return await streams.open_stream(self._client, port)

        async with Forward.open(connect) as forward:
            self._forwards.add(forward)
            try:
                yield forward
            finally:
                self._forwards.discard(forward)

    async def collect(self, requests: Sequence[EvidenceRequest], *, deadline_s: float = 30.0) -> Evidence:
        """Gather evidence, item by item."""
        if len({request.name for request in requests}) < len(requests):
            raise errors.BadRequest("two evidence requests have the same name; their answers could not be told apart")
        ends_at = time.monotonic() + deadline_s
        browser = [request for request in requests if isinstance(request, BrowserRequest)]
        asked = [request.model_dump(mode="json") for request in requests if not isinstance(request, BrowserRequest)]
        result, body = await self._call("collect", {"requests": asked}, deadline_s=deadline_s)
        evidence = read_evidence(result, body)
        if not browser:
            return evidence
        from sandbox.browser_evidence import collect_browser  # it takes its time to load, and few tasks ask for it

        items = {
            **evidence.items,
            **await collect_browser(self, browser, deadline_s=max(0.0, ends_at - time.monotonic())),
        }
        return evidence.model_copy(update={"items": {request.name: items[request.name] for request in requests}})

    async def health(self) -> Health:
        """Whether it still is usable, with causes."""
        result, _ = await self._call("health", {}, deadline_s=5.0)
        return Health(alive=result["alive"], detail=result["detail"])

    def _close_forwards(self) -> None:
        for forward in self._forwards:
            forward.close()

    async def close(self) -> None:
        """Hang up; the desktop's owner ends it."""
        self._close_forwards()
        await self._client.close()
