from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.conformance import Case, count, read_report


def case(backend: str, *, escape: bool = False, passed: bool = True) -> Case:
    return Case(backend=backend, escape=escape, passed=passed)


def test_every_test_is_counted_for_its_backend() -> None:
    cases = [case(backend, escape=escape) for backend in ("local", "docker") for escape in (True, False, True)]
    assert count(cases) == {
        "conformance_total": 3,
        "local_conformance_passed": 3,
        "docker_conformance_passed": 3,
        "escapes_tried": 2,
        "escapes_succeeded": 0,
        "local_escapes_succeeded": 0,
        "docker_escapes_succeeded": 0,
    }


def test_what_failed_or_was_not_there_did_not_pass() -> None:
    cases = [case("local", escape=True), case("local", escape=True, passed=False), case("local", passed=False)]
    counted = count([*cases, case("docker", escape=True)])
    assert counted["conformance_total"] == 3
    assert (counted["local_conformance_passed"], counted["docker_conformance_passed"]) == (1, 1)
    assert counted["escapes_tried"] == 2
    assert (counted["local_escapes_succeeded"], counted["docker_escapes_succeeded"]) == (1, 1)
    assert counted["escapes_succeeded"] == 2


CONFTEST = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if "host" not in item.name:
            item.user_properties += [("backend", "local"), ("kind", "escape" if "escape" in item.name else "other")]

@pytest.fixture(autouse=True)
def cleaned(request):
    yield
    assert "dirty" not in request.node.name
"""
SUITE = """
import pytest

def test_good(): pass
def test_escape(): pass
def test_host(): pass
def test_bad(): assert False
def test_dirty(): pass
def test_dirty_and_bad(): assert False
def test_skipped(): pytest.skip("no")
@pytest.mark.skip
def test_not_run(): pass
@pytest.mark.xfail(strict=True)
def test_expected(): assert False
"""


def test_a_report_tells_what_passed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=report.xml", f"--rootdir={tmp_path}"]
    ran = subprocess.run(argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stdout
    found = list(read_report(tmp_path / "report.xml"))
    assert sorted((each.escape, each.passed) for each in found) == [(False, False)] * 6 + [(False, True), (True, True)]
