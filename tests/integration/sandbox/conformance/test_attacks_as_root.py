"""What even the root of a desktop cannot do to the host, and no program of it by other means than its user's rights."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sandbox.backends.owned import OwnedDesktop
from tests.support.live import run_json, sh

pytestmark = pytest.mark.desktop

ATTACKS = {
    "mount": "syscall(165, b'none', b'/mnt', b'tmpfs', 0, None)",
    "unmount": "syscall(166, b'/proc', 2)",
    "device": "os.mknod('/dev/kmsg2', 0o20666, os.makedev(1, 11))",
    "disk": "os.mknod('/dev/disk2', 0o60666, os.makedev(254, 0))",
    "hostname": "socket.sethostname('x')",
    "clock": "syscall(227, 0, ctypes.byref((ctypes.c_long * 2)(int(time.time()), 0)))",
    "module": "syscall(175, b'x', 1, b'')",
    "namespace": "syscall(308, os.open('/proc/1/ns/net', os.O_RDONLY), 0)",
    "other root": "os.chroot('/tmp')",
    "ports": "syscall(172, 3)",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, -20)",
    "raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "owner": "os.chown('/home/user', 0, 0)",
    "read home": "os.listdir('/home/user')",
    "control directory": "os.listdir('/run/frontdesk/ctl')",
    "kernel setting": "write('/proc/sys/vm/swappiness')",
    "core pattern": "write('/proc/sys/kernel/core_pattern')",
    "kernel memory": "open('/proc/kcore', 'rb').read(1)[0]",
    "kernel log": "syscall(103, 3, ctypes.create_string_buffer(64), 64)",
    "control groups": "os.mkdir('/sys/fs/cgroup/own')",
    "probe code": "open('/opt/frontdesk/sandbox/keys.py', 'a')",
}
CONTROLS = {"own file": "open('/etc/own', 'w').write('x')", "own sub-process": "subprocess.run(['true'], check=True)"}
ATTACK = """
import ctypes, json, os, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def write(path):
    old = open(path).read()
    open(path, "w").write(old)
worked = []
for name, attack in json.loads(sys.argv[1]).items():
    try:
        eval(attack)
        worked.append(name)
    except (OSError, IndexError):  # nothing to read is nothing seen
        pass
print(json.dumps(worked))
"""


@pytest.mark.escape
@pytest.mark.parametrize("name", ATTACKS)
async def test_root_inside_has_no_power_over_the_host(shared: OwnedDesktop, name: str) -> None:
    tried = json.dumps({name: ATTACKS[name]} | CONTROLS)
    assert await run_json(shared, ATTACK, tried, user="root") == list(CONTROLS)


async def test_root_inside_holds_three_rights_and_the_host_has_what_it_lacks(shared: OwnedDesktop) -> None:
    held = int((await sh(shared, "grep CapEff /proc/self/status", user="root")).split()[1], 16)
    assert held == (1 << 5) | (1 << 6) | (1 << 7)  # KILL, SETGID, SETUID
    # The host itself can do what was refused: the attack above is one.
    assert os.access("/proc/sys/vm/swappiness", os.W_OK)


@pytest.mark.escape
async def test_the_hosts_device_files_keep_their_modes(shared: OwnedDesktop) -> None:
    # Whether a device file is the box's own or not, the host's stays as it is.
    await shared.exec(["chmod", "667", "/dev/null"], user="root")
    assert Path("/dev/null").stat().st_mode & 0o777 == 0o666


@pytest.mark.escape
async def test_no_program_gains_rights(shared: OwnedDesktop) -> None:
    await sh(shared, "cp /bin/bash /usr/local/bin/risen && chmod 6755 /usr/local/bin/risen", user="root")
    assert await sh(shared, "stat -c '%a %U' /usr/local/bin/risen") == "6755 root\n"
    assert await sh(shared, "risen -p -c 'id -u -n; id -g -n'") == "user\nuser\n"
    status = await sh(shared, "cat /proc/self/status")
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status
    assert "CapPrm:\t0000000000000000" in status


@pytest.mark.escape
async def test_the_user_cannot_read_what_is_roots(shared: OwnedDesktop) -> None:
    assert await sh(shared, "stat -c %U /etc/shadow; cat /etc/shadow 2>&1 | tail -c 18") == "root\nPermission denied\n"
    assert "root:" in await sh(shared, "cat /etc/shadow", user="root")
