"""Files in and out of a desktop: any name, whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from sandbox import errors, streams
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from tests.support.backends import DesktopBackend
from tests.support.live import sh, wait_for

pytestmark = pytest.mark.desktop

NAMES = [
    "with space",
    "two\nlines\n",
    "tab\there",
    "'single' \"double\" `back` $HOME \\",
    "-rf",
    ".hidden",
    "*?[a]",
    "é中文😀",
    os.fsdecode(b"not utf-8 \xff\xfe"),
    "n" * 255,
    "deep/er/and/deeper/file",
    "@",
]


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name)[:20] for name in NAMES])
async def test_any_name_serves(shared: OwnedDesktop, name: str) -> None:
    data = name.encode("utf-8", "surrogateescape") * 3
    await shared.put_file(f"names/{name}", data)
    assert await shared.get_file(f"/home/user/names/{name}") == data
    listed = await shared.exec(["find", "names", "-type", "f", "-print0"])
    assert b"names/" + os.fsencode(name) in listed.stdout.split(b"\0")
    await sh(shared, "rm -r names")


async def test_a_file_has_its_mode_and_owner(shared: OwnedDesktop) -> None:
    await shared.put_file("script", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert await sh(shared, "./script; stat -c '%a %U' script") == "ran\n755 user\n"
    await shared.put_file("/etc/frontdesk.conf", b"x", user="root", mode=0o600)
    assert await sh(shared, "stat -c '%a %U' /etc/frontdesk.conf") == "600 root\n"


async def test_a_file_is_replaced_and_an_empty_one_is_a_file(shared: OwnedDesktop) -> None:
    await shared.put_file("same", b"long content")
    await shared.put_file("same", b"")
    assert await shared.get_file("same") == b""
    assert await sh(shared, "ls -A | grep frontdesk || true") == ""  # nothing temporary is left


@pytest.mark.parametrize("path", ["nothing", "/nothing/at/all", "names.txt/below", "/etc/passwd/below"])
async def test_a_missing_file_is_not_found(shared: OwnedDesktop, path: str) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        await shared.get_file(path)


async def test_a_file_over_the_limit_is_refused(shared: OwnedDesktop) -> None:
    await shared.put_file("ten", b"0123456789")
    assert await shared.get_file("ten", max_bytes=10) == b"0123456789"
    with pytest.raises(errors.FileRefused, match="has 10 bytes; the limit is 9") as refused:
        await shared.get_file("ten", max_bytes=9)
    assert refused.value.kind == "too_large"


@pytest.mark.parametrize("path", ["/etc/refused", "/home/user", "/proc/refused", "file-in-the-way/x", "n" * 256])
async def test_a_file_that_cannot_be_written_is_refused_and_the_connection_stays_good(
    shared: OwnedDesktop, path: str
) -> None:
    await shared.put_file("file-in-the-way", b"")
    with pytest.raises(errors.BadRequest):
        await shared.put_file(path, b"x" * 3_000_000)
    await shared.put_file("after", b"fine")
    assert await shared.get_file("after") == b"fine"


async def test_on_a_full_disk_a_file_is_whole_or_not_there(backend: DesktopBackend, tmp_path: Path) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240, disk_mb=24))
    try:
        await desktop.put_file("old", b"old content")
        with pytest.raises(errors.FileRefused, match="No space left") as refused:
            await desktop.put_file("old", b"y" * (40 << 20))
        assert refused.value.kind == "no_space"
        with pytest.raises(errors.BadRequest, match="No space left"):
            await desktop.put_file("new", b"y" * (40 << 20))
        assert await sh(desktop, "ls -A | grep -E 'new|frontdesk' || true") == ""
        assert await desktop.get_file("old") == b"old content"
        # The disk is full long before the file ends, and that is told at once: its rest is not sent.
        vast = tmp_path / "vast"
        with vast.open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(errors.FileRefused, match="No space left"):
            await desktop.upload(vast, "vast", deadline_s=60)
        await desktop.put_file("fits", b"y" * (8 << 20))
        # The desktop fills its own disk; the probe still looks and runs commands.
        await desktop.exec(["bash", "-c", "cat /dev/zero > filler"])
        assert (await desktop.observe()).frame is not None
        assert await sh(desktop, "rm filler; echo room > small; cat small") == "room\n"
    finally:
        await desktop.close()


# -- between files of the host and of the desktop ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (5 << 20) + 3])
async def test_a_file_comes_back_as_it_went(shared: OwnedDesktop, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "out").write_bytes(data)
    (tmp_path / "back").write_bytes(b"something else")
    assert await shared.upload(tmp_path / "out", "through/-it\n", mode=0o640) == size
    assert await sh(shared, "stat -c '%a %s' through/*") == f"640 {size}\n"
    assert await shared.download("through/-it\n", tmp_path / "back") == size
    assert (tmp_path / "back").read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "out"]
    assert await sh(shared, "ls -A through; rm -r through") == "-it\n\n"


async def test_what_is_wrong_with_a_file_is_told(shared: OwnedDesktop, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"content")
    await sh(shared, "mkdir -p closed; echo secret > locked; chmod 0 locked closed")

    async def problem(transfer: object) -> str:
        assert asyncio.iscoroutine(transfer)
        with pytest.raises(errors.FileRefused) as refused:
            await transfer
        return refused.value.kind

    assert await problem(shared.upload(source, "/etc/refused")) == "denied"
    assert await problem(shared.upload(source, "closed/in/it")) == "denied"
    assert await problem(shared.upload(source, "/home")) in ("denied", "unwritable")
    assert await problem(shared.upload(tmp_path / "nothing", "x")) == "unreadable"
    assert await problem(shared.upload(tmp_path, "x")) == "unreadable"
    assert await problem(shared.download("locked", target)) == "denied"
    assert await problem(shared.download("Documents", target)) == "unreadable"
    assert await problem(shared.download("/etc/passwd", target, max_bytes=3)) == "too_large"
    assert await problem(shared.download("/etc/passwd", tmp_path / "no" / "such" / "folder")) == "unwritable"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        await shared.download("nothing", target)
    assert list(tmp_path.iterdir()) == [source]
    assert await sh(shared, "ls x 2>/dev/null || true") == ""


async def test_a_file_that_changes_while_it_is_read_is_refused(shared: OwnedDesktop, tmp_path: Path) -> None:
    await sh(shared, "head -c 30000000 /dev/zero > whole; cp whole shrinks; cp whole grows; cp whole written")
    changes = {"shrinks": "truncate -s 9 shrinks", "grows": "echo x >> grows", "written": "echo x 1<> written"}

    class Changing(streams.BytesSink):
        """Changes the file once its first bytes are here."""

        def __init__(self, change: str) -> None:
            super().__init__()
            self.change = change

        async def write(self, data: bytes) -> None:
            await super().write(data)
            change, self.change = self.change, ""
            if change:
                await sh(shared, change)

    async def fetch(path: str, change: str) -> bytes:
        sink = Changing(change)
        await streams.receive_file(shared._client, path, sink, max_bytes=1 << 30, deadline_s=30)
        return sink.data()

    for path, change in changes.items():
        with pytest.raises(errors.FileRefused) as refused:
            await fetch(path, change)
        assert refused.value.kind == "changed", path
    assert await fetch("whole", "echo x > other") == bytes(30_000_000)
    # And the same of the host's own files: nothing arrives.
    source = tmp_path / "source"
    source.write_bytes(bytes(3 << 20))
    with streams.FileSource(source) as opened:
        source.write_bytes(bytes(3 << 20))
        os.utime(source, ns=(1, 1))
        with pytest.raises(errors.FileRefused, match="changed while it was read"):
            await streams.send_file(shared._client, "arrived", opened, user="user", mode=0o644, deadline_s=30)
    assert await sh(shared, "ls -A | grep -E 'arrived|frontdesk' || true; rm -f whole shrinks grows written") == ""


async def test_a_transfer_ends_at_its_deadline_and_leaves_nothing(shared: OwnedDesktop, tmp_path: Path) -> None:
    class Stalling(streams.BytesSource):
        """Sends a part and then nothing."""

        async def read(self, count: int) -> bytes:
            await asyncio.sleep(30 if self._data.tell() else 0)
            return await super().read(count)

    source = Stalling(bytes(3 << 20))
    with pytest.raises(errors.DeadlineExceeded):
        await streams.send_file(shared._client, "stalled", source, user="user", mode=0o644, deadline_s=0.5)

    async def gone() -> bool:
        return not await sh(shared, "ls -A | grep -E 'stalled|frontdesk' || true")

    await wait_for("what arrived to go", gone)
    # Whoever stops reading is given up just as well.
    await sh(shared, "head -c 30000000 /dev/zero > whole")

    class Full(streams.BytesSink):
        async def write(self, data: bytes) -> None:
            await asyncio.sleep(30)

    with pytest.raises(errors.DeadlineExceeded):
        await streams.receive_file(shared._client, "whole", Full(), max_bytes=1 << 30, deadline_s=0.5)
    assert hashlib.sha256(await shared.get_file("whole")).digest() == hashlib.sha256(bytes(30_000_000)).digest()
    await sh(shared, "rm whole")
