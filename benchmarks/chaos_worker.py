"""The workers of `benchmarks/chaos.py`: a process that runs several, each with connections and leases of its own.

A worker borrows a desktop, plants a secret in its files, its window's title and its window's colour, and does things
that leave a mark each: typed into the window, or by a command. Its connections misbehave on purpose: requests are sent
twice at once, sent again after later ones, cut off before the answer, sent and read slowly. In every fifth lease the
worker vanishes in the middle of a call. What it did and saw goes to a journal, line by line, so that a killed process
still tells all that it was told.

Run as `python -m benchmarks.chaos_worker` with an `Order` as JSON on standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from sandbox.actions import TypeText
from sandbox.desktop import DesktopSpec, Observation
from sandbox.errors import BadRequest, DeadlineExceeded, DesktopError, HubLost, LeaseExpired, SandboxError
from sandbox.hub.link import Connection, HubAddress, Link
from sandbox.hub.messages import Message
from sandbox.hub.remote import RemoteHub, RemoteLease
from sandbox.hub.remote_desktop import RemoteDesktop
from sandbox.probe import wire

__all__ = ["ALIVE_S", "LEDGER", "SPEC", "Order", "main"]

ALIVE_S = 10.0
DIES = 0.2
"""Share of leases whose worker vanishes."""
LEDGER = "/home/user/ledger"
"""Where every mark ends, in the desktop."""
SPEC = DesktopSpec(width=480, height=360, memory_mb=512, disk_mb=128)
CENTRE = (SPEC.height // 2 * SPEC.width + SPEC.width // 2) * 3
PAD = f"""
import os, sys
from Xlib import X, XK, display
names = {{XK.string_to_keysym(c): c for c in "abcdefghijklmnopqrstuvwxyz0123456789"}}
names[XK.string_to_keysym("semicolon")] = ";"
ledger = os.open("{LEDGER}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
d = display.Display()
screen = d.screen()
events = X.KeyPressMask | X.StructureNotifyMask
window = screen.root.create_window(
    40, 40, 400, 280, 0, screen.root_depth, background_pixel=int(sys.argv[2], 16), event_mask=events)
window.set_wm_name(sys.argv[1])
window.map()
while True:
    event = d.next_event()
    if event.type == X.KeyPress:
        symbol = d.keycode_to_keysym(event.detail, 1 if event.state & X.ShiftMask else 0)
        os.write(ledger, names.get(symbol, "?").encode())
"""


class Order(BaseModel):
    """What a process of workers is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    token: str
    workers: tuple[int, ...]
    seed: int
    until: float
    """Seconds since the epoch; no lease begins later."""
    journal: Path


class Vanished(Exception):
    """This worker is gone without a word."""


class Journal:
    """Lines that are there as soon as they are written, whatever kills the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(self, event: str, **facts: Any) -> None:
        """Write one line."""
        os.write(self._file, (json.dumps({"event": event, **facts}) + "\n").encode())


class StormLink(Link):
    """Connections that misbehave on calls with an effect."""

    def __init__(self, address: HubAddress, rng: random.Random, journal: Journal) -> None:
        super().__init__(address, patience_s=ALIVE_S)
        self.gone = False
        self.troubles: set[str] = set()
        """What befell the last such call in all its attempts: it was `cut`, `slow`, sent `twice`, or held up by a
        `late` repetition of the one before. Empty when it was simply sent and answered."""
        self._rng = rng
        self._journal = journal
        self._kept: tuple[Message, tuple[bytes, ...], Message] | None = None

    async def ask(
        self, message: Message, body: Sequence[bytes] = (), *, deadline_s: float, effect: bool = False
    ) -> tuple[Message, bytes]:
        if self.gone:
            raise HubLost("this worker is gone")
        if message.get("number") is not None:
            self.troubles = set()
        return await super().ask(message, body, deadline_s=deadline_s, effect=effect)

    async def exchange(self, connection: Connection, message: Message, body: Sequence[bytes]) -> tuple[Message, bytes]:
        if message.get("number") is None:
            return await super().exchange(connection, message, body)
        draw = self._rng.random()
        if draw < 0.12:
            return await self._twice(connection, message, body)
        if draw < 0.22:
            await self._cut(connection, message, body)
        if draw < 0.32:
            return await self._slowly(connection, message, body)
        answer = await super().exchange(connection, message, body)
        if self._kept is not None:
            late, self._kept = self._kept, None
            self.troubles.add("late")
            await self._repeat("late", *late)
        elif draw < 0.44:
            self._kept = message, tuple(body), answer[0]
        return answer

    async def _twice(self, connection: Connection, message: Message, body: Sequence[bytes]) -> tuple[Message, bytes]:
        self.troubles.add("twice")
        second = asyncio.create_task(self._again(message, body))
        try:
            answer = await super().exchange(connection, message, body)
        finally:
            await asyncio.gather(second, return_exceptions=True)
        self._compare("twice", message, answer[0], second)
        return answer

    async def _repeat(self, how: str, message: Message, body: Sequence[bytes], first: Message) -> None:
        second = asyncio.create_task(self._again(message, body))
        await asyncio.gather(second, return_exceptions=True)
        self._compare(how, message, first, second)

    async def _again(self, message: Message, body: Sequence[bytes]) -> tuple[Message, bytes]:
        connection = await self.connect()
        try:
            return await super().exchange(connection, message, body)
        finally:
            connection[1].transport.abort()

    def _compare(self, how: str, message: Message, first: Message, second: asyncio.Task[tuple[Message, bytes]]) -> None:
        if second.cancelled() or second.exception() is not None:
            return  # its connection broke
        other = second.result()[0]
        said = other["error"]["type"] if "error" in other else "answer"
        same = "error" in other or "error" in first or other["result"]["answer"] == first["result"]["answer"]
        self._journal.tell("repeated", how=how, lease=message["lease"], said=said, same=same)

    async def _cut(self, connection: Connection, message: Message, body: Sequence[bytes]) -> None:
        """Break the connection before the answer comes; the call goes out again on another."""
        self.troubles.add("cut")
        with contextlib.suppress(TimeoutError, OSError, EOFError):
            async with asyncio.timeout(self._rng.uniform(0, 0.15)):
                await super().exchange(connection, message, body)
        self._journal.tell("cut", lease=message["lease"])
        raise ConnectionResetError("cut off")

    async def _slowly(self, connection: Connection, message: Message, body: Sequence[bytes]) -> tuple[Message, bytes]:
        self.troubles.add("slow")
        data = wire.encode(message, sum(map(len, body)))
        for piece in (data[: len(data) // 2], data[len(data) // 2 :], *body):
            connection[1].write(piece)
            await connection[1].drain()
            await asyncio.sleep(self._rng.uniform(0, 0.2))
        await asyncio.sleep(self._rng.uniform(0, 0.5))  # the answer waits in the hub's and the kernel's buffers
        self._journal.tell("slow", lease=message["lease"])
        return await _read(connection)


async def _read(connection: Connection) -> tuple[Message, bytes]:
    reader, _ = connection
    json_length, body_length = wire.decode_header(await reader.readexactly(wire.HEADER.size))
    answer: Message = json.loads(await reader.readexactly(json_length))
    return answer, await reader.readexactly(body_length)


class Visit:
    """One lease of one worker."""

    def __init__(self, lease: RemoteLease, link: StormLink, rng: random.Random, journal: Journal) -> None:
        assert isinstance(lease.desktop, RemoteDesktop)
        self._desktop = lease.desktop
        self._lease = lease
        self._link = link
        self._rng = rng
        self._journal = journal
        self._secret = f"{rng.getrandbits(40):010x}"
        self._colour = f"{rng.getrandbits(24):06x}"

    async def run(self) -> None:
        """Look for others' traces, plant our own, act."""
        self._journal.tell("lease", lease=self._lease.id, secret=self._secret, colour=self._colour)
        await self._look_around()
        for path in ("/home/user/secret", "/tmp/secret"):
            await self._desktop.put_file(path, self._secret.encode())
        await self._desktop.put_file("/home/user/pad.py", PAD.encode())
        await self._desktop.spawn(["python3", "/home/user/pad.py", self._secret, self._colour])
        await self._await_window()
        num_steps = self._rng.randrange(4, 10)
        dies_at = self._rng.randrange(num_steps) if self._rng.random() < DIES else None
        for number in range(num_steps):
            mark = f"{'t' if self._rng.random() < 0.7 else 'x'}{self._secret}{number:02d};"
            self._journal.tell("mark", lease=self._lease.id, mark=mark)
            act = asyncio.create_task(self._act(mark))
            if number == dies_at:
                await asyncio.wait({act}, timeout=self._rng.uniform(0, 0.3))
                self._link.gone = True
                act.cancel()
                await asyncio.gather(act, return_exceptions=True)
                raise Vanished
            await act
            await asyncio.sleep(self._rng.uniform(0, 0.4))
        await self._look_around()

    async def _look_around(self) -> None:
        listed = await self._desktop.exec(
            ["sh", "-c", "cat /home/user/secret /tmp/secret /home/user/ledger 2>/dev/null; ls -A /home/user /tmp"]
        )
        self._journal.tell("files", lease=self._lease.id, text=listed.stdout.decode(errors="replace"))
        self._saw(await self._desktop.observe(("frame", "windows")))

    async def _await_window(self) -> None:
        for _ in range(100):
            seen = await self._desktop.observe(("frame", "windows"))
            self._saw(seen)
            if any(window.title == self._secret and window.active for window in seen.windows or ()):
                return
            await asyncio.sleep(0.1)
        raise DeadlineExceeded("the window did not appear")

    async def _act(self, mark: str) -> None:
        try:
            if mark.startswith("t"):
                result = await self._desktop.step((TypeText(text=mark),), want=("frame", "windows"))
                said = "done" if all(action.ok for action in result.actions) else "unknown"
                self._saw(result.observation)
            else:
                ended = await self._desktop.exec(["sh", "-c", f"printf '{mark}' >> {LEDGER}"])
                said = "done" if ended.ok else "unknown"
        except (LeaseExpired, BadRequest, HubLost, DeadlineExceeded) as error:
            said = "unknown" if getattr(error, "phase", "infra") == "unknown" else "nothing"
            self._said(mark, said, error)
            raise
        except DesktopError as error:
            self._said(mark, "unknown", error)
            raise
        self._said(mark, said, None)
        self._journal.tell("overhead", ms=self._desktop.hub_s * 1000, troubles=sorted(self._link.troubles))

    def _said(self, mark: str, said: str, error: Exception | None) -> None:
        why = None if error is None else f"{type(error).__name__}: {error}"
        self._journal.tell("said", lease=self._lease.id, mark=mark, said=said, why=why)

    def _saw(self, seen: Observation) -> None:
        assert seen.frame is not None
        colour = seen.frame.pixels[CENTRE : CENTRE + 3].hex()
        titles = [window.title for window in seen.windows or ()]
        self._journal.tell("saw", lease=self._lease.id, colour=colour, titles=titles)


async def _work(order: Order, worker: int, journal: Journal) -> None:
    rng = random.Random(f"{order.seed} {worker} {os.getpid()}")
    address = HubAddress.parse(order.address, order.token)
    while time.time() < order.until:
        link = StormLink(address, rng, journal)
        try:
            async with RemoteHub(address, alive_s=ALIVE_S, link=link) as hub:
                lease = await hub.acquire(SPEC, ttl_s=300, priority=rng.randrange(3), deadline_s=60)
                try:
                    await Visit(lease, link, rng, journal).run()
                finally:
                    await hub.release(lease)
        except Vanished:
            journal.tell("vanished", worker=worker)
        except SandboxError as error:
            journal.tell("failed", worker=worker, type=type(error).__name__, why=str(error))
            await asyncio.sleep(rng.uniform(0, 0.5))


async def main() -> None:
    """Run the workers of one process until their time is over."""
    order = Order.model_validate_json(sys.stdin.read())
    journal = Journal(order.journal)
    journal.tell("process", workers=len(order.workers))
    async with asyncio.TaskGroup() as group:
        for worker in order.workers:
            group.create_task(_work(order, worker, journal))


if __name__ == "__main__":
    asyncio.run(main())
