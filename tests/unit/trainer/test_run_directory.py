"""A run's directory: one process, one configuration, and a number for every start."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.run_directory import RunDirectory, attempts_of

CONFIG = RunConfig(name="one")


def attempts(root: Path, config: RunConfig = CONFIG) -> str:
    directory = RunDirectory(root, config)
    directory.close()
    return directory.attempts


def test_every_start_names_its_attempts_otherwise(tmp_path: Path) -> None:
    first, second, third = (attempts(tmp_path / "one") for _ in range(3))
    assert len({first, second, third}) == 3
    assert {name[:-1] for name in (first, second, third)} == {first[:-1]}
    shutil.rmtree(tmp_path / "one")
    assert attempts(tmp_path / "one") != first, "a deleted run of this name has used that"


def test_a_deterministic_run_makes_the_same_attempts_whenever_it_is_started(tmp_path: Path) -> None:
    config = RunConfig(name="one", deterministic=True)
    first = attempts(tmp_path / "a" / "one", config)
    assert attempts(tmp_path / "a" / "one", config) == attempts(tmp_path / "b" / "one", config) == first
    other = config.model_copy(update={"seed": 1})
    assert attempts(tmp_path / "c" / "one", other) != first, "its attempts are others"


def test_a_run_knows_its_attempts_from_those_of_a_longer_name(tmp_path: Path) -> None:
    mine = [f"{attempts(tmp_path / 'one')}-g000001-0" for _ in range(2)]
    others = f"{attempts(tmp_path / 'one-1', CONFIG.model_copy(update={'name': 'one-1'}))}-g000001-0"
    assert [name.startswith(attempts_of(tmp_path / "one")) for name in (*mine, others)] == [True, True, False]
    assert others.startswith("one-"), "its name alone does not tell"


def test_a_run_of_an_earlier_version_goes_on_with_the_defaults_of_what_is_new(tmp_path: Path) -> None:
    attempts(tmp_path)
    known = json.loads((tmp_path / "run.json").read_text("utf-8"))
    del known["config"]["deterministic"], known["config"]["practice"]["max_flat_groups"]
    (tmp_path / "run.json").write_text(json.dumps(known), "utf-8")
    attempts(tmp_path)
    known["config"]["seed"] = 7
    (tmp_path / "run.json").write_text(json.dumps(known), "utf-8")
    with pytest.raises(ValueError, match="another seed;"):
        attempts(tmp_path)


def test_only_one_process_has_it(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path, CONFIG)
    with pytest.raises(ValueError, match="under way"):
        RunDirectory(tmp_path, CONFIG)
    first.close()
    RunDirectory(tmp_path, CONFIG).close()


def test_a_run_goes_on_under_its_own_configuration_only(tmp_path: Path) -> None:
    RunDirectory(tmp_path, CONFIG).close()
    with pytest.raises(ValueError, match=r"another seed, desktops; .*another name"):
        RunDirectory(tmp_path, RunConfig(name="one", seed=1, desktops=9))
    with pytest.raises(ValueError, match="another variant"):
        RunDirectory(tmp_path, CONFIG, variant="shuffled rewards")


def test_weights_of_a_killed_start_are_removed(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, CONFIG)
    (directory.weights() / "v3").mkdir()
    assert list(directory.weights().iterdir()) == []
    directory.close()
