"""Files in and out of a desktop: any name, whole or not at all."""

from __future__ import annotations

import os

import pytest

from sandbox import errors
from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from tests.support.backends import DesktopBackend
from tests.support.live import sh

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
    with pytest.raises(errors.BadRequest, match="has 10 bytes; the limit is 9"):
        await shared.get_file("ten", max_bytes=9)


@pytest.mark.parametrize("path", ["/etc/refused", "/home/user", "/proc/refused", "file-in-the-way/x", "n" * 256])
async def test_a_file_that_cannot_be_written_is_refused_and_the_connection_stays_good(
    shared: OwnedDesktop, path: str
) -> None:
    await shared.put_file("file-in-the-way", b"")
    with pytest.raises(errors.BadRequest):
        await shared.put_file(path, b"x" * 3_000_000)
    await shared.put_file("after", b"fine")
    assert await shared.get_file("after") == b"fine"


async def test_on_a_full_disk_a_file_is_whole_or_not_there(backend: DesktopBackend) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240, disk_mb=24))
    try:
        await desktop.put_file("old", b"old content")
        with pytest.raises(errors.BadRequest, match="No space left"):
            await desktop.put_file("old", b"y" * (40 << 20))
        with pytest.raises(errors.BadRequest, match="No space left"):
            await desktop.put_file("new", b"y" * (40 << 20))
        assert await sh(desktop, "ls -A | grep -E 'new|frontdesk' || true") == ""
        assert await desktop.get_file("old") == b"old content"
        await desktop.put_file("fits", b"y" * (8 << 20))
        # The desktop fills its own disk; the probe still looks and runs commands.
        await desktop.exec(["bash", "-c", "cat /dev/zero > filler"])
        assert (await desktop.observe()).frame is not None
        assert await sh(desktop, "rm filler; echo room > small; cat small") == "room\n"
    finally:
        await desktop.close()
