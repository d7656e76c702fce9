"""The audit of a storm sees each thing that must not happen, and nothing where all is well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos_audit import Findings, audit, leftovers, percentile

OURS, OTHERS = "00000000aa", "00000000bb"
FIRST, SECOND = f"t{OURS}00;", f"x{OURS}01;"


def journal(path: Path, *events: dict[str, Any]) -> list[Path]:
    leases = [
        {"event": "lease", "lease": "a", "secret": OURS, "colour": "aaaaaa"},
        {"event": "lease", "lease": "b", "secret": OTHERS, "colour": "bbbbbb"},
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in [*leases, *events]) + '{"event": "cut sho')
    return [path]


def said(mark: str, what: str) -> list[dict[str, Any]]:
    about = {"lease": "a", "mark": mark}
    return [{"event": "mark", **about}, {"event": "said", "said": what, "why": "because", **about}]


def find(tmp_path: Path, *events: dict[str, Any], ledger: str | None = "") -> Findings:
    return audit(journal(tmp_path / "journal", *events), {"a": ledger, "b": ""})


def test_a_lease_where_all_is_well(tmp_path: Path) -> None:
    found = find(
        tmp_path,
        *said(FIRST, "done"),
        *said(SECOND, "unknown"),
        {"event": "mark", "lease": "a", "mark": f"t{OURS}02;"},  # its process was killed
        {"event": "files", "lease": "a", "text": f"{OURS}{OURS}{FIRST}secret\n"},
        {"event": "saw", "lease": "a", "colour": "aaaaaa", "titles": [OURS, "File Manager"]},
        {"event": "saw", "lease": "a", "colour": "123456", "titles": []},
        {"event": "repeated", "lease": "a", "how": "twice", "said": "answer", "same": True},
        ledger=FIRST + f"t{OURS}0",
    )
    assert (found.leaks, found.duplicates, found.false_done, found.false_refused, found.unread) == ([], [], [], [], 0)
    assert found.counts["said done"] == 1


@pytest.mark.parametrize(
    ("kind", "events", "ledger"),
    [
        ("leaks", [{"event": "files", "lease": "a", "text": f"{OTHERS}\nsecret"}], ""),
        ("leaks", [{"event": "files", "lease": "a", "text": f"t{OTHERS}03;"}], ""),
        ("leaks", [{"event": "saw", "lease": "a", "colour": "aaaaaa", "titles": [OTHERS]}], ""),
        ("leaks", [{"event": "saw", "lease": "a", "colour": "bbbbbb", "titles": []}], ""),
        ("leaks", [], f"t{OTHERS}00;"),
        ("duplicates", said(FIRST, "done"), FIRST + SECOND + FIRST),
        ("duplicates", said(FIRST, "unknown"), FIRST + FIRST),
        ("duplicates", [{"event": "repeated", "lease": "a", "how": "late", "said": "answer", "same": False}], ""),
        ("false_done", said(FIRST, "done"), SECOND),
        ("false_refused", said(FIRST, "nothing"), FIRST),
    ],
)
def test_each_broken_promise_is_seen(kind: str, events: list[dict[str, Any]], ledger: str, tmp_path: Path) -> None:
    found = find(tmp_path, *events, ledger=ledger)
    kinds = ("leaks", "duplicates", "false_done", "false_refused")
    assert {name for name in kinds if getattr(found, name)} == {kind}


def test_a_desktop_that_could_not_be_read_is_counted(tmp_path: Path) -> None:
    assert find(tmp_path, *said(FIRST, "done"), ledger=None).unread == 1
    assert find(tmp_path, ledger=None).unread == 0  # nothing was done in it


def test_overhead_is_of_calls_in_peace_and_apart_of_those_that_were_cut(tmp_path: Path) -> None:
    troubles: list[list[str]] = [[], ["cut"], ["twice"], ["cut", "slow"], ["late"], []]
    events = [{"event": "overhead", "ms": ms, "troubles": these} for ms, these in enumerate(troubles)]
    found = find(tmp_path, *events)
    assert (found.overhead_ms, found.cut_ms) == ([0, 5], [1])


def test_leftovers_are_files_mounts_processes_and_groups(tmp_path: Path) -> None:
    assert leftovers(tmp_path, ["0123456789ab"]) == []
    (tmp_path / "frontdesk-1").mkdir()
    assert leftovers(tmp_path, []) == [f"file {tmp_path / 'frontdesk-1'}"]


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
