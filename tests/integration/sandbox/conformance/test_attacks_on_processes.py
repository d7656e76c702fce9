"""What the desktop's user cannot do to the processes that run the desktop and watch it.

Each attack is also made on a process of the attacker's own, where it must succeed: an attack that never works proves
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from sandbox.backends.owned import OwnedDesktop
from tests.support.live import inner_pid, run_json, sh

pytestmark = pytest.mark.desktop

ATTACKS = {
    "stop": "os.kill(victim, 19)",
    "continue": "os.kill(victim, 18)",
    "attach": "ptrace(16)",
    "seize": "ptrace(0x4206)",
    "memory": "read_memory()",
    "vm": "vm_read()",
    "environment": "open(f'/proc/{victim}/environ').read()",
    "descriptors": "os.listdir(f'/proc/{victim}/fd')",
    "root": "os.listdir(f'/proc/{victim}/root/')",
    "descriptor": "take_descriptor()",
    "nice": "os.setpriority(os.PRIO_PROCESS, victim, 19)",
    "affinity": "os.sched_setaffinity(victim, os.sched_getaffinity(victim))",
    "limits": "resource.prlimit(victim, resource.RLIMIT_NOFILE, (4096, 4096))",
    "oom": "open(f'/proc/{victim}/oom_score_adj', 'w').write('1000')",
    "end": "os.kill(victim, 15)",
}
ATTACK = """
# Makes attacks on victims ("own": a process of one's own); prints [attack, victim] for each that worked.
import ctypes, json, os, resource, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)

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

worked = []
for name in sys.argv[2:]:
    victim = int(name) if name != "own" else subprocess.Popen(["sleep", "60"]).pid
    for attack, source in json.loads(sys.argv[1]).items():
        try:
            eval(source)
            worked.append([attack, name])
        except OSError:
            pass
    if name == "own":
        os.kill(victim, 9)
print(json.dumps(worked))
"""
ROLES = ("spawner", "xserver", "probe")


async def attack(desktop: OwnedDesktop, attacks: list[str], *victims: str) -> set[str]:
    """Make attacks; returns those that worked on any of the victims."""
    sources = json.dumps({name: ATTACKS[name] for name in attacks})
    return {name for name, _ in await run_json(desktop, ATTACK, sources, *victims)}


async def test_the_attacks_work_on_a_process_of_ones_own(shared: OwnedDesktop) -> None:
    # A filter of system calls may refuse these two to everybody, whatever the victim.
    assert set(ATTACKS) - await attack(shared, list(ATTACKS), "own") <= {"vm", "descriptor"}


@pytest.mark.escape
@pytest.mark.parametrize("name", ATTACKS)
async def test_no_attack_on_the_desktops_own_processes_works(shared: OwnedDesktop, name: str) -> None:
    assert await attack(shared, [name], *(str(inner_pid(shared, role)) for role in ROLES)) == set()
    assert (await shared.observe()).frame is not None


@pytest.mark.escape
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
    worked = await attack(shared, [name for name in ATTACKS if name != "end"], victim)
    # The same uid may signal it and slow it down; what it knows (the token) stays its own.
    assert worked <= {"continue", "stop", "nice", "affinity", "limits"}
    assert "stop" in worked
    assert len(await reading) == 30 << 20


@pytest.mark.escape
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
