"""What the desktop's user cannot do to the probe, the screen, the host and other desktops.

Each attack is also made on something of the attacker's own, where it must succeed: an attack that never works proves
nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec, User
from tests.support.backends import DesktopBackend
from tests.support.live import inner_pid, python, run_json, sh

pytestmark = pytest.mark.desktop


@pytest.fixture(scope="module")
async def other(backend: DesktopBackend) -> AsyncIterator[OwnedDesktop]:
    """Another desktop beside the shared one, with a network of its own."""
    booted = await backend.boot(DesktopSpec(width=320, height=240, network="loopback"))
    try:
        yield booted
    finally:
        await booted.close()


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


USERS = pytest.mark.parametrize("user", ["user", "root"])


@pytest.mark.escape
@USERS
async def test_the_token_is_nowhere_to_be_read(shared: OwnedDesktop, user: User) -> None:
    assert await run_json(shared, SEARCH, shared.address.token.encode().hex(), user=user) == []


async def test_what_is_somewhere_to_be_read_is_found(shared: OwnedDesktop) -> None:
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


@pytest.mark.escape
@USERS
async def test_the_probe_answers_nobody_inside(shared: OwnedDesktop, user: User) -> None:
    probe = inner_pid(shared, "probe")
    path = "/run/frontdesk/ctl/probe.sock"
    listen = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(30)"
    )
    folder = f"/tmp/listens-{user}"
    await sh(shared, f"rm -rf {folder}; mkdir {folder}", user=user)
    pid = await shared.spawn(["python3", "-c", listen, f"{folder}/own.sock"], user=user)
    await sh(shared, f"until [ -S {folder}/own.sock ]; do sleep 0.01; done")
    tried = [path, f"{path}.new", f"/proc/{probe}/root{path}", f"{folder}/own.sock"]
    assert await run_json(shared, CONNECT, *tried, user=user) == [f"{folder}/own.sock"]
    await sh(shared, f"kill {pid}", user=user)


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


@pytest.mark.escape
@USERS
async def test_the_screens_memory_cannot_be_opened(shared: OwnedDesktop, user: User) -> None:
    own = f"/tmp/own-{user}"
    await sh(shared, f"touch {own}", user=user)
    assert await run_json(shared, OPEN, "/run/frontdesk/fb/Xvfb_screen0", own, user=user) == [
        f"read {own}",
        f"write {own}",
    ]


@pytest.mark.escape
async def test_nobodys_descriptors_of_the_screen_can_be_opened(shared: OwnedDesktop) -> None:
    holders = [inner_pid(shared, role) for role in ("xserver", "spawner", "probe")]
    paths = [f"/proc/{pid}/fd/{fd}" for pid in holders for fd in range(16)]
    pid = await shared.spawn(["bash", "-c", "exec sleep 60 > ~/held"])
    await sh(shared, "until [ -e ~/held ]; do sleep 0.01; done")
    own = f"/proc/{pid}/fd/1"
    assert await run_json(shared, OPEN, *paths, own) == [f"read {own}", f"write {own}"]
    await sh(shared, f"kill {pid}")


DEVICES = {"core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"}
DEVICES |= {"stdin", "stdout", "stderr"}


@pytest.mark.escape
@USERS
async def test_no_file_of_the_host_is_seen(shared: OwnedDesktop, tmp_path: Path, user: User) -> None:
    secret = tmp_path / "secret-of-the-host"
    secret.write_text("seen")
    for place in (tmp_path, f"/proc/1/root{tmp_path}"):
        found = await sh(shared, f"ls {place} 2>&1 || true", user=user)
        assert "secret" not in found.replace(str(tmp_path), "")
        assert "No such file" in found or "Permission denied" in found
    assert await sh(shared, "ls /proc/self/root/home", user=user) == "user\n"


@pytest.mark.escape
async def test_no_process_of_the_host_is_seen(shared: OwnedDesktop) -> None:
    marker = subprocess.Popen(["sleep", "47.11"])
    try:
        processes = await sh(shared, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", user="root")
        assert "sleep 47.11" not in processes
        assert "Xvfb" in processes
    finally:
        marker.kill()
        marker.wait()


@pytest.mark.escape
async def test_no_device_of_the_host_is_seen(shared: OwnedDesktop) -> None:
    assert await sh(shared, "ls /sys", user="root") == ""
    assert set((await sh(shared, "ls /dev")).split()) <= DEVICES


@pytest.mark.escape
async def test_desktops_do_not_see_each_others_files(shared: OwnedDesktop, other: OwnedDesktop) -> None:
    see = "ls /tmp/mine /dev/shm/mine ~/mine 2>/dev/null || true"
    await sh(other, "echo mine > /tmp/mine; echo mine > /dev/shm/mine; echo mine > ~/mine")
    assert len((await sh(other, see)).split()) == 3
    assert await sh(shared, see) == ""


@pytest.mark.escape
async def test_desktops_do_not_see_each_others_processes(shared: OwnedDesktop, other: OwnedDesktop) -> None:
    see = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    await other.spawn(["sleep", "48.12"])
    assert "48.12" in await sh(other, see)
    assert "48.12" not in await sh(shared, see)
    assert await sh(shared, "id -u") != await sh(other, "id -u")


@pytest.mark.escape
async def test_desktops_do_not_see_each_others_shared_memory(shared: OwnedDesktop, other: OwnedDesktop) -> None:
    make = "import ctypes; print(ctypes.CDLL(None).shmget(0x4711, 4096, 0o1666))"
    see = "import ctypes; print(ctypes.CDLL(None).shmget(0x4711, 4096, 0))"
    assert int(await python(other, make)) >= 0
    assert int(await python(other, see)) >= 0
    assert int(await python(shared, see)) == -1


REACH = """
# Connects to what is named: a port of this machine's loopback, an address, or an abstract socket; prints what worked.
import json, socket, sys
own = socket.socket(socket.AF_UNIX); own.bind("\\0own"); own.listen()
worked = []
for name in sys.argv[1:]:
    try:
        if name.isdigit():
            socket.create_connection(("127.0.0.1", int(name)), timeout=1).close()
        elif name.startswith("192."):
            socket.create_connection((name, 80), timeout=1)
        else:
            socket.socket(socket.AF_UNIX).connect("\\0" + name)
        worked.append(name)
    except OSError:
        pass
