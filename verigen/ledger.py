"""What a synthesis has done so far: an append-only file that a killed run goes on from.

::

    proposed -> [recorded] -> settled (admitted | rejected)          one line each, on the disk before the next step
                     `-> unproven: the machinery failed; still open, tried again by the next run

A proposal that is not settled is open, and goes on with the very bundle that was last written down, so the proof that a
kill may have left in the catalog is found again. The last line may be torn; it then never was.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from verigen.bundle import Bundle, parse_bundle
from verigen.errors import VerigenError
from verigen.sets import compact

__all__ = ["Entry", "Ledger"]

Outcome = Literal["open", "admitted", "rejected"]


@dataclass(kw_only=True)
class Entry:
    """One proposal."""

    key: str
    """What makes it this task (verigen.packs.content_key)."""
    template: str
    split: str
    index: int
    bundle: Bundle
    """With examples once they are recorded."""
    outcome: Outcome = "open"
    gate: str = ""
    """The gate that rejected it."""
    reason: str = ""


class Ledger:
    """Proposals by key, in the order of proposing.

    Args:
        path: the file; made if it is not there.

    Raises:
        VerigenError: another process works on it, or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        self.unproven: Counter[str] = Counter()
        """How often each gate was left unproven."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise VerigenError(f"another synthesis works on {path}; wait for it, or choose another --seed") from error
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def propose(self, entry: Entry) -> None:
        """A new proposal."""
        assert entry.key not in self.entries, "nothing is proposed twice"
        self._write(
            event="proposed",
            key=entry.key,
            template=entry.template,
            split=entry.split,
            index=entry.index,
            bundle=compact(entry.bundle),
        )

    def record(self, key: str, bundle: Bundle) -> None:
        """Its examples are recorded; from now on this is the bundle."""
        self._write(event="recorded", key=key, bundle=compact(bundle))

    def settle(self, key: str, *, admitted: bool, gate: str = "", reason: str = "") -> None:
        """It is admitted, or a gate rejected it."""
        self._write(event="settled", key=key, admitted=admitted, gate=gate, reason=reason)

    def leave_unproven(self, key: str, *, gate: str, reason: str) -> None:
        """The machinery failed; it stays open."""
        self._write(event="unproven", key=key, gate=gate, reason=reason)

    def open_entries(self) -> list[Entry]:
        """Proposals that are not settled."""
        return [entry for entry in self.entries.values() if entry.outcome == "open"]

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            try:
                self._apply(json.loads(line))
            except (KeyError, ValueError) as error:
                raise VerigenError(f"{self.path}, line {number}, cannot be read ({error}); remove the file") from error
        self._file.truncate(whole)

    def _write(self, **event: Any) -> None:
        self._file.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._apply(event)

    def _apply(self, event: dict[str, Any]) -> None:
        key = event["key"]
        match event["event"]:
            case "proposed":
                bundle = parse_bundle(event["bundle"], source=f"the proposal {key[:12]}")
                self.entries[key] = Entry(
                    key=key, template=event["template"], split=event["split"], index=event["index"], bundle=bundle
                )
            case "recorded":
                self.entries[key].bundle = parse_bundle(event["bundle"], source=f"the bundle {key[:12]}")
            case "settled":
                entry = self.entries[key]
                entry.outcome = "admitted" if event["admitted"] else "rejected"
                entry.gate, entry.reason = event["gate"], event["reason"]
            case "unproven":
                self.unproven[event["gate"]] += 1
            case unknown:
                raise ValueError(f"unknown event {unknown!r}")
