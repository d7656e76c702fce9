"""What starting the command line costs, counted in modules: times depend on the machine, imports do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[3]
HEAVY = {"PIL", "aiohttp", "sqlalchemy", "sqlmodel", "alembic", "zstandard", "torch", "numpy"}
OURS = {"store", "frontier", "sandbox", "agent", "verigen", "evals", "trainer", "benchmarks"}
CODE = """
import sys
sys.argv = ["frontdesk", *sys.argv[1:]]
from cli.main import run
try:
    run()
except SystemExit:
    pass
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def loaded(*argv: str, home: Path) -> set[str]:
    """The top-level modules that a command line has loaded when it ends."""
    env = os.environ | {"PYTHONPATH": str(HOUSE), "FRONTDESK_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", CODE, *argv], env=env, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("argv", [["--help"], ["desk", "do", "--help"], ["tasks", "--help"], ["quickstart", "--help"]])
def test_help_loads_nothing_heavy(argv: list[str], tmp_path: Path) -> None:
    modules = loaded(*argv, home=tmp_path)
    assert "typer" in modules
    assert modules.isdisjoint(HEAVY | OURS)


def test_the_first_help_loads_no_pydantic_either(tmp_path: Path) -> None:
    """Where a command has parameters, typer may validate them with it."""
    assert "pydantic" not in loaded("--help", home=tmp_path)


def test_a_command_that_works_does_load_them(tmp_path: Path) -> None:
    assert {"pydantic", "sqlmodel"} <= loaded("tasks", "list", home=tmp_path)


def test_no_command_loads_torch(tmp_path: Path) -> None:
    assert "torch" not in loaded("episodes", "list", home=tmp_path)
