"""A build step's processes and mounts end with the builder, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.image.contained import run_contained

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

BUILDER = """
import os, sys
from sandbox.image.contained import run_contained
lock = os.open("/dev/null", os.O_RDONLY)
run_contained(["sh", "-c", sys.argv[1]], on_line=lambda line: print(line, flush=True), lock_fd=lock)
"""


@pytest.fixture
def marker() -> str:
    """A word in a step's command line, by which its processes are known."""
    return f"step-{uuid.uuid4().hex}"


@pytest.fixture
def lock_fd() -> Iterator[int]:
    """Stands for the build lock."""
    fd = os.open(os.devnull, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def _stubborn(marker: str) -> str:
    """A step that dies of no broken pipe, no hang-up and no parent, with a child in a session of its own."""
    loop = f"trap '' PIPE HUP TERM; : {marker}; while :; do sleep 0.2; done"
    return f'setsid sh -c "{loop}" >/dev/null 2>&1 & echo ready; {loop}'


def _alive(marker: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if marker in text and "run_contained" not in text:
            found.append(path.parent.name)
    return found


def _wait_until_gone(marker: str) -> None:
    deadline = time.monotonic() + 20
    while _alive(marker):
        assert time.monotonic() < deadline, f"{_alive(marker)} outlived the builder"
        time.sleep(0.02)


def test_a_killed_builder_takes_every_process_of_its_step_along(marker: str) -> None:
    builder = subprocess.Popen([sys.executable, "-c", BUILDER, _stubborn(marker)], stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None
    try:
        assert builder.stdout.readline() == "ready\n"
        assert len(_alive(marker)) >= 2
    finally:
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        builder.stdout.close()
    _wait_until_gone(marker)


def test_an_error_in_the_builder_ends_the_step(marker: str, lock_fd: int) -> None:
    def fail(line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError, match="ready"):
        run_contained(["sh", "-c", _stubborn(marker)], on_line=fail, lock_fd=lock_fd)
    _wait_until_gone(marker)


def test_a_steps_mounts_are_its_own(tmp_path: Path, lock_fd: int) -> None:
    seen: list[str] = []

    def look(line: str) -> None:
        seen.append(line)
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()

    script = f"mount -t tmpfs tmpfs {tmp_path} && touch {tmp_path}/inside && ls {tmp_path}"
    assert run_contained(["sh", "-c", script], on_line=look, lock_fd=lock_fd) == 0
    assert seen == ["inside"]
    assert list(tmp_path.iterdir()) == []


def test_a_step_has_no_network_unless_it_is_given(lock_fd: int) -> None:
    def interfaces(*, network: bool) -> set[str]:
        lines: list[str] = []
        run_contained(["cat", "/proc/net/dev"], on_line=lines.append, lock_fd=lock_fd, network=network)
        return {line.partition(":")[0].strip() for line in lines if ":" in line}

    assert interfaces(network=False) == {"lo"}
    assert interfaces(network=True) == {path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()}


def test_exit_code_output_and_input_pass_through(tmp_path: Path, lock_fd: int) -> None:
    source = tmp_path / "input"
    source.write_text("one\ntwo\n")
    lines: list[str] = []
    argv = ["sh", "-c", "cat; echo err >&2; printf 'no newline'; exit 7"]
    assert run_contained(argv, on_line=lines.append, lock_fd=lock_fd, stdin=source) == 7
    assert lines == ["one", "two", "err", "no newline"]
