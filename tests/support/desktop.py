"""In-memory desktops and a backend that makes them. They record every call and fail on demand.

The screen is a list of frames: each step that acts on it moves to the next frame and stays on the last. A test scripts
more by replacing `windows`, `a11y`, `files` and `evidence`, by `on_step`, and by planning failures::

    desktop = FakeDesktop(frames=[make_frame(1), make_frame(2)])
    desktop.fail("step", ProbeLost("gone"), nth=2)   # the second step raises
    desktop.hang("observe")                          # the first observe never returns
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.actions import Action, Move, is_terminal
from sandbox.desktop import (
    A11yNode,
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
    Window,
)
from sandbox.errors import DesktopLost, FileRefused, Unavailable
from sandbox.evidence import Evidence, EvidenceItem, EvidenceRequest, FileRequest
from sandbox.forward import Ends, Forward
from sandbox.frame import Frame
from tests.support.screen import make_frame

__all__ = ["Event", "FakeBackend", "FakeDesktop"]

_ids = itertools.count(1)
_IDLE = frozenset({"wait", "screenshot"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One call that was made."""

    call: str
    args: dict[str, Any]


class _Planned:
    """Failures planned by call and number."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._made: Counter[str] = Counter()
        self._failures: dict[tuple[str, int], BaseException | None] = {}

    def fail(self, call: str, error: BaseException, *, nth: int = 1) -> None:
        """Make the nth call (1 is the first from the start) raise this error."""
        self._failures[call, nth] = error

    def hang(self, call: str, *, nth: int = 1) -> None:
        """Make the nth call never return."""
        self._failures[call, nth] = None

    def calls(self, call: str) -> list[dict[str, Any]]:
        """The arguments of every such call, in order."""
        return [event.args for event in self.events if event.call == call]

    async def _enter(self, call: str, **args: Any) -> None:
        self.events.append(Event(call=call, args=args))
        self._made[call] += 1
        key = (call, self._made[call])
        if key in self._failures:
            error = self._failures[key]
            if error is None:
                await asyncio.Event().wait()
                raise AssertionError("unreachable")
            raise error
        await asyncio.sleep(0)


class FakeDesktop(_Planned):
    """A desktop in memory."""

    def __init__(
        self,
        *,
        spec: DesktopSpec | None = None,
        frames: Sequence[Frame] = (),
        windows: Sequence[Window] = (),
        a11y: Sequence[A11yNode] = (),
        files: dict[str, bytes] | None = None,
        evidence: dict[str, EvidenceItem] | None = None,
        exec_handler: Callable[[Sequence[str]], ExecResult] | None = None,
        on_step: Callable[[FakeDesktop, Sequence[Action]], None] | None = None,
        image_digest: str = "sha256:fake",
    ) -> None:
        super().__init__()
        self.spec = spec or DesktopSpec(width=160, height=120)
        self.id = f"fake-{next(_ids)}"
        self.image_digest = image_digest
        self.frames = list(frames) or [make_frame(0, width=self.spec.width, height=self.spec.height)]
        self.windows = tuple(windows)
        self.a11y = tuple(a11y)
        self.files = dict(files or {})
        self.evidence = dict(evidence or {})
        self.exec_handler = exec_handler
        self.on_step = on_step
        self.cursor = (0, 0)
        self.version = 0
        self.closed = False
        self.acted: list[Action] = []
        """Every action that was executed, in order."""
        self._at = 0
        self._answers: dict[str, StepResult] = {}
        self._pids = itertools.count(100)

    async def step(
        self,
        actions: Sequence[Action],
        *,
        settle: Settle | None = None,
        want: Sequence[Want] = ("frame",),
        request_id: str | None = None,
        deadline_s: float = 30.0,
    ) -> StepResult:
        await self._use(
            "step",
            actions=tuple(actions),
            settle=settle,
            want=tuple(want),
            request_id=request_id,
            deadline_s=deadline_s,
        )
        if request_id is not None and request_id in self._answers:
            return self._answers[request_id]
        results: list[ActionResult] = []
        before = self.version
        for action in actions:
            error = self._refusal(action)
            results.append(ActionResult(ok=error is None, error=error, elapsed_ms=0.1))
            if error is not None:
                break
            self._act(action)
        if self.on_step is not None:
            self.on_step(self, actions)
        report = SettleReport(changed=self.version != before, settled=True, waited_ms=0.1)
        answer = StepResult(actions=tuple(results), settle=report, observation=self._observation(want))
        if request_id is not None:
            self._answers[request_id] = answer
        return answer

    async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
        await self._use("observe", want=tuple(want), deadline_s=deadline_s)
        return self._observation(want)

    async def collect(self, requests: Sequence[EvidenceRequest], *, deadline_s: float = 30.0) -> Evidence:
        await self._use("collect", requests=tuple(requests), deadline_s=deadline_s)
        items = {request.name: self._evidence_item(request) for request in requests}
        return Evidence(items=items, clock_s=1_700_000_000.0)

    async def health(self) -> Health:
        await self._enter("health")
        return Health(alive=not self.closed, detail={})

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
        await self._use("exec", argv=tuple(argv), user=user, cwd=cwd, env=env, stdin=stdin)
        if self.exec_handler is not None:
            return self.exec_handler(argv)
        return ExecResult(exit_code=0, stdout=b"", stderr=b"", truncated=False, timed_out=False, seconds=0.0)

    async def spawn(
        self, argv: Sequence[str], *, user: User = "user", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> int:
        await self._use("spawn", argv=tuple(argv), user=user, cwd=cwd, env=env)
        return next(self._pids)

    async def put_file(
        self, path: str, data: bytes, *, user: User = "user", mode: int = 0o644, deadline_s: float = 60.0
    ) -> None:
        await self._use("put_file", path=path, data=data, user=user, mode=mode)
        self.files[path] = data

    async def get_file(self, path: str, *, max_bytes: int = 64 << 20, deadline_s: float = 60.0) -> bytes:
        await self._use("get_file", path=path, max_bytes=max_bytes)
        if path not in self.files:
            raise FileNotFoundError(path)
        if len(self.files[path]) > max_bytes:
            raise FileRefused(f"{path} is larger than {max_bytes} bytes", kind="too_large")
        return self.files[path]

    async def upload(
        self, source: Path, path: str, *, user: User = "user", mode: int = 0o644, deadline_s: float = 600.0
    ) -> int:
        await self._use("upload", source=source, path=path, user=user, mode=mode)
        self.files[path] = source.read_bytes()
        return len(self.files[path])

    async def download(self, path: str, target: Path, *, max_bytes: int = 16 << 30, deadline_s: float = 600.0) -> int:
        data = await self.get_file(path, max_bytes=max_bytes)
        return target.write_bytes(data)

    @contextlib.asynccontextmanager
    async def forward(self, port: int) -> AsyncIterator[Forward]:
        await self._use("forward", port=port)

        async def connect() -> Ends:
            try:
                return await asyncio.open_connection("127.0.0.1", port)
            except OSError as error:
                raise Unavailable(f"nothing listens on port {port} of the desktop") from error

        async with Forward.open(connect) as forward:
            yield forward

    async def close(self) -> None:
        await self._enter("close")
        self.closed = True

    async def _use(self, call: str, **args: Any) -> None:
        if self.closed:
            raise DesktopLost(f"{self.id} is closed")
        await self._enter(call, **args)

    def _refusal(self, action: Action) -> str | None:
        if is_terminal(action):
            return f"{action.kind} ends an episode; a desktop does not execute it"
        points = [getattr(action, "point", None), *getattr(action, "path", ())]
        for point in points:
            if point is not None and not (point.x < self.spec.width and point.y < self.spec.height):
                return f"({point.x}, {point.y}) is outside the {self.spec.width}x{self.spec.height} screen"
        return None

    def _act(self, action: Action) -> None:
        self.acted.append(action)
        if isinstance(action, Move):
            self.cursor = (action.point.x, action.point.y)
        if action.kind not in _IDLE and self._at + 1 < len(self.frames):
            self._at += 1
            self.version += 1

    def _observation(self, want: Sequence[Want]) -> Observation:
        return Observation(
            version=self.version,
            frame=self.frames[self._at] if "frame" in want else None,
            cursor=self.cursor,
            windows=self.windows if "windows" in want else None,
            a11y=self.a11y if "a11y" in want else None,
            clock_s=1_700_000_000.0,
        )

    def _evidence_item(self, request: EvidenceRequest) -> EvidenceItem:
        if request.name in self.evidence:
            return self.evidence[request.name]
        if isinstance(request, FileRequest) and request.path in self.files:
            data = {"base64": base64.b64encode(self.files[request.path]).decode()}
            return EvidenceItem(status="ok", data=data)
        return EvidenceItem(status="missing", reason="there is no such item")


@dataclass(kw_only=True)
class FakeBackend(_Planned):
    """A backend that makes FakeDesktops: from `make`, or plain ones of the asked spec."""

    name: str = "fake"
    make: Callable[[DesktopSpec], FakeDesktop] | None = None
    booted: list[FakeDesktop] = field(default_factory=list)
    """Every desktop it ever made."""

    def __post_init__(self) -> None:
        super().__init__()

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> FakeDesktop:
        await self._enter("boot", spec=spec, deadline_s=deadline_s)
        desktop = self.make(spec) if self.make is not None else FakeDesktop(spec=spec)
        self.booted.append(desktop)
        return desktop

    async def reap(self) -> list[str]:
        await self._enter("reap")
        return []

    async def close(self) -> None:
        await self._enter("close")
        for desktop in self.booted:
            desktop.closed = True

    @property
    def open_desktops(self) -> list[FakeDesktop]:
        """Those that nobody has closed."""
        return [desktop for desktop in self.booted if not desktop.closed]
