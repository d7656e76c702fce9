"""What a desktop prints is kept within bounds."""

from __future__ import annotations

import pytest

from sandbox.backends.local import LocalDesktop
from tests.support.live import python, wait_for

pytestmark = pytest.mark.desktop


PRINT = """
# What a program of the session prints goes where the window manager's does: take that descriptor and print.
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for entry in os.listdir("/proc"):
    try:
        if entry.isdigit() and open(f"/proc/{entry}/comm").read() == "icewm\\n":
            fd = libc.syscall(438, os.pidfd_open(int(entry)), 1, 0)
            break
    except OSError:
        pass
assert fd >= 0, ctypes.get_errno()
for _ in range(200):
    os.write(fd, b"x" * 65536)
print(os.readlink(f"/proc/self/fd/{fd}"))
"""


async def test_what_a_desktop_prints_does_not_fill_the_hosts_disk(tight: LocalDesktop) -> None:
    printed_to = await python(tight, PRINT)
    assert printed_to.startswith("pipe:")
    log = tight.address.socket.parent.parent / "log"

    async def written() -> bool:
        return log.stat().st_size > 1 << 16

    await wait_for("the log to have what it keeps", written)
    assert log.stat().st_size <= 300_000
    assert (await tight.health()).alive
