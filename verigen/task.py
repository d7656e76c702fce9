"""A task: an instruction, how its start state is made, and how its end state is checked. Plain, frozen data.

Paths in steps and checks are absolute or relative to the desktop user's home. Setup is a closed list of declarative
steps; files come from assets named by hash, never from a live URL.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sandbox.desktop import DesktopSpec
from sandbox.evidence import EvidenceRequest
from verigen.checks.model import CheckNode

__all__ = [
    "AssertStep",
    "AssetStep",
    "ExecStep",
    "FlushStep",
    "LaunchStep",
    "Limits",
    "PlaceWindowStep",
    "PressStep",
    "SetupStep",
    "SleepStep",
    "Task",
    "TerminateStep",
    "TextFileStep",
    "WaitWindowStep",
    "WriteSettingStep",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TextFileStep(_Frozen):
    """Write a text file (UTF-8)."""

    type: Literal["text_file"] = "text_file"
    path: str
    text: str
    as_user: Literal["user", "root"] = "user"


class AssetStep(_Frozen):
    """Copy an asset of the bundle to a path."""

    type: Literal["asset"] = "asset"
    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    as_user: Literal["user", "root"] = "user"


class WriteSettingStep(_Frozen):
    """Set a GSettings key (value as GVariant text)."""

    type: Literal["write_setting"] = "write_setting"
    schema_id: str
    key: str
    value: str


class ExecStep(_Frozen):
    """Run a command to its end; any exit code but 0 fails the setup."""

    type: Literal["exec"] = "exec"
    argv: tuple[str, ...] = Field(min_length=1)
    as_user: Literal["user", "root"] = "user"
    timeout_s: float = Field(default=20.0, gt=0, le=300)


class LaunchStep(_Frozen):
    """Start a program and leave it running."""

    type: Literal["launch"] = "launch"
    argv: tuple[str, ...] = Field(min_length=1)


class WaitWindowStep(_Frozen):
    """Wait until a window of this app (and title part) is there and drawn."""

    type: Literal["wait_window"] = "wait_window"
    app: str
    """Lower-case window class, e.g. `mousepad`."""
    title_contains: str = ""
    timeout_s: float = Field(default=15.0, gt=0, le=120)


class PlaceWindowStep(_Frozen):
    """Move (and resize) the app's window, so that positions vary between tasks but not between attempts."""

    type: Literal["place_window"] = "place_window"
    app: str
    x: int
    y: int
    width: int | None = None
    height: int | None = None


class PressStep(_Frozen):
    """Press a chord, e.g. to save in the flush recipe of an app."""

    type: Literal["press"] = "press"
    keys: tuple[str, ...] = Field(min_length=1)


class TerminateStep(_Frozen):
    """End the app by its own exit (SIGTERM) and wait until its files are written."""

    type: Literal["terminate"] = "terminate"
    process: str
    timeout_s: float = Field(default=5.0, gt=0, le=60)


class SleepStep(_Frozen):
    """Wait. Prefer wait_window or an assertion."""

    type: Literal["sleep"] = "sleep"
    seconds: float = Field(gt=0, le=10)


SetupStep = Annotated[
    TextFileStep
    | AssetStep
    | WriteSettingStep
    | ExecStep
    | LaunchStep
    | WaitWindowStep
    | PlaceWindowStep
    | PressStep
    | TerminateStep
    | SleepStep,
    Field(discriminator="type"),
]
FlushStep = Annotated[PressStep | TerminateStep | SleepStep | ExecStep, Field(discriminator="type")]


class AssertStep(_Frozen):
    """What must be true once setup is done: evidence and a check on it."""

    evidence: tuple[EvidenceRequest, ...]
    check: CheckNode


class Limits(_Frozen):
    """When an episode ends unfinished."""

    max_steps: int = Field(default=30, ge=1, le=500)
    time_limit_s: float = Field(default=180.0, gt=0, le=7200)


class Task(_Frozen):
    """One task."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{2,80}$")
    """For people; the id is the bundle's hash."""
    instruction: str = Field(min_length=10, max_length=4000)
    apps: tuple[str, ...] = Field(min_length=1)
    skills: tuple[str, ...] = Field(min_length=1)
    channels: Literal["gui", "terminal", "both"] = "gui"
    """How the task may be solved."""
    feasible: bool = True
    """False for tasks whose right ending is to say that they cannot be done."""
    desktop: DesktopSpec = DesktopSpec()
    limits: Limits = Limits()
    setup: tuple[SetupStep, ...]
    setup_asserts: tuple[AssertStep, ...] = ()
    settle: tuple[FlushStep, ...] = ()
    """Flush recipe run before grading, so that saved state is on disk. It never does the agent's work."""
    evidence: tuple[EvidenceRequest, ...]
    """What the checks read."""
    check: CheckNode
    """Tree of all / any / not over single checks; 1.0 is a pass."""
    tags: dict[str, Any] = {}
