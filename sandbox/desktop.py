"""What a desktop is to the rest of the house: the data it gives and the protocols a backend fulfils.

A *box* is an isolated place to run commands; a *desktop* is a box with a screen. Every call takes one `deadline_s` that
passes through to the probe. Effects happen at most once: a call whose fate is unknown raises `ProbeLost` and the
desktop must be thrown away.

::

    Backend.boot(spec) -> Desktop: ready -> step/observe/exec/... -> close
                                     `-- any DesktopError but Unavailable, DeadlineExceeded: dead, close it
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from sandbox.actions import Action
from sandbox.evidence import Evidence, EvidenceRequest
from sandbox.forward import Forward
from sandbox.frame import Frame

__all__ = [
    "A11yNode",
    "ActionResult",
    "Backend",
    "Box",
    "Desktop",
    "DesktopSpec",
    "ExecResult",
    "Health",
    "Observation",
    "Rect",
    "Settle",
    "SettleReport",
    "StepResult",
    "User",
    "Want",
    "Window",
]

User = Literal["user", "root"]
Want = Literal["frame", "windows", "a11y"]
Network = Literal["none", "loopback"]


class DesktopSpec(BaseModel):
    """What a desktop should be. Two desktops of one spec and one image start in the same state."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str = "light"
    """Name of the desktop image."""
    width: int = Field(default=1280, ge=160, le=7680)
    """Screen width, pixels."""
    height: int = Field(default=720, ge=120, le=4320)
    """Screen height, pixels."""
    font_scale: float = Field(default=1.0, ge=0.5, le=4.0)
    """1.0 is 96 dpi."""
    memory_mb: int = Field(default=1536, ge=128)
    """Memory limit of the whole desktop, files written in it included."""
    pids: int = Field(default=512, ge=32)
    """Limit on processes and threads."""
    cpus: float = Field(default=2.0, gt=0)
    """CPU limit, cores."""
    disk_mb: int = Field(default=1024, ge=16)
    """Limit on what the desktop may write."""
    network: Network = "loopback"
    """`none` has no interface up, `loopback` only its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rect:
    """A rectangle in screen pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def center(self) -> tuple[int, int]:
        """The middle pixel."""
        return self.x + self.width // 2, self.y + self.height // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A top-level window as the window manager reports it."""

    id: int
    title: str
    app: str
    """The class part of WM_CLASS, lower case (e.g. `mousepad`)."""
    bounds: Rect
    active: bool
    dialog: bool
    """A transient window or one of dialog type."""


