"""What people and pipes do wrong: one message each, JSON where JSON was asked for, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

HOUSE = Path(__file__).resolve().parents[3]


def shell(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which $F is the command."""
    command = f"{sys.executable} -c 'from cli.main import run; run()'"
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(home)}
    return subprocess.run(
        ["sh", "-c", line.replace("$F", command)], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "line",
    ["tasks list --json --bogus", "tasks nosuch --json", "tasks verify --all --desktops 0 --json", "desk do --json"],
)
def test_a_command_line_that_cannot_be_read_is_told_in_json_too(frontdesk: CommandLine, line: str) -> None:
    ran = frontdesk(line)
    assert ran.code == 2
    assert set(ran.json["error"]) == {"type", "message", "fix"}
    assert "--help" in ran.json["error"]["fix"]
    assert "Error" in ran.err


def test_json_that_belongs_to_another_command_is_not_ours(frontdesk: CommandLine) -> None:
    ran = frontdesk("desk exec --bogus -- program --json")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("line", ["desk shot --name ../x", "desk close ../../x", "desk exec --name A ls"])
def test_a_desks_name_never_leaves_its_folder(frontdesk: CommandLine, line: str) -> None:
    ran = frontdesk(line)
    assert ran.code == 2
    assert "is no desk's name" in ran.err


def test_a_split_that_is_none_is_refused(frontdesk: CommandLine) -> None:
    for line in ("tasks list --split heldout", "tasks import /nowhere --split heldout", "eval x --split heldout"):
        ran = frontdesk(line)
        assert ran.code == 2, line
        if not line.startswith("eval"):
            assert "there is no split 'heldout'; choose train, validation, held-out" in ran.err


def test_an_unknown_profile_lists_the_known_in_sentences(frontdesk: CommandLine) -> None:
    assert "there are: light, office. A folder of your own" in frontdesk("image build xyz").err


@pytest.mark.parametrize("option", ["", "--json"])
def test_a_full_disk_behind_stdout_is_one_message(option: str, tmp_path: Path) -> None:
    ran = shell(f"$F image list {option} > /dev/full", tmp_path)
    assert ran.returncode == 1
    assert ran.stderr == "error: standard output: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&- 2>&-", ">&-"])
def test_a_closed_standard_stream_is_none_of_our_business(closed: str, tmp_path: Path) -> None:
    ran = shell(f"$F image list --json {closed}", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert closed == ">&-" or json.loads(ran.stdout)["images"] == []


def test_no_file_takes_the_place_of_a_closed_stdout(tmp_path: Path) -> None:
    look = (
        "import os, sys; from cli.main import run; sys.argv = ['frontdesk', 'image', 'list']",
        "try: run()",
        "except SystemExit: pass",
        "print(os.readlink('/proc/self/fd/1'), file=sys.stderr)",
    )
    (tmp_path / "look.py").write_text("\n".join(look))
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(tmp_path / "home")}
    line = f"{sys.executable} {tmp_path / 'look.py'} >&-"
    ran = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=False)
    assert ran.stderr == "/dev/null\n"


def test_a_locale_without_the_characters_is_no_error(tmp_path: Path) -> None:
    plain = "PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 LC_ALL=C"
    ran = shell(f"{plain} $F tasks list --app mousepad", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "?" in ran.stdout


def test_json_loses_no_character_to_the_encoding_of_stdout(tmp_path: Path) -> None:
    name = "caf\u00e9\N{GRINNING FACE}"
    ran = shell(f"PYTHONIOENCODING=ascii $F tasks show {name} --json", tmp_path)
    assert (ran.returncode, ran.stderr) == (2, "")
    assert name in json.loads(ran.stdout)["error"]["message"]


@pytest.mark.parametrize("option", ["", "--json"])
def test_arguments_that_are_no_text_are_refused_in_one_message(option: str, tmp_path: Path) -> None:
    ran = shell(f"$F tasks show $(printf '\\377') {option}", tmp_path)
    assert ran.returncode == 2
    assert "is not text" in (json.loads(ran.stdout)["error"]["message"] if option else ran.stderr)
    assert "Traceback" not in ran.stderr
