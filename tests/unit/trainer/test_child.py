"""A service in a process: calls, failures, and what happens when either side dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainer.child import ORPHANED, Child
from trainer.errors import ChildDied


class Echo:
    """What the tests call."""

    def __init__(self, word: str) -> None:
        if word == "refuse":
            raise ValueError("no such word")
        self.word = word

    def say(self, text: str) -> str:
        return f"{self.word} {text}"

    async def later(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    def fail(self) -> None:
        raise ValueError("this was asked for")

    def spin(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        pass


class Slow:
    """Takes long to make."""

    def __init__(self) -> None:
        time.sleep(60)


async def start(word: str = "hi") -> Child:
    child = Child("echo", Echo, word)
    await child.start()
    return child


async def test_calls_are_answered_in_their_own_time() -> None:
    child = await start()
    slow = asyncio.create_task(child.call("later", 0.3))
    assert await child.call("say", "you") == "hi you"
    assert not slow.done(), "a slow call must not hold up the others"
    assert await slow == 0.3
    with pytest.raises(ValueError, match="asked for") as caught:
        await child.call("fail")
    assert "in fail" in caught.value.__notes__[0], "the process's own traceback is kept"
    await child.close()
    await child.close()
    assert child.over.result() is None


async def test_a_service_that_cannot_be_made_is_the_starters_error() -> None:
    with pytest.raises(ValueError, match="no such word"):
        await start("refuse")


async def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    child = Child("echo", Slow)
    starting = asyncio.create_task(child.start())
    while child.pid is None:
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(ChildDied, match="SIGKILL"):
        await asyncio.wait_for(child.over, 10)


async def test_a_killed_process_fails_its_calls_and_says_how_it_ended() -> None:
    child = await start()
    waiting = asyncio.create_task(child.call("later", 60.0))
    await child.call("say", "you")
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDied, match="SIGKILL"):
        await waiting
    with pytest.raises(ChildDied, match="SIGKILL"):
        await child.call("say", "again")
    with pytest.raises(ChildDied):
        await child.over
    await child.close()


PARENT = """
import asyncio, sys
from tests.unit.trainer.test_child import Echo
from trainer.child import Child

async def main():
    child = Child("echo", Echo, "hi")
    await child.start()
    print(child.pid, flush=True)
    await child.call("spin", 60.0)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_the_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = str(Path(__file__).resolve().parents[3])
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root}
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while _alive(pid):
        assert time.monotonic() < deadline, "the process outlived its parent although it was busy"
        time.sleep(0.02)
    assert ORPHANED != 0


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
