"""Files through a hub's socket: whole, once, and in pieces, whatever happens to the connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import pytest

from sandbox import errors
from sandbox.desktop import DesktopSpec
from sandbox.hub import Hub, HubAddress, HubServer, RemoteHub, transfer
from tests.support.desktop import FakeBackend, FakeDesktop

TOKEN = "a token of the tests"
SPEC = DesktopSpec(width=160, height=120)
DATA = bytes(range(256)) * (3 << 12)
"""3 MiB: several pieces."""


class Relay:
    """Between client and hub; breaks the connection once, when so many bytes or answers of a connection have passed."""

    def __init__(self, address: str) -> None:
        self._host, self._port = address.rsplit(":", 1)
        self.cut_after_sent: int | None = None
        self.cut_after_answered: int | None = None
        self.answered = 0
        """Bytes that the newest connection had from the hub."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hub_reader, hub_writer = await asyncio.open_connection(self._host, int(self._port))

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, cut: str) -> None:
            passed = 0
            with contextlib.suppress(OSError):
                while data := await source.read(1 << 14):
                    passed += len(data)
                    if source is hub_reader:
                        self.answered = passed
                    limit: int | None = getattr(self, cut)
                    if limit is not None and passed > limit:
                        setattr(self, cut, None)
                        break
                    target.write(data)
                    await target.drain()
            writer.transport.abort()
            hub_writer.transport.abort()

        await asyncio.gather(
            pass_on(reader, hub_writer, "cut_after_sent"), pass_on(hub_reader, writer, "cut_after_answered")
        )


class Bench:
    def __init__(self, desktop: FakeDesktop, hub: RemoteHub, relay: Relay) -> None:
        self.desktop = desktop
        self.hub = hub
        self.relay = relay


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    desktop = FakeDesktop(spec=SPEC, files={"there": DATA})
    backend = FakeBackend(make=lambda spec: desktop)
    async with Hub(backend, capacity=1) as hub, HubServer(hub, token=TOKEN) as served:
        relay = Relay(served.address)
        listener = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
        host, port = listener.sockets[0].getsockname()
        async with listener, RemoteHub(HubAddress(host=host, port=port, token=TOKEN)) as far:
            yield Bench(desktop, far, relay)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(DATA)
    return path


@pytest.mark.parametrize("sent", [1 << 20, len(DATA) - 1])
async def test_an_upload_whose_connection_breaks_is_begun_again(bench: Bench, source: Path, sent: int) -> None:
    async with bench.hub.lease(SPEC) as lease:
        bench.relay.cut_after_sent = sent
        assert await lease.desktop.upload(source, "a", mode=0o600) == len(DATA)
        assert bench.relay.cut_after_sent is None
        (made,) = bench.desktop.calls("upload")
        assert (made["path"], made["mode"]) == ("a", 0o600)
        assert bench.desktop.files["a"] == DATA


async def test_an_upload_whose_answer_is_lost_is_not_made_again(bench: Bench, source: Path) -> None:
    async with bench.hub.lease(SPEC) as lease:
        await lease.desktop.upload(source, "first")
        bench.relay.cut_after_answered = bench.relay.answered - 1
        assert await lease.desktop.upload(source, "second") == len(DATA)
        assert bench.relay.cut_after_answered is None
        assert [made["path"] for made in bench.desktop.calls("upload")] == ["first", "second"]
        assert bench.desktop.files["second"] == DATA


async def test_a_download_whose_connection_breaks_is_begun_again(bench: Bench, tmp_path: Path) -> None:
    async with bench.hub.lease(SPEC) as lease:
        bench.relay.cut_after_answered = 1 << 20
        assert await lease.desktop.download("there", tmp_path / "target") == len(DATA)
        assert bench.relay.cut_after_answered is None
        assert (tmp_path / "target").read_bytes() == DATA
        assert [path.name for path in tmp_path.iterdir()] == ["target"]


async def test_an_empty_file_goes_either_way(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    async with bench.hub.lease(SPEC) as lease:
        assert await lease.desktop.upload(tmp_path / "empty", "a") == 0
        assert await lease.desktop.download("a", tmp_path / "back") == 0
        assert (tmp_path / "back").read_bytes() == b""


async def test_what_is_not_there_is_told_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    async with bench.hub.lease(SPEC) as lease:
        with pytest.raises(FileNotFoundError):
            await lease.desktop.download("nothing", tmp_path / "target")
        with pytest.raises(errors.FileRefused) as refused:
            await lease.desktop.upload(tmp_path / "nothing", "a")
        assert refused.value.kind == "unreadable"
        assert list(tmp_path.iterdir()) == []
        assert (await lease.desktop.health()).alive


async def test_a_hub_without_room_says_so_and_the_lease_goes_on(
    bench: Bench, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: IO[bytes], data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with bench.hub.lease(SPEC) as lease:
        with monkeypatch.context() as patched:
            patched.setattr(transfer, "_write", full)
            with pytest.raises(errors.FileRefused, match="the hub has no room") as refused:
                await lease.desktop.upload(source, "a")
        assert refused.value.kind == "no_space"
        assert bench.desktop.calls("upload") == []
        assert await lease.desktop.upload(source, "a") == len(DATA)


async def test_a_lease_that_is_over_passes_no_file(bench: Bench, source: Path) -> None:
    async with bench.hub.lease(SPEC) as lease:
        await lease.desktop.close()
        with pytest.raises(errors.LeaseExpired):
            await lease.desktop.upload(source, "a")
        with pytest.raises(errors.LeaseExpired):
            await lease.desktop.download("there", source)
        assert source.read_bytes() == DATA
