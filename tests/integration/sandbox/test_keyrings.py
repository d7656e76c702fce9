"""Keys are the one thing that no namespace holds apart."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.backends.local import LocalBackend
from sandbox.desktop import DesktopSpec
from sandbox.image import ImageCache
from tests.support.live import python

pytestmark = pytest.mark.desktop


async def test_keys_of_the_host_stay_with_the_host(
    images: ImageCache, runtime_dir: Path, backend: LocalBackend
) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    key = libc.syscall(248, b"user", b"frontdesk-test", b"secret", 6, -3)  # add_key to the session keyring
    if key < 0:
        pytest.skip("this kernel or container offers no keyrings")
    search = (
        "import ctypes; libc = ctypes.CDLL(None); libc.syscall.restype = ctypes.c_long;"
        "print(libc.syscall(249, b'user', b'frontdesk-test', None, 0))"
    )
    later = LocalBackend(images, runtime_dir)  # its processes inherit the keyring that has the key
    try:
        on_host = subprocess.run([sys.executable, "-c", search], capture_output=True, check=True, text=True)
        assert int(on_host.stdout) == key
        desktop = await later.boot(DesktopSpec(width=320, height=240))
        assert int(await python(desktop, search)) == -1
        assert int(await python(desktop, search, user="root")) == -1
    finally:
        await later.close()
        libc.syscall(250, 9, key, -3)  # unlink
