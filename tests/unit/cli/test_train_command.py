"""`frontdesk train` and `frontdesk eval`: what they would do, and what they refuse."""

from __future__ import annotations

from pathlib import Path

from store import Catalog, Home
from tests.support.command_line import CommandLine
from tests.support.practice import make_tasks
from verigen.proof import store_bundle


def run_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text, "utf-8")
    return path


def keep_tasks(frontdesk: CommandLine, count: int) -> None:
    home = Home(frontdesk.home).ensure()
    with Catalog.open(home.catalog_url) as catalog:
        for task in make_tasks(count):
            store_bundle(catalog, task.bundle, split="train")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(frontdesk: CommandLine, tmp_path: Path) -> None:
    keep_tasks(frontdesk, 3)
    path = run_file(
        tmp_path,
        'name = "calc"\n[tasks]\napps = ["galculator"]\nlimit = 2\n[practice]\nupdates = 5\ngroups_per_update = 2',
    )
    ran = frontdesk(f"train {path} --dry-run --json")
    assert ran.code == 0, ran.err
    assert ran.json["tasks"] == 2
    assert ran.json["episodes_at_least"] == 5 * 2 * 8
    assert not ran.json["begun"]
    assert not (frontdesk.home / "runs" / "train").exists()
    assert "3 screenshots, 2 dropped at once" in frontdesk(f"train {path} --dry-run").out


def test_a_wrong_key_is_named_with_the_nearest_right_one(frontdesk: CommandLine, tmp_path: Path) -> None:
    path = run_file(tmp_path, 'name = "calc"\n[practice]\nupdate = 5')
    ran = frontdesk(f"train {path}")
    assert ran.code == 2
    assert "practice.update" in ran.err
    assert "updates" in ran.err


def test_only_a_run_that_was_begun_is_resumed(frontdesk: CommandLine, tmp_path: Path) -> None:
    path = run_file(tmp_path, 'name = "calc"')
    ran = frontdesk(f"train {path} --resume")
    assert ran.code == 2
    assert "leave out --resume" in ran.err


def test_what_names_no_policy_is_refused(frontdesk: CommandLine) -> None:
    for name in ("nobody", "nobody:warm", "a:b"):
        ran = frontdesk(f"eval {name}")
        assert ran.code == 2
        assert name in ran.err
