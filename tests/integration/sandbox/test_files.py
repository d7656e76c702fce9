"""Files in and out of a desktop: any name, any size, whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from tests.support.live import find_pid, sh

pytestmark = pytest.mark.desktop


async def test_two_hundred_megabytes_pass_through_a_small_probe(backend: LocalBackend) -> None:
    desktop = await backend.boot(DesktopSpec(width=320, height=240, memory_mb=1536, disk_mb=600))
    try:
        block = os.urandom(1 << 20)
        data = block * 200
        probe = find_pid(desktop, "probe")
        before = _peak_kb(probe)
        await desktop.put_file("large", data)
        digest = hashlib.sha256(data).hexdigest()
        assert (await sh(desktop, "sha256sum large")).split()[0] == digest
        back = await desktop.get_file("large", max_bytes=300 << 20)
        assert hashlib.sha256(back).hexdigest() == digest
        assert _peak_kb(probe) - before < 20_000
    finally:
        await desktop.close()


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
