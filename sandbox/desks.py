"""Desks: desktops that stay open between commands, each held by a process of its own.

::

    open_desk ──starts──> holder (own session) ──boots──> desktop
                             │ writes run/desks/NAME.json (mode 0600: probe address, token, holder's pid)
    connect_desk ──reads it, talks to the probe; touches it, so the desk is not idle
    close_desk ──SIGTERM──> holder ──closes the desktop, removes the file, ends
                             `── or nobody used the desk for its idle time

Guarantees: one desk per name; a desk whose holder was killed is never talked to, its file is removed and the next
command says what happened (the backend's keeper removes the desktop itself). A process id is trusted only together with
its start time, so a reused one is never signalled.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox import errors
from sandbox.backends.named import BackendName
from sandbox.client import ProbeAddress, ProbeClient
from sandbox.desktop import DesktopSpec
from sandbox.errors import BadRequest, BootFailed, DesktopError, DesktopLost, MissingRequirement, SandboxError
from sandbox.probe_desktop import ProbeDesktop
from store import Home

__all__ = [
    "DEFAULT_NAME",
    "Desk",
    "close_desk",
    "connect_desk",
    "desk_file",
    "find_desk",
    "list_desks",
    "open_desk",
    "process_start",
    "require_free",
    "screenshot_file",
    "write_desk",
]

DEFAULT_NAME = "desk"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
CLOSE_TIMEOUT_S = 20.0
ANSWER_MARGIN_S = 10.0
SCREENSHOT = ".png"
POLL_S = 0.02


class Desk(BaseModel):
    """An open desk, as its file tells it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    spec: DesktopSpec
    backend: BackendName
    image_digest: str
    desktop_id: str
    socket: Path
    """The probe's socket."""
    token: str = Field(repr=False)
    """What the probe asks of its callers."""
    epoch: int
    holder_pid: int
    holder_start: int
    """When the holder started, clock ticks since boot; with the pid it names one process for ever."""
    opened_at: float
    """Seconds since the epoch."""
    idle_s: float
    """The desk closes itself when nobody used it for this long."""
    ended: str | None = None
    """Why the holder gave the desk up, left for the next command to report."""

    @property
    def holder_runs(self) -> bool:
        """Whether its holder's process is there."""
        return process_start(self.holder_pid) == self.holder_start

    @property
    def alive(self) -> bool:
        """Whether it can be used."""
        return self.ended is None and self.holder_runs

    @property
    def why_ended(self) -> str:
        """Why it can no longer be used."""
        return self.ended or f"its holder (process {self.holder_pid}) was killed"


def desk_file(home: Home, name: str) -> Path:
    """Where an open desk's file lies."""
    return home.run / "desks" / f"{name}.json"


def screenshot_file(home: Home, name: str) -> Path:
    """Where a desk's last screenshot lies, for whoever names no file of their own."""
    return desk_file(home, name).with_suffix(SCREENSHOT)


