"""A user without root, or a machine without a program: one clear message that names what to do, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[3]
RUN = "from cli.main import run; run()"
# In a user namespace without a mapping a process is nobody, with no capability, and can still read this checkout.
NOBODY = ["unshare", "--user"]


def run(line: str, home: Path, *, wrap: list[str], path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(home), "COLUMNS": "200"}
    if path is not None:
        env["PATH"] = path
    argv = [*wrap, sys.executable, "-c", RUN, *line.split()]
    return subprocess.run(argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


@pytest.fixture
def nobody() -> list[str]:
    """A prefix that runs a command as a user without root."""
    if os.geteuid() != 0:
        return []
    if subprocess.run([*NOBODY, "true"], check=False).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    return NOBODY


@pytest.mark.parametrize("line", ["image build light", "desk open", "quickstart", "tasks verify --all"])
def test_without_root_the_message_says_to_use_sudo(line: str, nobody: list[str], tmp_path: Path) -> None:
    ran = run(line, tmp_path / "home", wrap=nobody)
    assert ran.returncode == 1
    said = ran.stdout + ran.stderr
    assert "sudo" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("line", ["doctor", "image list", "desk list", "tasks list", "episodes list", "gc", "bench"])
def test_without_root_what_needs_none_still_works(line: str, nobody: list[str], tmp_path: Path) -> None:
    ran = run(line, tmp_path / "home", wrap=nobody)
    assert ran.returncode == (1 if line == "doctor" else 0), ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="as another user the missing root is told first")
@pytest.mark.parametrize(("line", "package"), [("image build light", "mmdebstrap"), ("quickstart", "bubblewrap")])
def test_without_a_program_its_package_is_named(line: str, package: str, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for program in ("sh", "true", "git"):
        (tools / program).symlink_to(Path("/bin") / program)
    ran = run(line, tmp_path / "home", wrap=[], path=str(tools))
    assert ran.returncode == 1
    assert f"apt-get install {package}" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
