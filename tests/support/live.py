"""Short ways to use a real desktop in a test: run a line of shell or Python in it, start a program, find a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from sandbox.actions import Press, parse_action
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import Box, Desktop, User, Window

__all__ = [
    "FORK_BOMB",
    "act",
    "edit",
    "find_pid",
    "inner_pid",
    "kill",
    "python",
    "root_names",
    "run_json",
    "sh",
    "start",
    "typed",
    "wait_for",
]

POLL_S = 0.03
FORK_BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        time.sleep(0.001)
"""


async def sh(box: Box, command: str, *, user: User = "user", deadline_s: float = 30.0) -> str:
    """What a line of shell prints; the test fails when the line does."""
    result = await box.exec(["bash", "-c", command], user=user, deadline_s=deadline_s)
    assert result.ok, f"{command!r} ended with {result.exit_code}: {result.stderr.decode(errors='replace')}"
    return result.stdout.decode()


async def python(box: Box, source: str, *args: str, user: User = "user", deadline_s: float = 30.0) -> str:
    """What a Python program prints; the test fails when the program does."""
    result = await box.exec(["python3", "-c", source, *args], user=user, deadline_s=deadline_s)
    assert result.ok, f"the program ended with {result.exit_code}: {result.stderr.decode(errors='replace')}"
    return result.stdout.decode()


async def run_json(box: Box, source: str, *args: str, user: User = "user", deadline_s: float = 30.0) -> Any:
    """The JSON that a Python program prints."""
    return json.loads(await python(box, source, *args, user=user, deadline_s=deadline_s))


async def wait_for(what: str, check: Callable[[], Awaitable[Any]], *, timeout_s: float = 15.0) -> Any:
    """The first true answer of `check`; the test fails when none comes in time."""
    until = time.monotonic() + timeout_s
    while True:
        answer = await check()
        if answer:
            return answer
        assert time.monotonic() < until, f"waited {timeout_s:g} s in vain for {what}"
        await asyncio.sleep(POLL_S)


async def start(desktop: Desktop, argv: Sequence[str], app: str) -> Window:
    """Start a program and wait until its window is active and drawn."""
    await desktop.spawn(argv)

    async def active() -> Window | None:
        windows = (await desktop.observe(want=["windows"])).windows or ()
        return next((window for window in windows if window.app == app and window.active), None)

    window: Window = await wait_for(f"a window of {app}", active)
    await act(desktop, {"kind": "wait", "seconds": 0.2})
    return window


async def act(desktop: Desktop, *actions: dict[str, Any]) -> None:
    """Execute actions; the test fails when one is refused."""
    done = await desktop.step([parse_action(action) for action in actions], want=())
    assert all(result.ok for result in done.actions), done.actions


async def edit(desktop: Desktop, *actions: dict[str, Any], before: str = "") -> str:
    """Do actions in a fresh editor on a file and return what the file has after saving and closing it."""
    path = "edited.txt"
    await desktop.put_file(path, before.encode())
    await start(desktop, ["mousepad", path], "mousepad")
    await act(desktop, *actions)
    await desktop.step([Press(keys=("ctrl", "s"))], want=())
    await desktop.step([Press(keys=("ctrl", "q"))], want=())

    async def closed() -> bool:
        return not (await desktop.observe(want=["windows"])).windows

    await wait_for("the editor to save and close", closed)
    return (await desktop.get_file(path)).decode()


def find_pid(desktop: OwnedDesktop, role: str) -> int:
    """The pid on the host of the desktop's `spawner`, `xserver`, `probe`, or of the program with this name."""
    found = []
    for pid in desktop.cgroup.processes():
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            kind = Path(f"/proc/{pid}").stat().st_uid % 4
            inner = Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].split("\n")[0].split()
        except (OSError, IndexError):
            continue
        roles = {name}
        if inner[1:] == ["1"]:
            roles.add("spawner")
        elif name == "python3" and kind == 2:
            roles.add("probe")
        elif name == "Xvfb":
            roles.add("xserver")
        if role in roles:
            found.append(pid)
    assert found, f"the desktop has no {role}"
    return min(found)


def inner_pid(desktop: OwnedDesktop, role: str) -> int:
    """The pid inside the desktop of one of its own processes (see `find_pid`)."""
    status = Path(f"/proc/{find_pid(desktop, role)}/status").read_text()
    return int(status.split("NSpid:")[1].split("\n")[0].split()[-1])


async def kill(desktop: OwnedDesktop, role: str) -> None:
    """Kill one of the desktop's processes (see `find_pid`) from the host, and wait until it is gone."""
    pid = find_pid(desktop, role)
    os.kill(pid, signal.SIGKILL)

    async def gone() -> bool:
        return not Path(f"/proc/{pid}").exists()

    await wait_for(f"the {role} to end", gone)


async def root_names(desktop: Desktop, *, deadline_s: float = 10.0) -> set[str]:
    """The names of the applications in the accessibility tree."""
    tree = (await desktop.observe(want=["a11y"], deadline_s=deadline_s)).a11y
    assert tree is not None
    return {node.name for node in tree}


def typed(text: str) -> dict[str, Any]:
    """The action that types a text."""
    return {"kind": "type", "text": text}