print(json.dumps(worked))
"""
SERVE = """
import socket, sys, time
port = socket.socket(); port.bind(("", 0)); port.listen()
named = socket.socket(socket.AF_UNIX); named.bind("\\0" + sys.argv[1]); named.listen()
print(port.getsockname()[1], flush=True)
time.sleep(60)
"""


@asynccontextmanager
async def serving(desktop: OwnedDesktop, name: str) -> AsyncIterator[str]:
    """Listen inside a desktop on an abstract socket and on a port, which is given."""
    pid = await desktop.spawn(["bash", "-c", 'exec python3 -c "$0" "$1" > ~/port', SERVE, name])
    await sh(desktop, "until [ -s ~/port ]; do sleep 0.02; done")
    yield (await sh(desktop, "cat ~/port")).strip()
    await sh(desktop, f"kill {pid}; rm ~/port")


@pytest.fixture(scope="module", params=["loopback", "none"])
async def networked(backend: DesktopBackend, request: pytest.FixtureRequest) -> AsyncIterator[OwnedDesktop]:
    """A desktop of each network that leads nowhere."""
    booted = await backend.boot(DesktopSpec(width=320, height=240, network=request.param))
    try:
        yield booted
    finally:
        await booted.close()


@pytest.mark.escape
@USERS
async def test_nothing_of_the_hosts_network_is_reached(networked: OwnedDesktop, user: User) -> None:
    with subprocess.Popen([sys.executable, "-c", SERVE, "of-the-host"], stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        tried = [serving.stdout.readline().strip(), "of-the-host"]
        try:
            on_host = subprocess.run([sys.executable, "-c", REACH, *tried], capture_output=True, check=True, text=True)
            assert json.loads(on_host.stdout) == tried
            assert await run_json(networked, REACH, *tried, "/tmp/.X11-unix/X0", "own", user=user) == ["own"]
        finally:
            serving.kill()


@pytest.mark.escape
@USERS
async def test_nothing_outside_is_reached(networked: OwnedDesktop, user: User) -> None:
    see = "print([line.split(':')[0].strip() for line in open('/proc/net/dev').read().splitlines()[2:]])"
    assert await python(networked, see, user=user) == "['lo']\n"
    assert await run_json(networked, REACH, "192.0.2.1", "own", user=user) == ["own"]


@pytest.mark.escape
async def test_no_other_desktops_network_is_reached(networked: OwnedDesktop, other: OwnedDesktop) -> None:
    async with serving(other, "of-another") as port:
        assert await run_json(other, REACH, port, "of-another") == [port, "of-another"]
        assert await run_json(networked, REACH, port, "of-another", "own") == ["own"]


async def test_a_desktops_own_loopback_is_what_was_given(networked: OwnedDesktop) -> None:
    async with serving(networked, "own-name") as port:
        given = [port] if networked.spec.network == "loopback" else []
        assert await run_json(networked, REACH, port, "own-name") == [*given, "own-name"]
