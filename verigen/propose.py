"""Which bundle is proposed next: templates and splits take turns, and nothing is proposed twice.

A proposal is a function of the packs, the seed and what was known at the beginning: a synthesis that goes on from its
ledger proposes what it would have proposed without the interruption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verigen.bundle import Bundle, Provenance
from verigen.ledger import Entry, Ledger
from verigen.packs.draw import Draw
from verigen.packs.protocol import SkillPack, Template, content_key
from verigen.packs.splits import Split, split_of

__all__ = ["MAX_DRAWS", "Proposer"]

MAX_DRAWS = 300
"""Draws for one proposal; a template that gives nothing new for a split by then is used up."""


@dataclass(kw_only=True)
class _Turn:
    pack: SkillPack
    template: Template
    split: Split
    index: int


class Proposer:
    """Draws bundles in turn.

    Args:
        known: content keys never to propose.
        ledger: what was proposed before, which is known too.
    """

    def __init__(
        self, packs: Sequence[SkillPack], splits: Sequence[Split], *, seed: int, known: set[str], ledger: Ledger
    ) -> None:
        self._seed = seed
        self._known = known | ledger.entries.keys()
        done: dict[tuple[str, str], int] = {}
        for entry in ledger.entries.values():
            done[entry.template, entry.split] = max(entry.index + 1, done.get((entry.template, entry.split), 0))
        turns = [
            _Turn(pack=pack, template=template, split=split, index=done.get((template.name, split), 0))
            for pack in packs
            for template in pack.templates
            for split in splits
        ]
        # Whose turn it is follows from what is done: the least index, in the packs' order.
        self._turns = deque(sorted(turns, key=lambda turn: turn.index))

    def next(self, needs: Callable[[str, Split], bool]) -> Entry | None:
        """The next proposal; None when no template that is needed gives anything new.

        Args:
            needs: asked for each template and split in turn.
        """
        for _ in range(len(self._turns)):
            turn = self._turns.popleft()
            if not needs(turn.template.name, turn.split):
                self._turns.append(turn)
                continue
            bundle = self._draw(turn)
            if bundle is None:
                continue  # used up: it gets no further turn
            key = content_key(bundle)
            self._known.add(key)
            entry = Entry(
                key=key,
                template=turn.template.name,
                split=turn.split,
                index=turn.index,
                bundle=self._signed(bundle, turn),
            )
            turn.index += 1
            self._turns.append(turn)
            return entry
        return None

    def _draw(self, turn: _Turn) -> Bundle | None:
        for attempt in range(MAX_DRAWS):
            draw = Draw(f"{self._seed}/{turn.template.name}/{turn.split}/{turn.index}/{attempt}")
            bundle = turn.template.make(draw)
            if split_of(bundle) == turn.split and content_key(bundle) not in self._known:
                return bundle
        return None

    def _signed(self, bundle: Bundle, turn: _Turn) -> Bundle:
        parameters = {"template": turn.template.name, "seed": self._seed, "index": turn.index}
        origin = Provenance(generator=f"pack:{turn.pack.name}/{turn.pack.version}", parameters=parameters)
        return bundle.model_copy(update={"provenance": origin})