@dataclass(frozen=True, kw_only=True, slots=True)
class A11yNode:
    """A node of the accessibility tree. The desktop's own word: the agent can forge it."""

    role: str
    name: str
    states: tuple[str, ...]
    bounds: Rect | None
    text: str | None
    value: float | None
    children: tuple[A11yNode, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What is on the screen at one moment."""

    version: int
    """Counts changes of what the probe saw; equal versions mean nothing changed."""
    frame: Frame | None
    cursor: tuple[int, int]
    """Pointer position, pixels. The pointer is also drawn into the frame."""
    windows: tuple[Window, ...] | None
    a11y: tuple[A11yNode, ...] | None
    """One root per application."""
    clock_s: float
    """The desktop's own wall clock, seconds since the epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settle:
    """When a screen counts as settled after an action."""

    first_ms: int = 100
    """Give up waiting for a first change after this long."""
    quiet_ms: int = 50
    """Settled once nothing changed for this long."""
    cap_ms: int = 2000
    """Never wait longer than this (a blinking or playing screen)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SettleReport:
    """How settling went."""

    changed: bool
    settled: bool
    """False when the cap was reached while the screen still changed."""
    waited_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionResult:
    """What the probe says of one action."""

    ok: bool
    error: str | None
    """Why it was not executed (a point outside the screen, say); later actions of the batch were skipped."""
    elapsed_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """One round trip: act, settle, observe."""

    actions: tuple[ActionResult, ...]
    settle: SettleReport
    observation: Observation


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecResult:
    """A command's end."""

    exit_code: int | None
    """None when it was killed at its deadline; negative for a signal."""
    stdout: bytes
    stderr: bytes
    truncated: bool
    """Output beyond the cap was dropped."""
    timed_out: bool
    seconds: float

    @property
    def ok(self) -> bool:
        """Exit code 0."""
        return self.exit_code == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether a desktop still is what it was lent as."""

    alive: bool
    detail: dict[str, str]
    """X server, window manager, probe restarts, OOM kills, memory in use."""


@runtime_checkable
class Box(Protocol):
    """An isolated place to run commands."""

    @property
    def id(self) -> str:
        """Unique on this host for ever."""
        ...

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
        """Run a command to its end. Returns when the command itself ends, whatever its children hold open.

        Args:
            user: `user` has the desktop's session environment (display, session bus); `root` owns the system files.
            max_output: bytes kept of each of stdout and stderr.
        """
        ...

    async def spawn(
        self, argv: Sequence[str], *, user: User = "user", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> int:
        """Start a program detached and return its pid inside the box."""
        ...

    async def put_file(
        self, path: str, data: bytes, *, user: User = "user", mode: int = 0o644, deadline_s: float = 60.0
    ) -> None:
        """Write a file whole or not at all, making its parent directories. Any file name serves.

        Raises:
            FileRefused: it cannot be written; `kind` says why.
        """
        ...

    async def get_file(self, path: str, *, max_bytes: int = 64 << 20, deadline_s: float = 60.0) -> bytes:
        """Read a regular file.

        Raises:
            FileNotFoundError: there is none.
            FileRefused: it is larger than `max_bytes`, not a regular file, not readable, or changed meanwhile.
        """
        ...

    async def upload(
        self, source: Path, path: str, *, user: User = "user", mode: int = 0o644, deadline_s: float = 600.0
    ) -> int:
        """Copy a file of this machine, of any size, into the box: whole or not at all. Returns its size in bytes.

        Raises:
            FileRefused: it cannot be read here, or not be written there, or changed meanwhile; `kind` says which.
        """
        ...

    async def download(self, path: str, target: Path, *, max_bytes: int = 16 << 30, deadline_s: float = 600.0) -> int:
        """Copy a regular file of the box, of any size, to this machine: whole or not at all. Returns its size in bytes.

        Raises:
            FileNotFoundError: there is none.
            FileRefused: it cannot be read there, or not be written here, or changed meanwhile; `kind` says which.
        """
        ...

    async def close(self) -> None:
        """Destroy it with everything in it. Idempotent."""
        ...


@runtime_checkable
class Desktop(Box, Protocol):
    """A box with a screen."""

    @property
    def spec(self) -> DesktopSpec: ...

    @property
    def image_digest(self) -> str:
        """Names the exact image content it was started from."""
        ...

    async def step(
        self,
        actions: Sequence[Action],
        *,
        settle: Settle | None = None,
        want: Sequence[Want] = ("frame",),
        request_id: str | None = None,
        deadline_s: float = 30.0,
    ) -> StepResult:
        """Act, wait until the screen is settled, observe; one round trip.

        Args:
            actions: executed in order; the first that fails stops the rest. None at all just observes.
            settle: None takes the default when there are actions, and does not wait when there are none.
            request_id: a repeated id returns the first answer without acting again.
        """
        ...

    async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
        """Look without acting."""
        ...

    async def collect(self, requests: Sequence[EvidenceRequest], *, deadline_s: float = 30.0) -> Evidence:
        """Gather evidence, item by item; a missing item is an answer, not an error."""
        ...

    def forward(self, port: int) -> AbstractAsyncContextManager[Forward]:
        """Lend a port of this machine that leads to a TCP port on the desktop's own loopback (a browser's CDP, say).

        It is open until the block or the desktop ends. That nothing listens in the desktop is no error: whoever
        connects is hung up on, and `Forward.last_error` says why.
        """
        ...

    async def health(self) -> Health:
        """Whether it still is usable, with causes."""
        ...


class Backend(Protocol):
    """Makes desktops and boxes of one kind."""

    name: str

    async def boot(self, spec: DesktopSpec, *, deadline_s: float = 60.0) -> Desktop:
        """Start a fresh desktop and return it ready.

        Ready means: it can be observed, its window manager has drawn, accessibility is up.

        Raises:
            BootFailed: it did not become ready; nothing is left of it.
            MissingRequirement: this machine cannot run it; the message says what to do.
            ImageError: its image is missing.
        """
        ...

    async def reap(self) -> list[str]:
        """Remove what dead owners left behind (processes, control groups, files); return the ids removed."""
        ...

    async def close(self) -> None:
        """Destroy everything this backend started. Idempotent."""
        ...
