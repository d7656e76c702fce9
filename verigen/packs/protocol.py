"""What a skill pack is: templates that make tasks for an application without a model.

Third parties add packs under the entry point group `frontdesk.packs`; the entry point names a `SkillPack` object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

from verigen.bundle import Bundle
from verigen.canonical import content_hash
from verigen.errors import VerigenError
from verigen.packs.draw import Draw

__all__ = ["ENTRY_POINTS", "SkillPack", "Template", "content_key", "load_packs"]

ENTRY_POINTS = "frontdesk.packs"
BUILT_IN = ("galculator", "mousepad", "thunar", "terminal", "ristretto", "together")


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """One kind of task."""

    name: str
    """Unique among all packs, e.g. `mousepad/add-line`."""
    make: Callable[[Draw], Bundle]
    """Draws one bundle, without examples; equal draws give equal bundles."""


@runtime_checkable
class SkillPack(Protocol):
    """What knows how to make tasks for an application."""

    @property
    def name(self) -> str:
        """Lower case, one word."""
        ...

    @property
    def version(self) -> str:
        """Changed whenever its templates give other bundles for the same draws."""
        ...

    @property
    def templates(self) -> Sequence[Template]: ...


def load_packs(names: Sequence[str] = ()) -> list[SkillPack]:
    """The built-in packs and those of installed distributions.

    Args:
        names: only these; none means all.

    Raises:
        ValueError: there is no such pack; the message lists those there are.
        VerigenError: an installed pack cannot be loaded, or two packs or templates have one name.
    """
    packs: list[SkillPack] = [import_module(f"verigen.packs.{name}").PACK for name in BUILT_IN]
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found = point.load()
        except Exception as error:  # a stranger's import can raise anything
            raise VerigenError(f"the skill pack {point.name!r} ({point.value}) cannot be loaded: {error}") from error
        if not isinstance(found, SkillPack):
            raise VerigenError(f"{point.value}, the skill pack {point.name!r}, is not a SkillPack but {found!r}")
        packs.append(found)
    for what, all_names in (
        ("skill packs", [pack.name for pack in packs]),
        ("templates", [template.name for pack in packs for template in pack.templates]),
    ):
        twice = sorted({name for name in all_names if all_names.count(name) > 1})
        if twice:
            raise VerigenError(f"two {what} have the name {twice[0]!r}; rename or uninstall one of them")
    unknown = [name for name in names if name not in {pack.name for pack in packs}]
    if unknown:
        raise ValueError(f"there is no skill pack {unknown[0]!r}; there are {', '.join(pack.name for pack in packs)}")
    return [pack for pack in packs if not names or pack.name in names]


def content_key(bundle: Bundle) -> str:
    """What makes two generated bundles the same task: what is asked, and the start state but for windows' places."""
    return content_hash({"instruction": bundle.task.instruction, "seed_state": bundle.seed_state})
