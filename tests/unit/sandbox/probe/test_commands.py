"""The probe's side of its link to the spawner, with a spawner of the test's own."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox.probe import commands
from sandbox.probe.commands import CommandFailed, Process, SpawnerLink


class FakeSpawner:
    """The other end of a link: says what the test lets it say."""

    def __init__(self) -> None:
        self.end, self.probe_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link = SpawnerLink(self.probe_end, {})

    def told(self) -> dict[str, Any]:
        """The next message of the probe."""
        message: dict[str, Any] = json.loads(self.end.recv(1 << 16))
        return message

    def tell(self, **message: Any) -> None:
        self.end.send(json.dumps(message).encode())

    def start(self, name: str) -> Process:
        with Path(os.devnull).open() as null:
            return self.link.spawn([name], [null.fileno()] * 3, user="user", cwd=None, env={})


@pytest.fixture
def spawner(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSpawner]:
    """A spawner whose end stops the thread that listens to it, and not this process."""
    stopped = threading.Event()

    def stop(_code: int) -> None:
        stopped.set()
        threading.Event().wait()

    monkeypatch.setattr(os, "_exit", stop)
    fake = FakeSpawner()
    fake.end.settimeout(10)
    yield fake
    fake.end.close()
    assert stopped.wait(10)
    fake.probe_end.close()


def test_the_end_of_a_start_that_was_given_up_is_not_that_of_the_next_process_with_its_pid(
    spawner: FakeSpawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "START_TIMEOUT_S", 0.05)
    with pytest.raises(CommandFailed, match="did not start"):
        spawner.start("stopped")
    spawner.tell(ref=spawner.told()["ref"], pid=7)
    assert spawner.told() == {"op": "kill", "pid": 7, "signal": 9}
    spawner.tell(exit=7, status=-9)

    monkeypatch.setattr(commands, "START_TIMEOUT_S", 10.0)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(spawner.start, "next")
        spawner.tell(ref=spawner.told()["ref"], pid=7)
        process = started.result(10)
    assert process.status is None
    process.close()
