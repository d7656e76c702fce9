from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import record
from benchmarks.record import Bench, Result, ResultTable


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(name="demo", home=tmp_path / "home", results=tmp_path / "results", seed=3)


class Arms:
    """Counts how often each arm was measured."""

    def __init__(self) -> None:
        self.measured: list[str] = []

    def run(self, bench: Bench, *names: str) -> Result:
        figures: dict[str, float] = {}
        for name in names:
            figures |= bench.arm(name, lambda name=name: self.measure(name))  # type: ignore[misc]
        return Result(figures=figures, tables=(ResultTable(title="t", columns=("a", "b"), rows=(("x", 1.5),)),))

    def measure(self, name: str) -> dict[str, float]:
        if name == "broken":
            raise RuntimeError("no measurement")
        self.measured.append(name)
        return {f"{name}_s": float(len(self.measured))}


def test_a_result_names_everything_it_takes_to_repeat_it(bench: Bench) -> None:
    path = bench.finish(Arms().run(bench, "one", "two"))
    kept = json.loads(path.read_text())
    assert set(kept) == {"bench", "commit", "date", "command", "seed", "machine", "seconds", "figures", "tables"}
    assert (kept["bench"], kept["seed"], kept["command"]) == ("demo", 3, "frontdesk bench demo")
    assert kept["figures"] == {"one_s": 1.0, "two_s": 2.0}
    assert kept["tables"] == [{"title": "t", "columns": ["a", "b"], "rows": [["x", 1.5]]}]
    assert {"cpu", "cores", "memory_gb", "kernel", "python"} == set(kept["machine"])
    assert not bench.draft.exists()


def test_an_interrupted_run_does_not_measure_again(bench: Bench) -> None:
    arms = Arms()
    with pytest.raises(RuntimeError, match="no measurement"):
        arms.run(bench, "one", "broken")
    told: list[tuple[str, bool]] = []
    bench.on_arm = lambda arm, kept: told.append((arm, kept))
    result = arms.run(bench, "one", "two")
    assert arms.measured == ["one", "two"]
    assert result.figures == {"one_s": 1.0, "two_s": 2.0}
    assert told == [("one", True), ("two", False)]


@pytest.mark.parametrize("change", ["commit", "machine", "seed", "forget"])
def test_a_draft_of_other_circumstances_is_not_continued(
    bench: Bench, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = Arms()
    arms.run(bench, "one")
    if change == "commit":
        monkeypatch.setattr(record, "commit", lambda: "another")
        bench = Bench(name=bench.name, home=bench.home, seed=bench.seed, results=bench.results)
    elif change == "machine":
        monkeypatch.setattr(record, "machine", lambda: {"cpu": "another"})
    elif change == "seed":
        bench.seed = 4
    else:
        bench.forget()
    arms.run(bench, "one")
    assert arms.measured == ["one", "one"]


def test_a_run_is_of_the_commit_it_began_with(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = Arms()
    arms.run(bench, "one")
    monkeypatch.setattr(record, "commit", lambda: "another, made meanwhile")
    result = arms.run(bench, "one")
    assert arms.measured == ["one"]
    assert json.loads(bench.finish(result).read_text())["commit"] == bench.commit


def test_a_damaged_draft_is_measured_again(bench: Bench) -> None:
    arms = Arms()
    arms.run(bench, "one")
    bench.draft.write_text("{")
    arms.run(bench, "one")
    assert arms.measured == ["one", "one"]


def test_the_commit_is_unknown_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "HOUSE", tmp_path)
    assert record.commit() == "unknown"
