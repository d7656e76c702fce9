"""A port of the host that leads to a port of the desktop: bytes both ways, ends, many at once, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from sandbox.forward import Forward
from sandbox.hub import Hub
from tests.support.backends import DesktopBackend
from tests.support.live import find_pid, kill, python, sh, wait_for

pytestmark = pytest.mark.desktop

ECHO, SINK, FLOOD, RUDE = 7001, 7002, 7003, 7004
SERVERS = f"""
import socket, threading, time
def echo(c):
    while data := c.recv(65536): c.sendall(data)
    c.sendall(b"<end>"); c.close()
def sink(c):
    time.sleep(3600)
def flood(c):
    try:
        while True: c.sendall(bytes(65536))
    except OSError: pass
def rude(c):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1,0,0,0,0,0,0,0])); c.close()
def serve(port, handle):
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    while True:
        c, _ = listener.accept()
        threading.Thread(target=handle, args=(c,), daemon=True).start()
for port, handle in (({ECHO}, echo), ({SINK}, sink), ({FLOOD}, flood)):
    threading.Thread(target=serve, args=(port, handle)).start()
serve({RUDE}, rude)
"""


@pytest.fixture(scope="module")
async def serving(backend: DesktopBackend) -> AsyncIterator[OwnedDesktop]:
    """A desktop in which programs of the user listen on its loopback."""
    desktop = await backend.boot(DesktopSpec(width=320, height=240))
    try:
        await desktop.spawn(["python3", "-c", SERVERS])

        async def listening() -> bool:
            return (await sh(desktop, "cat /proc/net/tcp")).count(" 0A ") >= 4

        await wait_for("the servers to listen", listening)
        yield desktop
    finally:
        await desktop.close()


async def _say(forward: Forward, data: bytes) -> bytes:
    """What a server answers to something that then ends."""
    reader, writer = await asyncio.open_connection(forward.host, forward.port)
    try:
        writer.write(data)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_bytes_pass_both_ways_and_an_end_is_passed_on(serving: OwnedDesktop) -> None:
    async with serving.forward(ECHO) as forward:
        reader, writer = await asyncio.open_connection(forward.host, forward.port)
        for word in (b"one", b"\x00\xff", b"three"):
            writer.write(word)
            assert await reader.readexactly(len(word)) == word
        writer.write_eof()
        assert await reader.read() == b"<end>"
        writer.close()
        assert await _say(forward, b"") == b"<end>"
        assert forward.last_error is None


async def test_megabytes_pass_unchanged(serving: OwnedDesktop) -> None:
    data = os.urandom(4 << 20)
    async with serving.forward(ECHO) as forward:
        reader, writer = await asyncio.open_connection(forward.host, forward.port)

        async def send() -> None:
            for at in range(0, len(data), 1 << 16):
                writer.write(data[at : at + (1 << 16)])
                await writer.drain()
            writer.write_eof()

        sending = asyncio.create_task(send())
        assert await asyncio.wait_for(reader.read(), 60) == data + b"<end>"
        await sending
        writer.close()


async def test_many_connections_are_kept_apart(serving: OwnedDesktop) -> None:
    words = [f"connection {number}".encode() * 50 for number in range(120)]
    async with serving.forward(ECHO) as forward:
        answers = await asyncio.gather(*(_say_or_reset(forward, word) for word in words))
        assert forward.last_error is None
        assert answers == [word + b"<end>" for word in words]
    assert (await serving.health()).detail["probe_restarts"] == "0"


async def test_who_does_not_read_is_waited_for_in_little_memory(serving: OwnedDesktop) -> None:
    def peak_kb() -> int:
        status = Path(f"/proc/{find_pid(serving, 'probe')}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    before = peak_kb()
    async with serving.forward(FLOOD) as flood, serving.forward(SINK) as sink:
        _, flooded = await asyncio.open_connection(flood.host, flood.port, limit=1 << 16)
        _, sinking = await asyncio.open_connection(sink.host, sink.port)
        sent = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                while sent < 64 << 20:
                    sinking.write(bytes(1 << 16))
                    await sinking.drain()
                    sent += 1 << 16
        assert 1 << 16 <= sent < 64 << 20
        # Neither holds up another connection, nor the probe.
        async with serving.forward(ECHO) as forward:
            assert await _say(forward, b"beside") == b"beside<end>"
        assert (await serving.observe()).frame is not None
        flooded.transport.abort()
        sinking.transport.abort()
    assert peak_kb() - before < 30_000


async def test_a_port_where_nobody_listens_is_told(serving: OwnedDesktop) -> None:
    async with serving.forward(7999) as forward:
        assert await _say_or_reset(forward) == b""
        assert isinstance(forward.last_error, errors.Unavailable)
        assert str(forward.last_error) == "nothing listens on port 7999 of the desktop"
    for port in (0, -1, 65536):
        async with serving.forward(port) as forward:
            assert await _say_or_reset(forward) == b""
            assert isinstance(forward.last_error, errors.BadRequest)


async def _say_or_reset(forward: Forward, data: bytes = b"hello") -> bytes:
    try:
        return await _say(forward, data)
    except ConnectionError:
        return b""


async def test_a_connection_that_the_desktop_breaks_ends(serving: OwnedDesktop) -> None:
    async with serving.forward(RUDE) as forward:
        assert await _say_or_reset(forward) == b""
    assert (await serving.health()).detail["probe_restarts"] == "0"


async def test_it_ends_with_its_block(serving: OwnedDesktop) -> None:
    async with serving.forward(ECHO) as forward:
        reader, writer = await asyncio.open_connection(forward.host, forward.port)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(forward.host, forward.port)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.transport.abort()


async def test_it_ends_with_the_desktop(backend: DesktopBackend) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240))
    await desktop.spawn(["python3", "-m", "http.server", "--bind", "127.0.0.1", "7005"])
    async with desktop.forward(7005) as forward:

        async def served() -> bool:
            return b"HTTP/1.0 200" in await _get(forward)

        await wait_for("the server", served)
        await desktop.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(forward.host, forward.port)


async def _get(forward: Forward) -> bytes:
    try:
        return await _say(forward, b"GET / HTTP/1.0\r\n\r\n")
    except ConnectionError:
        return b""


async def test_a_probe_that_dies_ends_its_connections_and_the_next_one_serves(backend: DesktopBackend) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240))
    try:
        await desktop.spawn(["python3", "-m", "http.server", "--bind", "127.0.0.1", "7005"])
        async with desktop.forward(7005) as forward:

            async def served() -> bool:
                return b"HTTP/1.0 200" in await _get(forward)

            await wait_for("the server", served)
            reader, writer = await asyncio.open_connection(forward.host, forward.port)
            writer.write(b"GET")
            await asyncio.sleep(0.2)
            await kill(desktop, "probe")
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.transport.abort()
            await wait_for("the next probe", served)
    finally:
        await desktop.close()


async def test_without_a_network_there_is_no_loopback_to_reach(backend: DesktopBackend) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240, network="none"))
    try:
        await desktop.spawn(["python3", "-m", "http.server", "--bind", "0.0.0.0", "7005"])
        async with desktop.forward(7005) as forward:
            assert await _say_or_reset(forward) == b""
            assert isinstance(forward.last_error, errors.Unavailable)
            assert "its network is `none`" in str(forward.last_error)
    finally:
        await desktop.close()


async def test_only_its_own_user_may_use_it(serving: OwnedDesktop) -> None:
    speak = (
        "import encodings.idna, os, socket, sys\n"  # while its files can be read
        "if len(sys.argv) > 2: os.setresuid(65534, 65534, 65534)\n"
        "c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "try:\n"
        "    c.sendall(b'spoken'); c.shutdown(socket.SHUT_WR)\n"
        "    print(c.makefile('rb').read())\n"
        "except OSError: print(b'')\n"
    )

    def run(*argv: str) -> str:
        return subprocess.run([sys.executable, "-c", speak, *argv], capture_output=True, text=True, check=True).stdout

    async with serving.forward(ECHO) as forward:
        assert await asyncio.to_thread(run, str(forward.port), "as nobody") == "b''\n"
        assert await asyncio.to_thread(run, str(forward.port)) == "b'spoken<end>'\n"
        # Who sends and is gone at once has no user any more.
        with socket.create_connection((forward.host, forward.port)) as hasty:
            hasty.sendall(b"x")
    assert forward.last_error is None


async def test_the_desktop_gains_nothing_by_it(serving: OwnedDesktop) -> None:
    """Its programs reach neither the host's port nor the probe's end of a connection."""
    async with serving.forward(SINK) as forward:
        _, writer = await asyncio.open_connection(forward.host, forward.port)
        await asyncio.sleep(0.2)
        reach = (
            "import socket, sys\n"
            "try: socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)\n"
            "except OSError as error: print(error.errno)"
        )
        assert await python(serving, reach, str(forward.port)) == "111\n"
        seen = await sh(
            serving, "for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null; done | grep -c ctl/probe.sock || true"
        )
        assert seen == "0\n"
        writer.transport.abort()


async def test_a_lease_that_is_over_ends_its_forwards(backend: DesktopBackend) -> None:
    async with Hub(backend, capacity=1, close_backend=False) as hub, contextlib.AsyncExitStack() as opened:
        lease = await opened.enter_async_context(hub.lease(DesktopSpec(width=320, height=240)))
        await lease.desktop.spawn(["python3", "-m", "http.server", "--bind", "127.0.0.1", "7005"])
        forward = await opened.enter_async_context(lease.desktop.forward(7005))

        async def served() -> bool:
            return b"HTTP/1.0 200" in await _get(forward)

        await wait_for("the server", served)
        newer = await hub.renew(lease, fence=True)
        assert await _get(forward) == b""
        with pytest.raises(errors.LeaseExpired):
            await opened.enter_async_context(lease.desktop.forward(7005))
        again = await opened.enter_async_context(newer.desktop.forward(7005))
        assert b"HTTP/1.0 200" in await _get(again)
        await hub.release(newer)
        await asyncio.sleep(0)
        assert await _get(again) == b""
