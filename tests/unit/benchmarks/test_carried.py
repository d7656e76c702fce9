from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.carried import CARRIED, carry
from benchmarks.record import RESULTS


def write(folder: Path, name: str, **figures: float) -> None:
    result = {"bench": name, "commit": f"commit of {name}", "date": "2026", "command": name, "figures": figures}
    (folder / f"{name}.json").write_text(json.dumps(result))


def read(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "desktops.json").read_text())
    return result


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(tmp_path, "desktops", cold_boot_s=0.2)
    for name, wanted in CARRIED.items():
        write(tmp_path, name, **dict.fromkeys(wanted, 3.0), of_no_interest=1.0)
    return tmp_path


def test_figures_are_carried_with_where_they_come_from(results: Path) -> None:
    carry(results)
    kept = read(results)
    assert kept["figures"] == {"cold_boot_s": 0.2} | {name: 3.0 for names in CARRIED.values() for name in names}
    assert kept["commit"] == "commit of desktops"
    assert kept["carried"]["chaos"] == {
        "commit": "commit of chaos",
        "date": "2026",
        "command": "chaos",
        "figures": list(CARRIED["chaos"]),
    }


def test_carrying_again_takes_what_was_measured_since(results: Path) -> None:
    carry(results)
    write(results, "typing", typing_exact=7, typing_cases=8)
    assert carry(results)["typing_exact"] == 7
    assert read(results)["figures"]["typing_cases"] == 8


@pytest.mark.parametrize("missing", [*CARRIED, "desktops"])
def test_a_missing_result_is_named_and_nothing_is_carried(results: Path, missing: str) -> None:
    (results / f"{missing}.json").unlink()
    before = {path.name: path.read_text() for path in results.iterdir()}
    with pytest.raises(ValueError, match=f"{missing}.json is missing: measure it with `frontdesk bench {missing}`"):
        carry(results)
    assert {path.name: path.read_text() for path in results.iterdir()} == before


def test_a_figure_that_was_not_measured_is_named(results: Path) -> None:
    write(results, "typing", typing_exact=7)
    with pytest.raises(ValueError, match=r"typing.json has no typing_cases"):
        carry(results)
    assert read(results)["figures"] == {"cold_boot_s": 0.2}


def test_the_committed_result_has_what_the_others_measured_and_says_when() -> None:
    kept = json.loads((RESULTS / "desktops.json").read_text())
    for name, wanted in CARRIED.items():
        assert set(wanted) <= set(kept["figures"]), "run `frontdesk bench --carry`"
        assert kept["carried"][name]["figures"] == list(wanted)
        assert kept["carried"][name]["commit"]
        assert kept["carried"][name]["date"]
