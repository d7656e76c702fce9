"""Is a saved state one that this sampler can continue from? Asked before anything of it is read.

A state is compared with the state that the sampler has itself: every part of the one must be a part of the other, and
kind and configuration must be equal. So a state of an older or newer version, or of another run's settings, ends in
one sentence that names the field, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["check_saved"]

_BY_NAME = frozenset({"open", "ended", "rounds"})
"""Parts whose keys are groups or tasks, which differ between any two states."""
ADVICE = "start the run anew, or continue it with the version that saved it"


def check_saved(saved: Mapping[str, Any], mine: Mapping[str, Any], *, settings: bool = True) -> None:
    """Refuse a state that does not fit.

    Args:
        saved: the state to continue from.
        mine: the sampler's own state now.
        settings: whether seed and configuration must be equal; else only their fields.

    Raises:
        ValueError: with the first field that does not fit, and what to do.
    """
    kind = mine["kind"]
    if saved.get("kind") != kind:
        raise ValueError(
            f"cannot restore a {kind} sampler from the state of a {saved.get('kind')} one: keep the run's sampler"
        )
    _check_fields(saved, mine, kind, "")
    if not settings:
        return
    pairs = {"seed": (saved.get("seed"), mine.get("seed"))}
    pairs |= {name: (saved["config"][name], value) for name, value in mine["config"].items()}
    for name, (there, here) in pairs.items():
        if there != here:
            raise ValueError(
                f"cannot restore the {kind} sampler: {name} is {there} in the saved state and {here} here; "
                "keep the run's settings, or start it anew"
            )


def _check_fields(saved: Mapping[str, Any], mine: Mapping[str, Any], kind: str, place: str) -> None:
    for name in mine:
        field = f"{place}{name}"
        if name not in saved:
            raise ValueError(
                f"cannot restore the {kind} sampler: the saved state has no {field}, for it was saved by an older "
                f"version; {ADVICE}"
            )
        if isinstance(mine[name], Mapping) and name not in _BY_NAME:
            if not isinstance(saved[name], Mapping):
                raise ValueError(
                    f"cannot restore the {kind} sampler: {field} of the saved state has another form; {ADVICE}"
                )
            _check_fields(saved[name], mine[name], kind, f"{field}.")
    if unknown := sorted(saved.keys() - mine.keys()):
        raise ValueError(
            f"cannot restore the {kind} sampler: the saved state has {place}{unknown[0]}, which this version does not "
            f"know; {ADVICE}"
        )
