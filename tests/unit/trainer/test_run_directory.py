"""A run's directory: one process, one configuration, and a number for every start."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.run_directory import RunDirectory

CONFIG = RunConfig(name="one")


def test_every_start_has_its_own_number(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        directory = RunDirectory(tmp_path, CONFIG)
        assert directory.start == number
        directory.close()


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
