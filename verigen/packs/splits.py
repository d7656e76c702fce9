"""Which split a generated task belongs to. A function of what it is, so that anybody can check it.

Two rules, and a task must satisfy both:

* its *seed state* (the start state without the place of windows, and the numbers it is about) falls into one split by
  its hash: 20 of 100 held out, 10 for validation, the rest for training;
* a *composition* (two or more skills in one task) falls into one split by its hash: 30 of 100 held out, 10 for
  validation; the tasks of such a composition are only made from seed states of the same split. The other compositions,
  and single skills, occur in every split.

So no seed state is in two splits, and a composition that is held out is never trained on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, get_args

from verigen.bundle import Bundle

__all__ = ["SPLITS", "Split", "composition_split", "own_split", "split_of", "state_split"]

Split = Literal["train", "validation", "held-out"]
DEAL = 34
"""Which of the many ways to deal by hashes: one that holds out compositions of most packs. Changing it deals anew."""
SPLITS: tuple[Split, ...] = get_args(Split)


def split_of(bundle: Bundle) -> Split | None:
    """The split of a generated bundle; None if its composition and its seed state do not go together."""
    state = state_split(bundle.seed_state)
    reserved = composition_split(bundle.task.skills)
    return state if reserved in ("train", state) else None


def own_split(bundle: Bundle) -> Split | None:
    """The split that any bundle says it is of: that of a generated one; None for others."""
    return split_of(bundle) if bundle.provenance.generator.startswith("pack:") else None


def state_split(seed_state: str) -> Split:
    """The split of a family of start states."""
    return _split("state", seed_state, held_out=20, validation=10)


def composition_split(skills: Sequence[str]) -> Split:
    """The only split in which these skills occur together, or `train` if they occur in all."""
    if len(skills) < 2:
        return "train"
    return _split("composition", "+".join(sorted(skills)), held_out=30, validation=10)


def _split(kind: str, name: str, *, held_out: int, validation: int) -> Split:
    bucket = int.from_bytes(hashlib.sha256(f"{kind} {DEAL}:{name}".encode()).digest()[:8], "big") % 100
    if bucket < held_out:
        return "held-out"
    return "validation" if bucket < held_out + validation else "train"
