"""The harness: the declarative recipe around a policy, as frozen data.

It decides what a policy is told and shown, in which dialect it answers, and when an episode ends unfinished. Its
content hash is on every trajectory, so two attempts with equal hashes were made under equal rules.

The system prompt is a template: `${dialect}` becomes the dialect's own instructions, `${width}` and `${height}` the
size of the screenshots as shown, and `${NAME}` the text of the channel NAME. Channels are the only parts that harness
evolution may edit. `$$` is a dollar sign.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from string import Template
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agent.config import load_toml, nearest
from sandbox.desktop import Settle
from sandbox.dialects import get_dialect

__all__ = ["Harness", "Limits", "ObservationKind", "Sampling", "SettleRule"]

ObservationKind = Literal["frame", "windows", "a11y"]
RESERVED = frozenset({"dialect", "width", "height"})

SYSTEM_PROMPT = """\
You operate a computer as a person does: you see its screen and control its mouse and keyboard.
You are given a task. At each turn you see the screen, say briefly what you do next, and do it.
${notes}
${dialect}
"""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(_Frozen):
    """When an episode ends unfinished. The task has limits too; the lower one holds."""

    max_steps: int | None = Field(default=None, ge=1, le=1000)
    """Turns; None leaves it to the task."""
    time_limit_s: float | None = Field(default=None, gt=0)
    """Seconds from the first observation on; None leaves it to the task."""
    reply_limit_s: float = Field(default=120.0, gt=0)
    """Seconds for one reply. A policy that takes longer has failed: the attempt is an infra_error, not a failure."""
    setup_limit_s: float = Field(default=180.0, gt=0)
    """Seconds for the task's setup."""
    grade_limit_s: float = Field(default=180.0, gt=0)
    """Seconds for settling and grading."""
    max_parse_errors: int = Field(default=3, ge=1)
    """Unreadable outputs in a row that end the episode."""
    max_tokens: int = Field(default=1024, ge=1)
    """Tokens of one reply."""


class Sampling(_Frozen):
    """How a policy samples."""

    temperature: float = Field(default=1.0, ge=0, le=2)


class SettleRule(_Frozen):
    """When a screen counts as settled after an action."""

    first_ms: int = Field(default=100, ge=0)
    """Give up waiting for a first change after this long."""
    quiet_ms: int = Field(default=50, ge=0)
    """Settled once nothing changed for this long."""
    cap_ms: int = Field(default=2000, ge=0)
    """Never wait longer."""

    def settle(self) -> Settle:
        """As the sandbox takes it."""
        return Settle(first_ms=self.first_ms, quiet_ms=self.quiet_ms, cap_ms=self.cap_ms)


class Harness(_Frozen):
    """The recipe around a policy. `Harness()` is the default one."""

    name: str = Field(default="default", min_length=1, max_length=80)
    system_prompt: str = SYSTEM_PROMPT
    """Template; see the module."""
    channels: dict[str, str] = Field(default_factory=lambda: {"notes": ""})
    """Named texts that the system prompt may include and that harness evolution may edit."""
    dialect: str = "compact"
    """How the policy writes actions."""
    window: int = Field(default=10, ge=1)
    """W: the most screenshots that are ever visible."""
    delta: int = Field(default=5, ge=1)
    """How many screenshots are dropped at once when the window is full; 1 <= delta <= W."""
    placeholder: str = "[screenshot dropped]"
    """Text in the place of a dropped screenshot."""
    observe: tuple[ObservationKind, ...] = ("frame",)
    """What the policy is given: the screenshot always, and as text the window list or the accessibility tree."""
    max_side: int | None = Field(default=None, ge=32)
    """Screenshots with a longer side are shown smaller, this long (pixels). None shows them as they are."""
    limits: Limits = Limits()
    sampling: Sampling = Sampling()
    settle: SettleRule = SettleRule()

    @field_validator("dialect")
    @classmethod
    def _known_dialect(cls, name: str) -> str:
        return get_dialect(name).name

    @field_validator("channels")
    @classmethod
    def _channel_names(cls, channels: dict[str, str]) -> dict[str, str]:
        for name in channels:
            if name in RESERVED or not name.isidentifier() or not name.isascii():
                raise ValueError(f"{name!r} cannot name a channel; use letters and `_`, but none of {sorted(RESERVED)}")
        return channels

    @field_validator("observe")
    @classmethod
    def _sees_the_screen(cls, kinds: tuple[ObservationKind, ...]) -> tuple[ObservationKind, ...]:
        if "frame" not in kinds or len(set(kinds)) != len(kinds):
            raise ValueError("name 'frame' and each further kind once")
        return kinds

    @model_validator(mode="after")
    def _consistent(self) -> Harness:
        if self.delta > self.window:
            raise ValueError(f"delta = {self.delta} is more than window = {self.window}; choose 1 <= delta <= window")
        template = Template(self.system_prompt)
        if not template.is_valid():
            raise ValueError("system_prompt has a `$` that starts no name; write `$$` for a dollar sign")
        known = [*self.channels, *RESERVED]
        for name in template.get_identifiers():
            if name not in known:
                raise ValueError(f"system_prompt uses ${{{name}}}, which is no channel; {nearest(name, known)}")
        return self

    @classmethod
    def load(cls, path: Path) -> Harness:
        """Read a harness from a TOML file.

        Raises:
            agent.config.ConfigError: it cannot be used; the message names each key and the nearest right one.
        """
        return load_toml(cls, path)

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of everything in it."""
        data = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(data.encode()).hexdigest()

    def prompt(self, *, fragment: str, width: int, height: int) -> str:
        """The system prompt, filled in.

        Args:
            fragment: the dialect's own instructions.
            width: of the screenshots as shown, pixels.
            height: of the screenshots as shown, pixels.
        """
        return Template(self.system_prompt).substitute(
            self.channels, dialect=fragment, width=str(width), height=str(height)
        )
