"""Checkpoints are whole or absent, and a damaged one is passed over."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from trainer.checkpoints import CheckpointStore


def write(text: str, fail: bool = False) -> object:
    def fill(directory: Path) -> None:
        (directory / "a.txt").write_text(text)
        (directory / "deep").mkdir()
        (directory / "deep" / "b.txt").write_text(text * 2)
        if fail:
            raise RuntimeError("killed")

    return fill


def test_the_newest_is_taken_and_old_ones_go(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "run", keep=2)
    assert store.latest() is None
    for step in (1, 2, 10):
        path = store.save(step, write(str(step)))  # type: ignore[arg-type]
    assert store.latest() == path
    assert store.step(path) == 10
    assert (path / "deep" / "b.txt").read_text() == "1010"
    assert sorted(each.name for each in store.root.iterdir()) == ["step-00000002", "step-00000010"]
    with pytest.raises(ValueError, match="saved once"):
        store.save(10, write("again"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        CheckpointStore(tmp_path, keep=0)


def test_a_save_that_was_killed_leaves_nothing(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, write("one"))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        store.save(2, write("two", fail=True))  # type: ignore[arg-type]
    latest = store.latest()
    assert latest is not None
    assert store.step(latest) == 1
    store.save(2, write("two"))  # type: ignore[arg-type]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


@pytest.mark.parametrize("damage", ["shorter", "changed", "gone", "no manifest", "bad manifest"])
def test_a_damaged_one_is_passed_over_aloud(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    good = store.save(1, write("one"))  # type: ignore[arg-type]
    bad = CheckpointStore(tmp_path, keep=2).save(2, write("two"))  # type: ignore[arg-type]
    assert store.latest() == bad
    match damage:
        case "shorter":
            (bad / "a.txt").write_text("tw")
        case "changed":
            (bad / "deep" / "b.txt").write_text("twotwO")
        case "gone":
            (bad / "a.txt").unlink()
        case "no manifest":
            (bad / "manifest.json").unlink()
        case "bad manifest":
            (bad / "manifest.json").write_text("[1]")
    with caplog.at_level(logging.ERROR):
        assert store.latest() == good
    assert "step-00000002 is damaged" in caplog.text
    if damage != "changed":  # pruning compares sizes only
        store.save(2, write("two"))  # type: ignore[arg-type]
        assert store.latest() == bad
