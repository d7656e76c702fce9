"""Waiting on descriptors."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator

import pytest

from sandbox.probe.waiting import ready


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_can_be_read_or_written_is_named(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    assert ready([reader], 0) == set()
    assert ready([], 0, writers=[writer]) == {writer}
    os.write(writer, b"x")
    assert ready([reader], 10, writers=[writer]) == {reader, writer}


def test_a_full_pipe_cannot_be_written(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe[1], b"x" * 65536)
    assert ready([], 0, writers=[pipe[1]]) == set()


def test_a_hung_up_peer_counts_as_readable() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    assert ready([reader], 10) == {reader}
    os.close(reader)


def test_it_waits_no_longer_than_it_is_told(pipe: tuple[int, int]) -> None:
    start = time.monotonic()
    assert ready([pipe[0]], 0.05) == set()
    assert time.monotonic() - start >= 0.049
    assert ready([pipe[0]], -5) == set()


def test_descriptors_of_any_number_serve(pipe: tuple[int, int]) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1100:
        pytest.skip("the limit on open files is too low")
    high = os.dup2(pipe[0], 1050)
    os.write(pipe[1], b"x")
    assert ready([high], 10) == {high}
    os.close(high)
