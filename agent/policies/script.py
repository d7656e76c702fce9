"""Scripts: what an oracle does, as JSON-able data. Bundles keep their solutions and near misses as lists of these.

Targets are named as the accessibility tree and the window manager name them, and are looked up on the live desktop when
the step's turn comes, so a script does not depend on where a window stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_serializer

from sandbox.actions import Action, Button, action_json

__all__ = [
    "ClickOn",
    "ClickWindow",
    "Do",
    "SayAnswer",
    "SayDone",
    "SayInfeasible",
    "ScriptStep",
    "WaitActive",
    "WaitWindow",
    "parse_script",
    "script_json",
]


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Lookup(_Step):
    """A step whose target may take a while to appear. Each look that finds nothing waits, and costs a turn."""

    looks: int = Field(default=10, ge=1, le=100)
    """Fail after this many."""
    pause_s: float = Field(default=0.5, ge=0, le=10)
    """Seconds to wait between two looks."""


class Do(_Step):
    """Do this action."""

    type: Literal["do"] = "do"
    action: Action

    @field_serializer("action", when_used="json")
    def _with_its_kind(self, action: Action) -> dict[str, Any]:
        return action_json(action)


class ClickOn(_Lookup):
    """Click the middle of a widget."""

    type: Literal["click_on"] = "click_on"
    app: str
    """The application's accessible name, in any case."""
    role: str
    """The widget's role, e.g. `push button`."""
    name: str
    """The widget's name, without outer white space."""
    nth: int = Field(default=0, ge=0)
    """Which of several, in document order."""
    within: str | None = None
    """Name of a node that it must lie inside, e.g. a dialog's title."""
    button: Button = "left"
    clicks: int = Field(default=1, ge=1, le=3)


class ClickWindow(_Lookup):
    """Click inside a window, at a fraction of its size."""

    type: Literal["click_window"] = "click_window"
    app: str
    """The window's class, lower case, e.g. `mousepad`."""
    title_contains: str = ""
    x: float = Field(default=0.5, ge=0, lt=1)
    """0 is the left edge."""
    y: float = Field(default=0.5, ge=0, lt=1)
    """0 is the top edge."""
    button: Button = "left"
    clicks: int = Field(default=1, ge=1, le=3)


class WaitWindow(_Lookup):
    """Go on once such a window is there."""

    type: Literal["wait_window"] = "wait_window"
    app: str
    title_contains: str = ""


class WaitActive(_Lookup):
    """Go on once such a window is the active one, e.g. because a dialog above it has closed."""

    type: Literal["wait_active"] = "wait_active"
    app: str
    title_contains: str = ""


class SayDone(_Step):
    """End: the task is done."""

    type: Literal["done"] = "done"


class SayInfeasible(_Step):
    """End: the task cannot be done."""

    type: Literal["infeasible"] = "infeasible"
    reason: str = ""


class SayAnswer(_Step):
    """End with an answer in words."""

    type: Literal["answer"] = "answer"
    text: str


ScriptStep = Annotated[
    Do | ClickOn | ClickWindow | WaitWindow | WaitActive | SayDone | SayInfeasible | SayAnswer,
    Field(discriminator="type"),
]
_ADAPTER: TypeAdapter[tuple[ScriptStep, ...]] = TypeAdapter(tuple[ScriptStep, ...])


def parse_script(data: Sequence[Any]) -> tuple[ScriptStep, ...]:
    """Build a script from its JSON form.

    Raises:
        ValueError: the data is not a script; the message names the step and the field.
    """
    return _ADAPTER.validate_python(tuple(data))


def script_json(steps: Sequence[ScriptStep]) -> list[dict[str, Any]]:
    """The JSON form of a script, defaults left out except the types."""
    return [{"type": step.type, **step.model_dump(mode="json", exclude_defaults=True)} for step in steps]
