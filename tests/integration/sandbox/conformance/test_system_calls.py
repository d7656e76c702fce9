"""System calls that are refused in a desktop, to its user and to its root; and those that its programs live on."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

from sandbox.backends.owned import OwnedDesktop
from sandbox.backends.seccomp import REFUSED
from sandbox.desktop import User
from tests.support.live import run_json, sh

pytestmark = pytest.mark.desktop

COLUMN = ("x86_64", "aarch64").index(os.uname().machine)
CLONE, UNSHARE, SOCKET, CLONE3 = ((56, 272, 41, 435), (220, 97, 198, 435))[COLUMN]

MAKE = """
# Each call in a child of its own, with arguments that do nothing where it is allowed; prints how each failed.
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, number, argument in json.loads(sys.argv[1]):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        done = libc.syscall(number, ctypes.c_long(argument), 0, 0, 0, 0, 0)
        os.write(writer, str(ctypes.get_errno() if done < 0 else 0).encode())
        os._exit(0)
    os.close(writer)
    found[name] = int(os.read(reader, 16) or -1)
    os.close(reader)
    os.waitpid(child, 0)
print(json.dumps(found))
"""
NOWHERE = -1
"""A bad descriptor, address or command: the kernel itself answers something other than EPERM."""


async def _errors(desktop: OwnedDesktop, calls: list[tuple[str, int, int]], user: User) -> dict[str, int]:
    found: dict[str, int] = await run_json(desktop, MAKE, json.dumps(calls), user=user)
    return found


@pytest.mark.escape
@pytest.mark.parametrize("user", ["user", "root"])
async def test_what_manages_or_attacks_the_machine_is_refused(shared: OwnedDesktop, user: User) -> None:
    calls = [(name, numbers[COLUMN], NOWHERE) for name, numbers in REFUSED.items() if numbers[COLUMN] is not None]
    found = await _errors(shared, [(name, int(number or 0), argument) for name, number, argument in calls], user)
    assert {name: code for name, code in found.items() if code != errno.EPERM} == {}
    assert len(found) > 40


async def test_the_same_calls_reach_the_kernel_on_the_host() -> None:
    # Those that do nothing whatever the right: were they refused in a desktop for their arguments, so they would here.
    harmless = ["keyctl", "bpf", "userfaultfd", "setns", "name_to_handle_at", "get_mempolicy", "io_uring_enter"]
    calls = [(name, REFUSED[name][COLUMN], NOWHERE) for name in harmless]
    done = subprocess.run([sys.executable, "-c", MAKE, json.dumps(calls)], capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    reached = [name for name, code in found.items() if code != errno.EPERM]
    assert len(reached) >= 4, found


@pytest.mark.escape
async def test_only_the_namespaces_of_chromiums_sandbox_may_be_made(shared: OwnedDesktop) -> None:
    mount, cgroup, uts, ipc, user = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000
    refused = [(f"unshare {flag:x}", UNSHARE, user | flag) for flag in (mount, cgroup, uts, ipc)]
    refused += [(f"clone {flag:x}", CLONE, user | flag | 17) for flag in (mount, cgroup, uts, ipc)]
    assert set((await _errors(shared, refused, "user")).values()) == {errno.EPERM}
    process, network = 0x20000000, 0x40000000
    allowed = [("user", UNSHARE, user), ("all three", UNSHARE, user | process | network)]
    assert set((await _errors(shared, allowed, "user")).values()) == {0}
    # A user namespace gives every capability in it, and still nothing can be mounted.
    tried = await shared.exec(["unshare", "--user", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"])
    assert not tried.ok
    assert await sh(shared, "unshare --user --map-root-user --net id -u") == "0\n"


@pytest.mark.escape
async def test_the_hypervisor_cannot_be_called(shared: OwnedDesktop) -> None:
    unix, internet, hypervisor = 1, 2, 40
    stream = MAKE.replace("c_long(argument), 0,", "c_long(argument), 1,")
    families = [(str(family), SOCKET, family) for family in (unix, internet, hypervisor)]
    assert await run_json(shared, stream, json.dumps(families)) == {"1": 0, "2": 0, "40": errno.EPERM}


async def test_threads_and_processes_start_without_clone3(shared: OwnedDesktop) -> None:
    assert await _errors(shared, [("clone3", CLONE3, 0)], "user") == {"clone3": errno.ENOSYS}
    assert await sh(shared, "python3 -c 'import threading; threading.Thread(target=print, args=(1,)).start()'") == "1\n"
