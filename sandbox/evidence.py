"""Evidence: plain data taken out of a desktop, so that grading never needs the desktop again.

A check asks for evidence by a closed union of requests. Each is answered on its own: `ok`, `missing` (there is no such
file, key, window), `too_large`, or `error` (the collector itself failed, which makes the episode an infra_error, never
a zero). Accessibility and everything a program of the desktop's user prints is the desktop's own word.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "AccessibilityRequest",
    "BrowserRequest",
    "CommandRequest",
    "Evidence",
    "EvidenceItem",
    "EvidenceRequest",
    "FileRequest",
    "GlobRequest",
    "ProcessRequest",
    "SettingRequest",
    "WindowsRequest",
]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=64)
    """What the judge calls this item."""


class FileRequest(_Request):
    """One file's bytes (symbolic links are followed only inside the home directory)."""

    type: Literal["file"] = "file"
    path: str
    """Absolute, or relative to the user's home."""
    max_bytes: int = Field(default=1 << 20, gt=0, le=64 << 20)


class GlobRequest(_Request):
    """Which paths match: a sorted list of {path, type, size, mode}."""

    type: Literal["glob"] = "glob"
    pattern: str
    """Absolute, or relative to the user's home; `**` descends."""
    max_items: int = Field(default=1000, gt=0, le=10_000)


class CommandRequest(_Request):
    """A command's {exit_code, stdout, stderr}, run as the desktop's user or root."""

    type: Literal["command"] = "command"
    argv: tuple[str, ...] = Field(min_length=1)
    user: Literal["user", "root"] = "user"
    timeout_s: float = Field(default=10.0, gt=0, le=120)


class SettingRequest(_Request):
    """One GSettings value, as GVariant text, or every key of a schema."""

    type: Literal["setting"] = "setting"
    schema_id: str
    key: str | None = None


class AccessibilityRequest(_Request):
    """The accessibility nodes of one application that match a role and a name."""

    type: Literal["accessibility"] = "accessibility"
    app: str
    """The application's accessible name, lower case."""
    role: str | None = None
    name_is: str | None = None


class WindowsRequest(_Request):
    """The top-level windows: a list of {title, app, active, dialog, bounds}."""

    type: Literal["windows"] = "windows"


class ProcessRequest(_Request):
    """The running processes of the desktop's user with this name: a list of {pid, argv}."""

    type: Literal["process"] = "process"
    process: str


class BrowserRequest(_Request):
    """What a browser with an open debugging port shows or keeps: a list of records. All but bookmarks is its own word.

    Records: tabs {url, title, active}; elements {tag, text, value, checked, attributes, visible}; cookies {name, value,
    domain, path, expires, http_only, secure, same_site}; local_storage {origin, key, value}; bookmarks {name, url,
    folder}.
    """

    type: Literal["browser"] = "browser"
    what: Literal["tabs", "elements", "cookies", "local_storage", "bookmarks"]
    tab: str | None = None
    """Whose elements or local storage: a tab whose URL begins so; None is the active tab."""
    selector: str | None = None
    """CSS selector of the elements."""
    port: int = Field(default=9222, gt=0, lt=1 << 16)
    """The browser's debugging port on the desktop's loopback."""
    profile: str = ".config/chromium"
    """Where the browser keeps its profile (for bookmarks): absolute, or relative to the user's home."""
    max_items: int = Field(default=1000, gt=0, le=10_000)
    max_bytes: int = Field(default=1 << 20, gt=0, le=8 << 20)

    @model_validator(mode="after")
    def _fits(self) -> BrowserRequest:
        if (self.selector is not None) != (self.what == "elements"):
            raise ValueError("a selector is needed for elements, and for nothing else")
        if self.tab is not None and self.what not in ("elements", "local_storage"):
            raise ValueError(f"{self.what} are not those of one tab")
        return self


EvidenceRequest = Annotated[
    FileRequest
    | GlobRequest
    | CommandRequest
    | SettingRequest
    | AccessibilityRequest
    | WindowsRequest
    | ProcessRequest
    | BrowserRequest,
    Field(discriminator="type"),
]


class EvidenceItem(BaseModel):
    """The answer to one request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Literal["ok", "missing", "too_large", "error"]
    data: Any = None
    """JSON data; file bytes are {"base64": ...}. None unless ok."""
    reason: str = ""
    """Why it is not ok."""

    def file_bytes(self) -> bytes:
        """The bytes of a file item.

        Raises:
            ValueError: this item holds no file.
        """
        if not isinstance(self.data, dict) or not isinstance(self.data.get("base64"), str):
            raise ValueError("this evidence item holds no file")
        return base64.b64decode(self.data["base64"], validate=True)


class Evidence(BaseModel):
    """All answers, by request name, and the desktop's clock when they were taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: dict[str, EvidenceItem]
    clock_s: float
    """The desktop's wall clock, seconds since the epoch."""

    @property
    def errors(self) -> dict[str, str]:
        """Reasons of the items whose collector failed."""
        return {name: item.reason for name, item in self.items.items() if item.status == "error"}
