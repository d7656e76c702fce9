"""What can go wrong with a desktop, typed by where it went wrong.

::

    SandboxError
    ├── MissingRequirement   this machine lacks something; `fix` says what to do
    ├── ImageError           an image could not be built, found or trusted
    ├── BadRequest           the caller's mistake (also a ValueError); nothing was done
    │   └── FileRefused        a file was not transferred; `kind` says why
    └── DesktopError         a desktop failed; `phase` says whose failure it is
        ├── BootFailed         it never became ready
        ├── DesktopLost        its X server, box or spawner is gone; the lease is over
        ├── ProbeLost          the probe died under a call: whether the effect happened is unknown
        ├── DeadlineExceeded   the call's deadline passed
        ├── Unavailable        one channel (accessibility, say) does not answer; the desktop still lives
        ├── HubLost            the hub behind a socket does not answer
        ├── RecordingMiss      a recorded desktop was asked for something that was never recorded
        └── LeaseExpired       the lease's epoch is over; a newer holder may own the desktop

Every DesktopError ends an episode as `infra_error`: it is never a reward (promise 4).
"""

from __future__ import annotations

from typing import Literal

Phase = Literal["setup", "infra", "policy", "grader", "unknown"]
"""Whose failure it is. `unknown` means that an effect may or may not have happened."""

FileProblem = Literal["denied", "no_space", "too_large", "changed", "unreadable", "unwritable"]
"""Why a file was not transferred. `changed`: while it was read; `unreadable`: it is no regular file, say."""

__all__ = [
    "BadRequest",
    "BootFailed",
    "DeadlineExceeded",
    "DesktopError",
    "DesktopLost",
    "FileProblem",
    "FileRefused",
    "HubLost",
    "ImageError",
    "LeaseExpired",
    "MissingRequirement",
    "Phase",
    "ProbeLost",
    "RecordingMiss",
    "SandboxError",
    "Unavailable",
]


class SandboxError(Exception):
    """Root of everything this package raises."""


class MissingRequirement(SandboxError):
    """The machine cannot do this yet.

    Args:
        what: the missing thing, in a few words.
        fix: the command or setting that supplies it.
    """

    def __init__(self, what: str, *, fix: str) -> None:
        super().__init__(f"{what}. To fix it: {fix}")
        self.what = what
        self.fix = fix


class ImageError(SandboxError):
    """A desktop image could not be built, found or verified."""


class BadRequest(SandboxError, ValueError):
    """The caller asked for something malformed; nothing was done."""


class FileRefused(BadRequest):
    """A file could not be read or written as asked; on the side it was to arrive, nothing changed."""

    def __init__(self, message: str, *, kind: FileProblem) -> None:
        super().__init__(message)
        self.kind = kind


class DesktopError(SandboxError):
    """A desktop failed.

    Args:
        message: what happened, for a person.
        phase: whose failure it is.
        state: what is known of the desktop at that moment (exit codes, OOM count, last log lines).
    """

    phase: Phase = "infra"

    def __init__(self, message: str, *, phase: Phase | None = None, state: dict[str, str] | None = None) -> None:
        super().__init__(message)
        if phase is not None:
            self.phase = phase
        self.state = dict(state or {})


class BootFailed(DesktopError):
    """The desktop never became ready."""

    phase: Phase = "setup"


class DesktopLost(DesktopError):
    """The X server, the window manager's box or the spawner is gone."""


class ProbeLost(DesktopError):
    """The probe died under a call, so the fate of its effect is unknown."""

    phase: Phase = "unknown"


class DeadlineExceeded(DesktopError):
    """The deadline that the caller gave has passed."""


class Unavailable(DesktopError):
    """One channel does not answer while the desktop itself lives."""


class HubLost(DesktopError):
    """The hub behind a socket does not answer; of phase `unknown` when a call that it was given may have happened."""


class RecordingMiss(DesktopError):
    """A recorded desktop has no answer for this request in this state."""


class LeaseExpired(DesktopError):
    """The lease is over; nothing was done."""
