"""The generated tasks that ship: one JSON line per bundle, its proof beside it, a pair of files per skill pack.

::

    verigen/bundles/sets/PACK.jsonl          {"id": ..., "bundle": ...}, defaults left out
    verigen/bundles/sets/PACK.proofs.jsonl   one proof each, in the same order

A bundle's split is not stored: it follows from the bundle (verigen.packs.splits). The id in a line is what its bundle
must hash to, so a line that was changed by hand, or that a change of a model reads differently, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from verigen.bundle import SHIPPED, Bundle, parse_bundle
from verigen.errors import BundleError
from verigen.packs.splits import Split, split_of
from verigen.proof import Proof

__all__ = ["SETS", "ProvenBundle", "compact", "read_sets", "write_sets"]

SETS = SHIPPED / "sets"
PROOFS = ".proofs.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvenBundle:
    """A generated bundle and the proof that admitted it."""

    bundle: Bundle
    proof: Proof

    @property
    def split(self) -> Split:
        """Follows from the bundle."""
        split = split_of(self.bundle)
        assert split is not None, "only bundles of a split are made"
        return split

    @property
    def pack(self) -> str:
        """Name of the skill pack that made it."""
        return str(self.bundle.task.tags["template"]).partition("/")[0]


def compact(value: Any) -> Any:
    """The JSON form of a model without what is its default, but with what tells union members apart."""
    if isinstance(value, BaseModel):
        return {
            name: compact(getattr(value, name))
            for name, field in type(value).model_fields.items()
            if name in ("type", "kind")
            or field.is_required()
            or getattr(value, name) != field.get_default(call_default_factory=True)
        }
    if isinstance(value, dict):
        return {key: compact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [compact(item) for item in value]
    return value


def read_sets(folder: Path = SETS) -> list[ProvenBundle]:
    """Every shipped generated bundle with its proof, by pack and line.

    Raises:
        BundleError: a line is not what it says; the message names file and line.
    """
    found = []
    for path in sorted(path for path in folder.glob("*.jsonl") if not path.name.endswith(PROOFS)):
        proofs = {proof.bundle_id: proof for proof in map(Proof.model_validate, _lines(_beside(path)))}
        for number, line in enumerate(_lines(path), start=1):
            bundle = parse_bundle(line["bundle"], source=f"{path}, line {number}")
            if bundle.id != line["id"] or bundle.id not in proofs:
                raise BundleError(
                    f"{path}, line {number}: the bundle is not the proven one; run `frontdesk synth --ship`"
                )
            found.append(ProvenBundle(bundle=bundle, proof=proofs[bundle.id]))
    return found


def write_sets(tasks: Iterable[ProvenBundle], folder: Path = SETS) -> None:
    """Write the files of every pack that has tasks; each file is replaced whole or not at all."""
    packs: dict[str, list[ProvenBundle]] = {}
    for task in tasks:
        packs.setdefault(task.pack, []).append(task)
    folder.mkdir(parents=True, exist_ok=True)
    for pack, members in packs.items():
        members.sort(key=lambda task: (str(task.bundle.task.tags["template"]), task.bundle.task.name))
        path = folder / f"{pack}.jsonl"
        # Proofs first: a bundle is never there without its proof.
        _replace(_beside(path), [compact(task.proof) for task in members])
        _replace(path, [{"id": task.bundle.id, "bundle": compact(task.bundle)} for task in members])


def _beside(path: Path) -> Path:
    return path.with_name(path.stem + PROOFS)


def _lines(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read: {error}") from error


def _replace(path: Path, documents: list[Any]) -> None:
    text = "".join(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n" for document in documents)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