def open_desk(
    home: Home,
    name: str = DEFAULT_NAME,
    *,
    spec: DesktopSpec | None = None,
    backend: BackendName = "local",
    idle_s: float = 3600.0,
    deadline_s: float = 90.0,
) -> Desk:
    """Start a desk and return once its desktop is ready. Blocks.

    Args:
        spec: what the desktop should be; the default is the light image at 1280x720.
        backend: who runs it.
        idle_s: seconds without a command after which the desk closes itself.
        deadline_s: for the whole start.

    Raises:
        BadRequest: the name is not one, or a desk of this name is open.
        MissingRequirement, ImageError, BootFailed: the desktop cannot run; nothing is left of it.
    """
    require_free(home.ensure(), name)
    path = desk_file(home, name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    ends_at = time.monotonic() + deadline_s
    with _lock(path.parent, ends_at):
        require_free(home, name)
        _forget(path)
        return _start_holder(home, name, spec or DesktopSpec(), backend, idle_s, ends_at)


def require_free(home: Home, name: str) -> None:
    """Check that a desk of this name can be opened.

    Raises:
        BadRequest: the name is not one, or a desk of this name is open.
    """
    _check_name(name)
    if (desk := _read(desk_file(home, name))) is not None and desk.alive:
        raise BadRequest(f"desk {name!r} is open already: close it first, or open one by another name")


def connect_desk(home: Home, name: str = DEFAULT_NAME) -> ProbeDesktop:
    """An open desk's desktop. Closing what this returns hangs up; the desk stays open.

    Raises:
        BadRequest: no desk of this name is open.
        DesktopLost: its holder ended; the message says why if that is known.
    """
    desk = find_desk(home, name)
    with contextlib.suppress(FileNotFoundError):  # it ends at this very moment; the first call will say so
        os.utime(desk_file(home, name))
    client = ProbeClient(ProbeAddress(socket=desk.socket, token=desk.token, epoch=desk.epoch))
    return ProbeDesktop(desk.desktop_id, desk.spec, desk.image_digest, client)


def find_desk(home: Home, name: str = DEFAULT_NAME) -> Desk:
    """An open desk by name.

    Raises:
        BadRequest: the name is not one, or no desk of this name is open.
        DesktopLost: it was, but its holder ended; reported once, then the name is free.
    """
    _check_name(name)  # it becomes part of a path
    path = desk_file(home, name)
    desk = _read(path)
    if desk is None:
        others = sorted(other.stem for other in path.parent.glob("*.json"))
        hint = f"open are: {', '.join(others)}" if others else "none is"
        option = "" if name == DEFAULT_NAME else f" --name {name}"
        raise BadRequest(f"desk {name!r} is not open ({hint}). To open it: frontdesk desk open{option}")
    if not desk.alive:
        _forget(path)
        raise DesktopLost(f"desk {name!r} is gone: {desk.why_ended}. Nothing is left of it; open a new one")
    return desk


def list_desks(home: Home) -> list[Desk]:
    """Every desk by name. One that can no longer be used is told once, then its file is removed."""
    desks = []
    for path in sorted(desk_file(home, "").parent.glob("*.json")):
        if (desk := _read(path)) is not None:
            desks.append(desk)
            if not desk.alive:
                _forget(path)
    return desks


def close_desk(home: Home, name: str = DEFAULT_NAME) -> None:
    """Close a desk with everything in it. Blocks until its holder has ended.

    Raises:
        BadRequest: no desk of this name is open.
        DesktopLost: it was gone already.
    """
    desk = find_desk(home, name)
    ends_at = time.monotonic() + CLOSE_TIMEOUT_S
    _signal(desk, signal.SIGTERM)
    while desk.holder_runs and time.monotonic() < ends_at:
        time.sleep(POLL_S)
    # A holder that does not end by itself is killed; the backend's keeper then removes the desktop.
    _signal(desk, signal.SIGKILL)
    _forget(desk_file(home, name))


def process_start(pid: int) -> int | None:
    """When a process started, clock ticks since boot; None when there is none (a zombie has ended)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name field may hold spaces and parentheses; everything after the last one is plain.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def write_desk(path: Path, desk: Desk) -> None:
    """Write a desk's file whole or not at all, for its owner's eyes only: it holds the probe's token."""
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(desk.model_dump_json(indent=2))
    draft.replace(path)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadRequest(f"{name!r} is no desk's name: use up to 31 lower-case letters, digits and dashes")


def _forget(path: Path) -> None:
    """Remove a desk's file, its holder's log and its last screenshot."""
    for suffix in (".json", ".log", SCREENSHOT):
        path.with_suffix(suffix).unlink(missing_ok=True)


def _signal(desk: Desk, number: int) -> None:
    if desk.holder_runs:
        with contextlib.suppress(ProcessLookupError):
            os.kill(desk.holder_pid, number)


def _read(path: Path) -> Desk | None:
    try:
        return Desk.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise SandboxError(f"{path} is damaged; remove it ({error.errors()[0]['msg']})") from error


def _start_holder(
    home: Home, name: str, spec: DesktopSpec, backend: BackendName, idle_s: float, ends_at: float
) -> Desk:
    boot_deadline_s = max(1.0, ends_at - time.monotonic())
    order = {"home": str(home.path), "name": name, "spec": spec.model_dump(mode="json"), "idle_s": idle_s}
    order |= {"backend": backend, "boot_deadline_s": boot_deadline_s}
    house = Path(__file__).resolve().parents[1]
    log_path = desk_file(home, name).with_suffix(".log")
    with log_path.open("wb") as log:
        holder = subprocess.Popen(
            [sys.executable, "-m", "sandbox.desk_holder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(house)},
            start_new_session=True,
        )
    try:
        # The process that was started ends at once and leaves the holder behind, so that nobody has to reap it.
        answer, _ = holder.communicate(json.dumps(order).encode(), timeout=boot_deadline_s + ANSWER_MARGIN_S)
    except subprocess.TimeoutExpired:
        raise BootFailed(f"desk {name!r} was not ready in time; see {log_path}") from None
    finally:
        # A holder that finds nobody reading its answer, after Ctrl-C say, closes its desktop and ends.
        for pipe in (holder.stdin, holder.stdout):
            if pipe is not None:
                pipe.close()
        holder.wait()
    if not answer:
        raise BootFailed(f"the holder of desk {name!r} ended before its desktop was ready; see {log_path}")
    message: dict[str, Any] = json.loads(answer)
    if "error" in message:
        raise _rebuild(message["error"])
    return Desk.model_validate(message["desk"])


def _rebuild(error: dict[str, Any]) -> SandboxError:
    """The holder's exception, of its own type again."""
    kind: type[SandboxError] = getattr(errors, error["type"], SandboxError)
    if kind is MissingRequirement:
        return MissingRequirement(error["what"], fix=error["fix"])
    made = kind(error["message"])
    if isinstance(made, DesktopError):
        made.phase, made.state = error["phase"], error["state"]
    return made


@contextlib.contextmanager
def _lock(where: Path, ends_at: float) -> Iterator[None]:
    """Hold the folder itself, so that two openers of one name do not both start a holder."""
    fd = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends_at:
                    raise BootFailed("another desk is being opened and does not come to an end") from None
                time.sleep(POLL_S)
        yield
    finally:
        os.close(fd)
