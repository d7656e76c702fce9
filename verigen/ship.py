"""The set of generated tasks that comes with Frontdesk: what it holds, and making what is missing of it.

Every single skill is there for training, validation and the held-out suite; every composition for the splits that it
occurs in. Of the templates that the quickstart practises more is there, so that a few minutes of practice meet each
often and its held-out suite is large enough to tell a gain from luck. `frontdesk synth --ship` makes and proves what is
missing and writes the files of `verigen.sets` anew with each bundle that is admitted, so an interrupted run leaves a
smaller set that is whole.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from store.catalog import Catalog
from verigen.ledger import Entry, Ledger
from verigen.packs.draw import Draw
from verigen.packs.protocol import SkillPack, content_key
from verigen.packs.splits import SPLITS, Split, composition_split
from verigen.proof import Proof, find_proof
from verigen.sets import SETS, ProvenBundle, read_sets, write_sets
from verigen.synth import Admit, Wanted, synthesise

__all__ = ["PRACTISED", "SEED", "quotas", "ship"]

SEED = 2026
SINGLE: dict[Split, int] = {"train": 2, "validation": 1, "held-out": 3}
COMPOSITION: dict[Split, int] = {"train": 2, "validation": 0, "held-out": 2}
RESERVED = 3
"""Of a composition that occurs in one split only."""
PRACTISED = (
    "galculator/add-subtract",
    "galculator/multiply-divide",
    "galculator/square-root",
    "galculator/no-such-menu",
    "mousepad/switch",
    "mousepad/make-sure",
    "mousepad/two-switches",
    "mousepad/tab-size",
    "ristretto/switch",
    "ristretto/make-sure",
    "ristretto/delete",
    "ristretto/no-such-picture",
    "thunar/delete",
)
"""Templates of the quickstart: pointing at what was named, in four applications, with some that cannot be done."""
OF_PRACTISED: dict[Split, int] = {"train": 10, "validation": 1, "held-out": 10}
HAS_FEWER: dict[tuple[str, Split], int] = {("galculator/square-root", "held-out"): 6}
"""All that there is: few numbers of this size are squares."""


def quotas(packs: Sequence[SkillPack]) -> dict[tuple[str, Split], int]:
    """How many bundles of each template ship for each split."""
    table: dict[tuple[str, Split], int] = {}
    for pack in packs:
        for template in pack.templates:
            skills = template.make(Draw(template.name)).task.skills
            reserved = composition_split(skills)
            for split in SPLITS:
                if template.name in PRACTISED:
                    table[template.name, split] = HAS_FEWER.get((template.name, split), OF_PRACTISED[split])
                elif reserved != "train":
                    table[template.name, split] = RESERVED if split == reserved else 0
                else:
                    table[template.name, split] = (SINGLE if len(skills) == 1 else COMPOSITION)[split]
    return table


async def ship(
    packs: Sequence[SkillPack],
    admit: Admit,
    ledger: Ledger,
    catalog: Catalog,
    *,
    image_digest: str,
    workers: int,
    folder: Path = SETS,
    on_settled: Callable[[Entry, Proof | None], None] = lambda entry, proof: None,
) -> list[ProvenBundle]:
    """Make and prove what the shipped set lacks.

    Returns:
        The whole set.
    """
    shipped = {content_key(task.bundle): task for task in read_sets(folder)}
    for entry in ledger.entries.values():
        # Admitted by a run that was ended before it could write the files.
        if entry.outcome == "admitted" and entry.key not in shipped:
            proof = await asyncio.to_thread(find_proof, catalog, entry.bundle.id, image_digest)
            if proof is not None and proof.passed:
                shipped[entry.key] = ProvenBundle(bundle=entry.bundle, proof=proof)
    write_sets(shipped.values(), folder)

    def settled(entry: Entry, proof: Proof | None) -> None:
        if entry.outcome == "admitted" and proof is not None:
            shipped[entry.key] = ProvenBundle(bundle=entry.bundle, proof=proof)
            write_sets(shipped.values(), folder)
        on_settled(entry, proof)

    await synthesise(
        packs,
        SPLITS,
        admit,
        ledger,
        seed=SEED,
        known=set(shipped),
        wanted=_missing(quotas(packs), shipped, ledger),
        count=sum(quotas(packs).values()),
        workers=workers,
        on_settled=settled,
    )
    return list(shipped.values())


def _missing(quota: dict[tuple[str, Split], int], shipped: dict[str, ProvenBundle], ledger: Ledger) -> Wanted:
    """What is wanted, less what has shipped; the ledger's own are counted by the synthesis."""
    there = Counter(
        (str(task.bundle.task.tags["template"]), task.split)
        for key, task in shipped.items()
        if key not in ledger.entries
    )
    return lambda template, split: quota[template, split] - there[template, split]
