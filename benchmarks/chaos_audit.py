"""What a storm (`benchmarks/chaos.py`) broke: the workers' journals against what the desktops themselves held.

* leak: a file, a window, a frame or a mark in a desktop belongs to another lease
* duplicate: an action left its mark twice
* false done: an action that was reported done left no mark
* false refusal: an action of which it was said that nothing was done left its mark
* orphan: a process, mount, control group or file of a desktop that is left when the hub has closed
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Findings", "audit", "leftovers", "percentile"]

MARK = re.compile(r"[tx]([0-9a-f]{10})\d\d;")
SECRET = re.compile(r"(?<![0-9a-f])[0-9a-f]{10}(?![0-9a-f])")


@dataclass(kw_only=True, slots=True)
class Findings:
    """What the journals and the ledgers tell."""

    counts: Counter[str] = field(default_factory=Counter)
    """Events by name, and what was said of actions as `said NAME`."""
    failures: Counter[str] = field(default_factory=Counter)
    """Leases that ended early, by the type of the error."""
    overhead_ms: list[float] = field(default_factory=list)
    """What calls took beyond the desktop's own time, of those whose connection was left in peace."""
    cut_ms: list[float] = field(default_factory=list)
    """The same of calls whose connection was cut, once or more often, and that nothing else befell."""
    leaks: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    false_done: list[str] = field(default_factory=list)
    false_refused: list[str] = field(default_factory=list)
    unread: int = 0
    """Leases with actions whose desktop could not be read at its end."""


def audit(journals: Sequence[Path], ledgers: Mapping[str, str | None]) -> Findings:
    """Compare.

    Args:
        ledgers: desktop id -> its ledger at its end; None where it could not be read.
    """
    found = Findings()
    events = list(_events(journals))
    leases = {event["lease"]: event for event in events if event["event"] == "lease"}
    owner = {event["secret"]: lease for lease, event in leases.items()}
    painter = {event["colour"]: lease for lease, event in leases.items()}
    said: dict[str, dict[str, tuple[str, str | None]]] = {lease: {} for lease in leases}
    for event in events:
        found.counts[event["event"]] += 1
        match event["event"]:
            case "mark":
                said[event["lease"]].setdefault(event["mark"], ("unknown", None))
            case "said":
                said[event["lease"]][event["mark"]] = event["said"], event["why"]
                found.counts[f"said {event['said']}"] += 1
            case "overhead" if not event["troubles"]:
                found.overhead_ms.append(event["ms"])
            case "overhead" if event["troubles"] == ["cut"]:
                found.cut_ms.append(event["ms"])
            case "failed":
                found.failures[event["type"]] += 1
            case "repeated" if not event["same"]:
                found.duplicates.append(f"{event['lease']}: {event['how']} got another answer than the first")
            case "files" | "saw":
                _look_for_others(event, owner, painter, found)
    for lease, marks in said.items():
        _check_ledger(lease, leases[lease]["secret"], marks, ledgers.get(lease), found)
    return found


def _look_for_others(event: Any, owner: Mapping[str, str], painter: Mapping[str, str], found: Findings) -> None:
    lease = event["lease"]
    texts = [event["text"]] if event["event"] == "files" else event["titles"]
    for text in texts:
        for secret in SECRET.findall(text) + MARK.findall(text):
            if owner.get(secret, lease) != lease:
                found.leaks.append(f"{lease} found the secret of {owner[secret]}")
    colour = event.get("colour")
    if painter.get(colour, lease) != lease:
        found.leaks.append(f"{lease} saw the window of {painter[colour]}")


def _check_ledger(
    lease: str, secret: str, marks: Mapping[str, tuple[str, str | None]], ledger: str | None, found: Findings
) -> None:
    if ledger is None:
        found.unread += bool(marks)
        return
    left = Counter(match.group(0) for match in MARK.finditer(ledger))
    for mark, times in left.items():
        if secret not in mark:
            found.leaks.append(f"the mark {mark} of another lease is in the desktop of {lease}")
        elif times > 1:
            found.duplicates.append(f"{lease}: {mark} {times} times")
    for mark, (what, why) in marks.items():
        if what == "done" and not left[mark]:
            found.false_done.append(f"{lease}: {mark} is not in {ledger!r}")
        if what == "nothing" and left[mark]:
            found.false_refused.append(f"{lease}: {mark}, though {why}")


def _events(journals: Sequence[Path]) -> Iterator[Any]:
    for path in journals:
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # a process may be killed in the middle of a line
                yield json.loads(line)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed; NaN without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def leftovers(folder: Path, desktops: Container[str]) -> list[str]:
    """What of desktops is left on this machine.

    Args:
        folder: where their backend kept its sockets and logs.
        desktops: their ids; control groups' names end with them.
    """
    left = [f"file {path}" for path in folder.glob("*")]
    left += [f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mounts = (process / "mountinfo").read_text(errors="replace")
        except OSError:
            continue
        if str(folder) in command or str(folder) in mounts:
            left.append(f"process {process.name} ({command[:60]})")
    for parent, groups, _ in os.walk("/sys/fs/cgroup"):
        left += [f"control group {parent}/{group}" for group in groups if group.rpartition("-")[2] in desktops]
    return left
