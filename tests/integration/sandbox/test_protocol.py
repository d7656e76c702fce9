"""The probe's protocol as a stranger speaks it: what is refused, what runs once, and that nothing ends the probe."""

from __future__ import annotations

import asyncio
import json
import random
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

from sandbox import errors
from sandbox.actions import TypeText
from sandbox.backends.local import LocalDesktop
from sandbox.client import ProbeAddress, ProbeClient
from sandbox.probe import wire
from sandbox.probe_desktop import ProbeDesktop
from tests.support.live import act, find_pid, sh, start

pytestmark = pytest.mark.desktop


class Raw:
    """One connection to a probe, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, desktop: LocalDesktop) -> Raw:
        return cls(*await asyncio.open_unix_connection(str(desktop.address.socket)))

    async def ask(self, message: Any, body: bytes = b"") -> dict[str, Any]:
        """Send any JSON and return the answer's JSON, its body left out."""
        data = json.dumps(message).encode()
        self.writer.write(wire.HEADER.pack(len(data), len(body)) + data + body)
        json_length, body_length = wire.decode_header(await self.reader.readexactly(wire.HEADER.size))
        answer: dict[str, Any] = json.loads(await self.reader.readexactly(json_length))
        await self.reader.readexactly(body_length)
        return answer

    async def hung_up(self) -> bool:
        """Whether the probe closed the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(1), 5) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.transport.abort()


def request(desktop: LocalDesktop, op: str = "health", **changes: Any) -> dict[str, Any]:
    """A good request, with changes."""
    good = {
        "v": wire.VERSION,
        "token": desktop.address.token,
        "epoch": 1,
        "id": uuid.uuid4().hex,
        "op": op,
        "deadline_ms": 5000,
    }
    return {**good, "args": {}, **changes}


async def _probe_is_well(desktop: LocalDesktop) -> None:
    assert (await desktop.health()).detail["probe_restarts"] == "0"
    assert (await desktop.observe()).frame is not None


async def test_a_wrong_token_gets_nothing(shared: LocalDesktop) -> None:
    for token in ("", "0" * 32, shared.address.token[:-1], shared.address.token + "0", "é", None, 5, ["x"]):
        raw = await Raw.open(shared)
        touch: dict[str, Any] = {"argv": ["touch", "wrong"], "user": "user", "cwd": None, "env": {}, "max_output": 10}
        answer = await raw.ask(request(shared, "exec", token=token, args=touch), body=b"x" * 100_000)
        assert answer["error"]["type"] == "BadRequest"
        # The body of what was refused is out of the way of the next request.
        assert "result" in await raw.ask(request(shared))
        raw.close()
    assert await sh(shared, "ls wrong 2>/dev/null || true") == ""
    stranger = ProbeDesktop("x", shared.spec, "", ProbeClient(ProbeAddress(socket=shared.address.socket, token="x")))
    with pytest.raises(errors.BadRequest, match="the token is wrong"):
        await stranger.observe()
    await stranger.close()


async def test_an_epoch_that_is_over_is_refused(desktop: LocalDesktop) -> None:
    raw = await Raw.open(desktop)
    assert "result" in await raw.ask(request(desktop, epoch=5))
    late = await raw.ask(request(desktop, epoch=4))
    assert (late["error"]["type"], late["error"]["message"]) == (
        "LeaseExpired",
        "epoch 4 is over; the desktop is at 5",
    )
    assert "result" in await raw.ask(request(desktop, epoch=5))
    raw.close()
    with pytest.raises(errors.LeaseExpired):
        await desktop.exec(["true"])


@pytest.mark.parametrize(
    "changes",
    [
        {"v": wire.VERSION + 1},
        {"v": wire.VERSION - 1},
        {"v": None},
        {"op": "nothing"},
        {"op": 5},
        {"epoch": "1"},
        {"epoch": None},
        {"deadline_ms": "soon"},
        {"op": "step", "args": None},
        {"op": "step", "args": [1]},
        {"op": "step", "args": {}},
        {"op": "step", "args": {"actions": 5, "settle": None, "want": [], "have": []}},
        {"op": "step", "args": {"actions": [5], "settle": None, "want": [], "have": []}},
        {"op": "step", "args": {"actions": [{"kind": "press", "keys": 7}], "settle": None, "want": [], "have": []}},
        {"op": "step", "args": {"actions": [{"kind": "type"}], "settle": {}, "want": [], "have": []}},
        {"op": "step", "args": {"actions": [], "settle": {"first_ms": "x"}, "want": [], "have": []}},
        {"op": "exec", "args": {"argv": 5, "user": "user", "cwd": None, "env": {}, "max_output": 1}},
        {"op": "exec", "args": {"argv": ["true"], "user": "nobody", "cwd": None, "env": {}, "max_output": 1}},
        {"op": "exec", "args": {"argv": ["true"], "user": "user", "cwd": 5, "env": {}, "max_output": 1}},
        {"op": "exec", "args": {"argv": ["true"], "user": "user", "cwd": None, "env": 5, "max_output": 1}},
        {"op": "exec", "args": {"argv": [1, 2], "user": "user", "cwd": None, "env": {}, "max_output": 1}},
        {"op": "exec", "args": {"argv": ["true"], "user": "user", "cwd": None, "env": {"a": 1}, "max_output": 1}},
        {"op": "read_file", "args": {"path": 5, "user": "user", "max_bytes": 1}},
        {"op": "write_file", "args": {"path": "x", "user": "user", "mode": "x"}},
        {"op": "write_file", "args": {}},
        {"op": "forward", "args": {}},
        {"op": "forward", "args": {"port": 0}},
        {"op": "forward", "args": {"port": 65536}},
        {"op": "forward", "args": {"port": "80"}},
        {"op": "forward", "args": {"port": True}},
        {"op": "collect", "args": {"requests": [{"type": "nothing", "name": "x"}]}},
        {"op": "collect", "args": {"requests": 5}},
        {
            "id": ["x"],
            "op": "exec",
            "args": {"argv": ["true"], "user": "user", "cwd": None, "env": {}, "max_output": 1},
        },
    ],
    ids=lambda changes: json.dumps(changes)[:60],
)
async def test_a_malformed_request_is_a_bad_request(shared: LocalDesktop, changes: dict[str, Any]) -> None:
    raw = await Raw.open(shared)
    answer = await asyncio.wait_for(raw.ask(request(shared, **changes), body=b"some body"), 5)
    assert answer["error"]["type"] == "BadRequest", answer
    assert "result" in await raw.ask(request(shared))
    raw.close()
    await _probe_is_well(shared)


async def test_bytes_that_are_no_request_end_the_connection_only(shared: LocalDesktop) -> None:
    noise = random.Random(7)
    header = wire.HEADER
    cases = [
        b"GET / HTTP/1.1\r\n\r\n" * 3,
        noise.randbytes(4096),
        b"\0" * 64,
        header.pack(wire.MAX_JSON + 1, 0),
        header.pack(0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF),
        header.pack(5, 0) + b"{nope",
        header.pack(2, 0) + b"[]",
        header.pack(4, 0) + b"\xff\xfe\xfd\xfc",
        header.pack(200_000, 0) + b"[" * 200_000,
    ]
    for case in cases:
        raw = await Raw.open(shared)
        raw.writer.write(case)
        assert await raw.hung_up(), case[:20]
        raw.close()
    # A request cut off in its header, its JSON or its body.
    data = json.dumps(request(shared)).encode()
    for cut in (header.pack(len(data), 9)[:5], header.pack(len(data), 9) + data[:9], header.pack(len(data), 9) + data):
        raw = await Raw.open(shared)
        raw.writer.write(cut)
        await raw.writer.drain()
        raw.close()
    await _probe_is_well(shared)


async def test_a_body_of_any_announced_length_takes_no_memory(shared: LocalDesktop) -> None:
    def peak_kb() -> int:
        return int(Path(f"/proc/{find_pid(shared, 'probe')}/status").read_text().split("VmPeak:")[1].split()[0])

    await _probe_is_well(shared)
    before = peak_kb()
    for length in (1 << 30, 1 << 62):
        raw = await Raw.open(shared)
        data = json.dumps(request(shared, token="x")).encode()
        raw.writer.write(struct.pack(">IQ", len(data), length) + data + b"x" * 10_000)
        await raw.writer.drain()
        await asyncio.sleep(0.1)
        raw.close()
    await _probe_is_well(shared)
    assert peak_kb() - before < 200_000


async def test_a_repeated_request_runs_once(desktop: LocalDesktop) -> None:
    await desktop.put_file("t.txt", b"")
    await start(desktop, ["mousepad", "t.txt"], "mousepad")
    actions = [TypeText(text="once ")]
    first = await desktop.step(actions, request_id="same", want=["frame"])
    again = await desktop.step(actions, request_id="same", want=["frame"])
    assert again == first
    together = await asyncio.gather(*(desktop.step(actions, request_id="together", want=()) for _ in range(6)))
    assert all(one == together[0] for one in together)
    await desktop.step(actions, request_id="other", want=())
    await act(desktop, {"kind": "press", "keys": ["ctrl", "s"]}, {"kind": "wait", "seconds": 0.3})
    assert await desktop.get_file("t.txt") == b"once once once "


async def test_a_repeated_command_runs_once(shared: LocalDesktop) -> None:
    args: dict[str, Any] = {
        "argv": ["bash", "-c", "echo x >> count; sleep 0.3; cat count"],
        "user": "user",
        "cwd": None,
        "env": {},
        "max_output": 100,
    }
    raws = [await Raw.open(shared) for _ in range(4)]
    answers = await asyncio.gather(*(raw.ask(request(shared, "exec", id="command", args=args)) for raw in raws))
    assert [answer["result"]["stdout_bytes"] for answer in answers] == [2] * 4
    for raw in raws:
        raw.close()
    for number in range(9):  # the answers of long ago are forgotten, what ran is not
        await shared._call("exec", {**args, "argv": ["true"]}, deadline_s=5, request_id=f"filler {number}")
    with pytest.raises(errors.BadRequest, match="executed"):
        await shared._call("exec", args, deadline_s=5, request_id="command")
    assert await sh(shared, "cat count; rm count") == "x\n"
