"""The plain implementation of a skill pack that the built-in packs use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from verigen.bundle import Bundle
from verigen.packs.draw import Draw
from verigen.packs.protocol import Template

__all__ = ["Pack"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """Templates by name."""

    name: str
    version: str
    makers: Mapping[str, Callable[[str, Draw], Bundle]]
    """Each is given its template's whole name and a draw."""

    @property
    def templates(self) -> Sequence[Template]:
        """See `SkillPack`."""
        names = {f"{self.name}/{name}": make for name, make in self.makers.items()}
        return [Template(name=name, make=partial(make, name)) for name, make in names.items()]
