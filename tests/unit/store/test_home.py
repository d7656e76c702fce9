from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

import store
from store.errors import HomeError
from store.home import Home


def test_default_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRONTDESK_HOME", str(tmp_path / "state"))
    assert Home.default().path == tmp_path / "state"
    monkeypatch.setenv("FRONTDESK_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Home.default().path == tmp_path / ".local/share/frontdesk"


def test_relative_and_tilde_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert Home(Path("x")).path == tmp_path / "x"
    assert Home(Path("~/x")).path == tmp_path / "me/x"


def test_catalog_is_in_the_home_unless_the_environment_names_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FRONTDESK_CATALOG", raising=False)
    assert Home(tmp_path).catalog_url == f"sqlite:///{tmp_path}/catalog.sqlite"
    monkeypatch.setenv("FRONTDESK_CATALOG", "postgresql+psycopg://host/name")
    assert Home(tmp_path).catalog_url == "postgresql+psycopg://host/name"


def test_ensure_makes_a_private_home_and_keeps_an_existing_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "state")
    assert not home.path.exists()
    home.ensure()
    (home.reports / "kept").write_text("x")
    home.ensure()
    for directory in (home.path, home.blobs, home.trajectories, home.images, home.run, home.runs, home.reports):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [path.name for path in home.reports.iterdir()] == ["kept"]
    assert list(home.path.glob("tmp*")) == []


def test_an_unusable_home_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="Set FRONTDESK_HOME to a directory that you may write"):
        Home(tmp_path / "file").ensure()
    with pytest.raises(HomeError, match="/proc/nowhere"):
        Home(Path("/proc/nowhere")).ensure()


def test_a_home_that_nobody_has_says_what_to_do() -> None:
    with pytest.raises(HomeError, match="Set FRONTDESK_HOME to an absolute path"):
        Home(Path("~no-such-user-of-this-machine/x"))


def test_every_exported_name_is_there() -> None:
    for name in store.__all__:
        assert getattr(store, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Blobs'"):
        _ = store.Blobs


def test_the_record_type_does_not_load_the_database_layers() -> None:
    program = "import sys, store.trajectory, store.blobs; print('sqlalchemy' in sys.modules, 'store' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
