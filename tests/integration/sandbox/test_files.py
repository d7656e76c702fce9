"""Files in and out of a desktop: any name, any size, whole or not at all."""

from __future__ import annotations

import filecmp
import hashlib
import os
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from sandbox.hub import Hub, HubAddress, HubServer, RemoteHub
from sandbox.hub.transfer import SPOOL
from tests.support.live import find_pid, sh

pytestmark = pytest.mark.desktop


async def test_a_hundred_megabytes_pass_through_little_memory(backend: LocalBackend, tmp_path: Path) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240, memory_mb=1536, disk_mb=300))
    try:
        block = os.urandom(1 << 20)
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(block * 100)
        probe = find_pid(desktop, "probe")
        before, here = _peak_kb(probe), _peak_kb(os.getpid())
        await desktop.upload(source, "large")
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        assert (await sh(desktop, "sha256sum large")).split()[0] == digest
        assert await desktop.download("large", target) == 100 << 20
        with target.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest
        assert _peak_kb(probe) - before < 20_000
        assert _peak_kb(os.getpid()) - here < 40_000
        await desktop.put_file("large", block * 100)
        assert await desktop.get_file("large", max_bytes=200 << 20) == block * 100
        assert _peak_kb(probe) - before < 20_000
    finally:
        await desktop.close()


async def test_a_file_passes_through_a_hub_in_little_memory_and_leaves_nothing(
    backend: LocalBackend, tmp_path: Path
) -> None:
    spec = DesktopSpec(width=320, height=240, memory_mb=1536, disk_mb=300)
    source, target = tmp_path / "source", tmp_path / "target"
    block = os.urandom(1 << 20)
    with source.open("wb") as file:
        for _ in range(200):
            file.write(block)
    # The hub and its client are both this process.
    async with (
        Hub(backend, capacity=1, close_backend=False) as hub,
        HubServer(hub, token="a token of the tests") as served,
        RemoteHub(HubAddress.parse(served.address, "a token of the tests")) as far,
        far.lease(spec) as lease,
    ):
        before, held = _left_in(SPOOL), _num_open()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that from now on
        here = _peak_kb(os.getpid())
        assert await lease.desktop.upload(source, "large") == 200 << 20
        assert await lease.desktop.download("large", target) == 200 << 20
        assert _peak_kb(os.getpid()) - here < 60_000
        assert filecmp.cmp(source, target, shallow=False)
        assert _left_in(SPOOL) == before
        assert _num_open() <= held + 3  # a kept connection has an end here and one there


def _num_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _left_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(".frontdesk-*"))


def _peak_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


@pytest.mark.parametrize("path", ["/home/user", "/dev/null", "/etc/shadow", "fifo", "socket", "zero\0byte", ""])
async def test_what_is_no_readable_file_is_refused(shared: LocalDesktop, path: str) -> None:
    await sh(shared, "[ -p fifo ] || mkfifo fifo")
    make = "import os, socket; os.path.exists('socket') or socket.socket(socket.AF_UNIX).bind('socket')"
    await shared.exec(["python3", "-c", make])
    with pytest.raises(errors.BadRequest):
        await shared.get_file(path)
