"""What the desktop's user cannot do to the probe, the screen, the host and other desktops.

Each attack is also made on something of the attacker's own, where it must succeed: an attack that never works proves
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec, User
from tests.support.backends import DesktopBackend
from tests.support.live import find_pid, python, run_json, sh

pytestmark = pytest.mark.desktop

PROCESS_ATTACKS = """
import ctypes, json, os, resource, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
victim = int(sys.argv[1]) if sys.argv[1] != "own" else subprocess.Popen(["sleep", "60"]).pid

def ptrace(request):
    if libc.ptrace(request, victim, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace(0x4207, victim, None, None)  # interrupt
    os.waitpid(victim, 0x40000000)
    libc.ptrace(17, victim, None, None)  # detach

def read_memory():
    with open(f"/proc/{victim}/maps") as maps:
        start = int(next(line for line in maps if " r" in line or "-r" not in line).split("-")[0], 16)
    with open(f"/proc/{victim}/mem", "rb") as memory:
        memory.seek(start)
        assert len(memory.read(16)) == 16

def vm_read():
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    with open(f"/proc/{victim}/stat") as stat:
        stack = int(stat.read().rsplit(")", 1)[1].split()[25])
    if stack == 0:
        raise PermissionError("stack address hidden")
    buffer = ctypes.create_string_buffer(8)
    here, there = Vector(ctypes.addressof(buffer), 8), Vector(stack, 8)
    if libc.process_vm_readv(victim, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 8:
        raise OSError(ctypes.get_errno(), "process_vm_readv")

def take_descriptor():
    if libc.syscall(438, os.pidfd_open(victim), 0, 0) < 0:  # pidfd_getfd
        raise OSError(ctypes.get_errno(), "pidfd_getfd")

attacks = {
    "stop": lambda: os.kill(victim, 19),
    "continue": lambda: os.kill(victim, 18),
    "attach": lambda: ptrace(16),
    "seize": lambda: ptrace(0x4206),
    "memory": read_memory,
    "vm": vm_read,
    "environment": lambda: open(f"/proc/{victim}/environ").read(),
    "descriptors": lambda: os.listdir(f"/proc/{victim}/fd"),
    "root": lambda: os.listdir(f"/proc/{victim}/root/"),
    "descriptor": take_descriptor,
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
    "affinity": lambda: os.sched_setaffinity(victim, os.sched_getaffinity(victim)),
    "limits": lambda: resource.prlimit(victim, resource.RLIMIT_NOFILE, (4096, 4096)),
    "oom": lambda: open(f"/proc/{victim}/oom_score_adj", "w").write("1000"),
}
worked = []
for name, attack in attacks.items():
    try:
        attack()
        worked.append(name)
    except OSError:
        pass
print(json.dumps([worked, list(attacks)]))
if sys.argv[1] == "own":
    os.kill(victim, 9)
"""


def _inner_pid(pid: int) -> int:
    """The pid inside the desktop of a process of the host."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("NSpid:")[1].split("\n")[0].split()[-1])


async def test_an_attack_on_a_process_of_its_own_works(shared: OwnedDesktop) -> None:
    worked, tried = await run_json(shared, PROCESS_ATTACKS, "own")
    # A filter of system calls may refuse these two to everybody, whatever the victim.
    assert set(tried) - set(worked) <= {"vm", "descriptor"}


@pytest.mark.parametrize("victim", ["spawner", "xserver", "probe"])
async def test_no_attack_on_the_desktops_own_processes_works(shared: OwnedDesktop, victim: str) -> None:
    worked, _ = await run_json(shared, PROCESS_ATTACKS, str(_inner_pid(find_pid(shared, victim))))
    assert worked == []
    assert (await shared.observe()).frame is not None


async def test_a_file_transfer_runs_as_the_user_but_cannot_be_traced(shared: OwnedDesktop) -> None:
    await shared.put_file("big", bytes(30 << 20))
    stop = (
        "import os, sys\n"
        "known = set(os.listdir('/proc'))\n"
        "while True:\n"
        "    for entry in set(os.listdir('/proc')) - known:\n"
        "        try:\n"
        "            if entry.isdigit() and open(f'/proc/{entry}/comm').read() == 'python3\\n':\n"
        "                os.kill(int(entry), 19)\n"
        "                open('/tmp/stopped', 'w').write(entry)\n"
        "                sys.exit()\n"
        "        except OSError: pass\n"
    )
    await shared.spawn(["python3", "-c", stop])
    await asyncio.sleep(0.3)
    reading = asyncio.create_task(shared.get_file("big"))
    victim = ""
    while not victim:
        victim = await sh(shared, "cat /tmp/stopped 2>/dev/null || true", user="root")
    worked, _ = await run_json(shared, PROCESS_ATTACKS, victim)
    # The same uid may signal it and slow it down; what it knows (the token) stays its own.
    assert set(worked) <= {"continue", "stop", "nice", "affinity", "limits"}
    assert "stop" in worked
    assert len(await reading) == 30 << 20


async def test_a_program_that_is_stopped_before_it_runs_stops_nothing_else(desktop: OwnedDesktop) -> None:
    # The search of a long path gives the attacker the time to hit.
    stop = (
        "import os\n"
        "known = set(os.listdir('/proc'))\n"
        "while True:\n"
        "    for entry in set(os.listdir('/proc')) - known:\n"
        "        try: os.kill(int(entry), 19)\n"
        "        except (ValueError, OSError): pass\n"
    )
    await desktop.spawn(["python3", "-c", stop])
    await asyncio.sleep(0.3)
    slow = {"PATH": "/nowhere:" * 10_000 + "/usr/bin"}
    victim = asyncio.create_task(desktop.exec(["sleep", "0"], env=slow, deadline_s=3))
    await asyncio.sleep(0.3)
    assert not victim.done()
    assert await sh(desktop, "id -u", user="root", deadline_s=5) == "0\n"
    assert (await desktop.observe()).frame is not None
    victim.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await victim


SEARCH = """
# Every file that can be read, here and in /proc, for a text; prints where it is.
import json, os, sys
needle = bytes.fromhex(sys.argv[1])
found = []
def look(path):
    try:
        with open(path, "rb") as handle:
            if needle in handle.read(1 << 20):
                found.append(path)
    except OSError:
        pass
for pid in os.listdir("/proc"):
    if pid.isdigit():
        for name in ("environ", "cmdline", "fd/0", "fd/1", "fd/2", "fd/3", "stack", "syscall"):
            if not (name.startswith("fd") and pid == str(os.getpid())):
                look(f"/proc/{pid}/{name}") if not name.startswith("fd") else None
for top in ("/run", "/tmp", "/etc", "/home", "/var", "/opt", "/dev/shm", "/root"):
    for folder, _, names in os.walk(top):
        for name in names:
            if os.path.isfile(os.path.join(folder, name)):
                look(os.path.join(folder, name))
print(json.dumps(found))
"""


async def test_the_token_is_nowhere_to_be_read(shared: OwnedDesktop) -> None:
    token = shared.address.token.encode().hex()
    assert await run_json(shared, SEARCH, token) == []
    assert await run_json(shared, SEARCH, token, user="root") == []
    planted = b"token-of-the-test".hex()
    await sh(shared, "echo 'a token-of-the-test here' > planted")
    pid = await shared.spawn(["sleep", "30"], env={"SECRET": "token-of-the-test"})
    assert set(await run_json(shared, SEARCH, planted)) == {"/home/user/planted", f"/proc/{pid}/environ"}
    await sh(shared, f"kill {pid}; rm planted")


CONNECT = """
import json, socket, sys
worked = []
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        worked.append(path)
    except OSError:
        pass
print(json.dumps(worked))
"""


async def test_the_probe_answers_nobody_inside(shared: OwnedDesktop) -> None:
    probe = _inner_pid(find_pid(shared, "probe"))
    path = "/run/frontdesk/ctl/probe.sock"
    listen = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); time.sleep(30)"
    await shared.spawn(["python3", "-c", listen])
    await sh(shared, "until [ -S own.sock ]; do sleep 0.01; done")
    tried = [path, f"{path}.new", f"/proc/{probe}/root{path}", "own.sock"]
    assert await run_json(shared, CONNECT, *tried) == ["own.sock"]


OPEN = """
import json, os, sys
worked = []
for path in sys.argv[1:]:
    for name, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY)):
        try:
            os.close(os.open(path, flags))
            worked.append(f"{name} {path}")
        except OSError:
            pass
print(json.dumps(worked))
"""


async def test_the_screens_memory_cannot_be_opened(shared: OwnedDesktop) -> None:
    await sh(shared, "touch own")
    holders = [_inner_pid(find_pid(shared, role)) for role in ("xserver", "spawner", "probe")]
    paths = [f"/proc/{pid}/fd/{fd}" for pid in holders for fd in range(16)]
    tried = ["/run/frontdesk/fb/Xvfb_screen0", *paths, "own"]
    assert await run_json(shared, OPEN, *tried) == ["read own", "write own"]
    assert await run_json(shared, OPEN, "/run/frontdesk/fb/Xvfb_screen0", user="root") == []


async def test_no_program_gains_rights(shared: OwnedDesktop) -> None:
    await sh(shared, "cp /bin/bash /usr/local/bin/risen && chmod 6755 /usr/local/bin/risen", user="root")
    assert await sh(shared, "stat -c '%a %U' /usr/local/bin/risen") == "6755 root\n"
    assert await sh(shared, "risen -p -c 'id -u -n; id -g -n'") == "user\nuser\n"
    status = await sh(shared, "cat /proc/self/status")
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status
    assert "CapPrm:\t0000000000000000" in status
    assert await sh(shared, "stat -c %U /etc/shadow; cat /etc/shadow 2>&1 | tail -c 18") == "root\nPermission denied\n"


ROOT_ATTACKS = """
import ctypes, json, os, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def write(path):
    old = open(path).read()
    open(path, "w").write(old)
attacks = {
    "mount": lambda: syscall(165, b"none", b"/mnt", b"tmpfs", 0, None),
    "unmount": lambda: syscall(166, b"/proc", 2),
    "device": lambda: os.mknod("/dev/kmsg2", 0o20666, os.makedev(1, 11)),
    "hostname": lambda: socket.sethostname("x"),
    "clock": lambda: os.popen("date -s 2001-01-01") and syscall(227, 0, ctypes.byref((ctypes.c_long * 2)(1, 0))),
    "module": lambda: syscall(175, b"x", 1, b""),
    "namespace": lambda: syscall(308, os.open("/proc/1/ns/net", os.O_RDONLY), 0),
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "owner": lambda: os.chown("/home/user", 0, 0),
    "read home": lambda: os.listdir("/home/user"),
    "control directory": lambda: os.listdir("/run/frontdesk/ctl"),
    "kernel setting": lambda: write("/proc/sys/vm/swappiness"),
    "core pattern": lambda: write("/proc/sys/kernel/core_pattern"),
    "kernel log": lambda: syscall(103, 3, ctypes.create_string_buffer(64), 64),
    "probe code": lambda: open("/opt/frontdesk/sandbox/keys.py", "a"),
    "own file": lambda: open("/etc/own", "w").write("x"),
    "own sub-process": lambda: subprocess.run(["true"], check=True),
}
worked = []
for name, attack in attacks.items():
    try:
        attack()
        worked.append(name)
    except OSError:
        pass
print(json.dumps(worked))
"""


async def test_even_root_inside_has_no_power_over_the_host(shared: OwnedDesktop) -> None:
    assert await run_json(shared, ROOT_ATTACKS, user="root") == ["own file", "own sub-process"]
    held = int((await sh(shared, "grep CapEff /proc/self/status", user="root")).split()[1], 16)
    assert held == (1 << 5) | (1 << 6) | (1 << 7)  # KILL, SETGID, SETUID
    # The host itself can do what was refused: the attack above is one.
    assert os.access("/proc/sys/vm/swappiness", os.W_OK)
    # Whether its device file is the box's own or not, the host's stays as it is.
    await shared.exec(["chmod", "667", "/dev/null"], user="root")
    assert Path("/dev/null").stat().st_mode & 0o777 == 0o666


DEVICES = {"core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"}
DEVICES |= {"stdin", "stdout", "stderr"}


async def test_nothing_of_the_host_is_seen(shared: OwnedDesktop, tmp_path: Path) -> None:
    secret = tmp_path / "secret-of-the-host"
    secret.write_text("seen")
    marker = subprocess.Popen(["sleep", "47.11"])
    try:
        processes = await sh(shared, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", user="root")
        assert "sleep 47.11" not in processes
        assert "Xvfb" in processes
        for user in ("user", "root"):
            found = await sh(shared, f"ls {tmp_path} 2>&1 || true", user=user)
            assert "secret" not in found.replace(str(tmp_path), "")
            assert "No such file" in found
        assert await sh(shared, "ls /sys", user="root") == ""
        assert set((await sh(shared, "ls /dev")).split()) <= DEVICES
    finally:
        marker.kill()
        marker.wait()


async def test_desktops_do_not_see_each_other(shared: OwnedDesktop, desktop: OwnedDesktop) -> None:
    await sh(desktop, "echo mine > /tmp/mine; echo mine > /dev/shm/mine; echo mine > ~/mine; ls /tmp/mine")
    await desktop.spawn(["sleep", "48.12"])
    assert (await sh(shared, "ls /tmp/mine /dev/shm/mine ~/mine 2>/dev/null || true")) == ""
    assert "48.12" not in await sh(shared, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert await sh(shared, "id -u") != await sh(desktop, "id -u")
    make = "import ctypes; print(ctypes.CDLL(None).shmget(0x4711, 4096, 0o1666))"
    see = "import ctypes; print(ctypes.CDLL(None).shmget(0x4711, 4096, 0))"
    assert int(await python(desktop, make)) >= 0
    assert int(await python(desktop, see)) >= 0
    assert int(await python(shared, see)) == -1


REACH = """
import json, socket, sys
port, name = int(sys.argv[1]), sys.argv[2]
def tcp(port):
    socket.create_connection(("127.0.0.1", port), timeout=1).close()
def abstract(name):
    socket.socket(socket.AF_UNIX).connect("\\0" + name)
own = socket.socket(socket.AF_UNIX); own.bind("\\0own"); own.listen()
listener = socket.socket(); listener.bind(("", 0)); listener.listen()
worked = []
for what, attempt in (
    ("host's port", lambda: tcp(port)), ("host's abstract socket", lambda: abstract(name)),
    ("host's X server", lambda: abstract("/tmp/.X11-unix/X0")),
    ("outside", lambda: socket.create_connection(("192.0.2.1", 80), timeout=1)),
    ("own port", lambda: tcp(listener.getsockname()[1])), ("own abstract socket", lambda: abstract("own")),
):
    try:
        attempt()
        worked.append(what)
    except OSError:
        pass
interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]]
print(json.dumps([worked, interfaces]))
"""


@pytest.mark.parametrize(
    ("network", "reached"), [("loopback", ["own port", "own abstract socket"]), ("none", ["own abstract socket"])]
)
async def test_the_network_is_what_was_given(backend: DesktopBackend, network: Any, reached: list[str]) -> None:
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        abstract.bind("\0frontdesk-test-host")
        abstract.listen()
        arguments = str(tcp.getsockname()[1]), "frontdesk-test-host"
        on_host = subprocess.run(
            [sys.executable, "-c", REACH, *arguments], capture_output=True, check=True, text=True
        ).stdout
        assert "host's port" in on_host
        assert "host's abstract socket" in on_host
        desktop = await backend.boot(DesktopSpec(width=320, height=240, network=network))
        try:
            users: tuple[User, ...] = ("user", "root")
            for user in users:
                worked, interfaces = await run_json(desktop, REACH, *arguments, user=user)
                assert (worked, interfaces) == (reached, ["lo"])
        finally:
            await desktop.close()
