"""The tree of checks: all, any, not, and leaves of a closed set of families.

A leaf reads one evidence item (or the final action) and gives a score in [0, 1] with a reason. The families here are
those that the first tasks need; each new family is one more member of `Leaf` and one pure function in its own file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "AccessibilityCheck",
    "AllOf",
    "AnyOf",
    "BrowserCheck",
    "CheckNode",
    "ConfigCheck",
    "FinalActionCheck",
    "GlobCheck",
    "NotCheck",
    "ProcessCheck",
    "SettingCheck",
    "TextCheck",
    "WindowCheck",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Leaf(_Frozen):
    weight: float = Field(default=1.0, gt=0)
    """Share in an `all` that gives partial credit."""


class TextCheck(_Leaf):
    """A text: a file's content, or what a command printed when it succeeded."""

    type: Literal["text"] = "text"
    item: str
    """Name of a file or command evidence item."""
    match: Literal["equals", "contains", "not_contains", "regex", "line"] = "equals"
    """`line`: one line equals `expected`; `regex`: a full match of the whole text."""
    expected: str
    ignore_trailing_whitespace: bool = True
    """Ignore white space at line ends and blank lines at the end of the file."""
    ignore_case: bool = False


class ConfigCheck(_Leaf):
    """A value inside a structured file."""

    type: Literal["config"] = "config"
    item: str
    format: Literal["json", "toml", "ini", "keyfile"]
    path: tuple[str | int, ...]
    """Keys and indices from the root (ini and keyfile: section, key)."""
    expected: Any


class SettingCheck(_Leaf):
    """A GSettings value, compared as GVariant text without white-space differences."""

    type: Literal["setting"] = "setting"
    item: str
    expected: str


class GlobCheck(_Leaf):
    """Exactly which paths exist (base names, sorted) and, if asked, of which type."""

    type: Literal["glob"] = "glob"
    item: str
    names: tuple[str, ...]
    kind: Literal["any", "file", "directory"] = "any"
    mode: Literal["exactly", "includes", "excludes"] = "exactly"


class AccessibilityCheck(_Leaf):
    """Text, value or state of an accessibility node. The desktop's own word: for state that exists nowhere else."""

    type: Literal["accessibility"] = "accessibility"
    item: str
    field: Literal["text", "name", "value", "states"] = "text"
    expected: str
    """The exact text, number or state that some matching node must have."""


class WindowCheck(_Leaf):
    """Whether a window of an app with this title part is open."""

    type: Literal["window"] = "window"
    item: str
    app: str
    title_contains: str = ""
    open: bool = True


class ProcessCheck(_Leaf):
    """Whether a process runs."""

    type: Literal["process"] = "process"
    item: str
    running: bool = True


class BrowserCheck(_Leaf):
    """Whether some record of a browser's answer (a tab, an element, a cookie, ...) is as described."""

    type: Literal["browser"] = "browser"
    item: str
    where: dict[str, str | bool | int | float | None] = {}
    """Fields of the record and their values; texts are compared without outer white space."""
    contains: dict[str, str] = {}
    """Text fields of the record, and what they contain."""
    present: bool = True
    """False: no record may be as described."""

    @model_validator(mode="after")
    def _describes(self) -> BrowserCheck:
        if not self.where and not self.contains:
            raise ValueError("a browser check describes a record: give `where` or `contains`")
        if not all(text.strip() for text in self.contains.values()):
            raise ValueError("every text contains an empty one")
        return self


class FinalActionCheck(_Leaf):
    """How the policy ended: done, infeasible, or an answer with this text."""

    type: Literal["final_action"] = "final_action"
    kind: Literal["done", "infeasible", "answer"]
    answer: str | None = None
    """Expected answer, compared without case and outer white space."""


class AllOf(_Frozen):
    """Every child must score 1; otherwise 0, or the weighted mean with `partial`."""

    type: Literal["all"] = "all"
    of: tuple[CheckNode, ...] = Field(min_length=1)
    partial: bool = False
    weight: float = Field(default=1.0, gt=0)


class AnyOf(_Frozen):
    """The best child's score."""

    type: Literal["any"] = "any"
    of: tuple[CheckNode, ...] = Field(min_length=1)
    weight: float = Field(default=1.0, gt=0)


class NotCheck(_Frozen):
    """1 exactly when the child does not score 1. A missing item is not evidence of absence: it stays 0."""

    type: Literal["not"] = "not"
    of: CheckNode
    weight: float = Field(default=1.0, gt=0)


CheckNode = Annotated[
    TextCheck
    | ConfigCheck
    | SettingCheck
    | GlobCheck
    | AccessibilityCheck
    | WindowCheck
    | ProcessCheck
    | BrowserCheck
    | FinalActionCheck
    | AllOf
    | AnyOf
    | NotCheck,
    Field(discriminator="type"),
]
AllOf.model_rebuild()
AnyOf.model_rebuild()
NotCheck.model_rebuild()
