"""What went wrong, in one message for a person: never a traceback.

Exit codes: 1 the work failed, 2 bad input, 130 interrupted. `FRONTDESK_DEBUG=1` shows the traceback as well.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BAD_INPUT", "FAILED", "INTERRUPTED", "Failure", "debug_enabled", "explain"]

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

_HOUSE = Path(__file__).resolve().parents[1]
_OURS = ("store", "frontier", "sandbox", "agent", "verigen", "evals", "trainer", "cli")


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A failure as the command line reports it."""

    type: str
    """Class name of the exception."""
    message: str
    fix: str | None
    """What to do about it, when the error itself knows."""
    exit_code: int


def debug_enabled() -> bool:
    """Whether tracebacks were asked for."""
    return os.environ.get("FRONTDESK_DEBUG", "") not in ("", "0")


def explain(error: BaseException) -> Failure:
    """Turn an exception into a message that says what to do.

    Errors of our own packages and ValueErrors speak for themselves: their messages are written for people. An
    OSError names its file. Anything else is a bug of ours and says so.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    name = type(error).__name__
    if (what := getattr(error, "what", None)) and (fix := getattr(error, "fix", None)):
        return Failure(type=name, message=str(what), fix=str(fix), exit_code=FAILED)
    if isinstance(error, UnicodeEncodeError):  # an argument with bytes that are no UTF-8
        return Failure(type=name, message=f"{error.object!r} is not text", fix=None, exit_code=BAD_INPUT)
    if isinstance(error, ValueError):
        return Failure(type=name, message=_value_error(error), fix=None, exit_code=BAD_INPUT)
    if type(error).__module__.partition(".")[0] in _OURS:
        return Failure(type=name, message=str(error), fix=None, exit_code=FAILED)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return Failure(type=name, message=f"{place}{error.strerror}", fix=None, exit_code=FAILED)
    return Failure(
        type=name,
        message=f"Unexpected {name}: {error} (at {_where(error)}). This is a bug in Frontdesk.",
        fix="run the command again with FRONTDESK_DEBUG=1 and report the traceback",
        exit_code=FAILED,
    )


def _value_error(error: ValueError) -> str:
    """A ValueError's text; pydantic's many-line report becomes one line per field."""
    if type(error).__module__.startswith("pydantic"):
        fields = error.errors(include_url=False)  # type: ignore[attr-defined]
        lines = [f"{'.'.join(map(str, field['loc'])) or 'value'}: {field['msg']}" for field in fields]
        return f"{error.title} is not valid: " + "; ".join(lines)  # type: ignore[attr-defined]
    return str(error) or type(error).__name__


def _where(error: BaseException) -> str:
    """The innermost place of ours that the error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_HOUSE) and ".venv" not in frame.filename]
    place = (ours or list(frames))[-1:]
    return f"{Path(place[0].filename).name}:{place[0].lineno}" if place else "unknown place"
