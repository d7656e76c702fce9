"""A Docker daemon of the tests' own: without networks, its images in memory, gone without a trace after.

Its mounts are made in a mount namespace of its own, so they end with it, as do the images: writing a gigabyte to the
disk and removing it again can take longer than every test that uses it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["CannotRun", "run_dockerd"]

START_S = 60.0
STOP_S = 30.0
SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


# $1 is the directory; what follows is the daemon.
START = """
set -eu
mount -t tmpfs -o size=3g,mode=0711 images "$1/data"
shift
exec "$@"
"""


class CannotRun(Exception):
    """No daemon can run here; the message says why."""


@contextmanager
def run_dockerd() -> Iterator[str]:
    """Run a daemon and give the URL of its socket.

    Raises:
        CannotRun: a program or a right is missing, or it does not come up.
    """
    if os.geteuid() != 0:
        raise CannotRun("needs root")
    program = shutil.which("dockerd", path=SYSTEM_PATH)
    if program is None:
        raise CannotRun("needs dockerd: apt-get install docker.io")
    directory = Path(tempfile.mkdtemp(prefix="frontdesk-dockerd-"))
    group = f"frontdesk-dockerd-{secrets.token_hex(4)}"
    # It ends with this process; no bridge, no firewall rules and no group of anybody else's is touched.
    argv = ["setpriv", "--pdeathsig", "TERM", "--", "unshare", "--mount", "--propagation", "private", "--"]
    argv += ["sh", "-c", START, "sh", str(directory), program, "--host", f"unix://{directory}/docker.sock"]
    argv += ["--data-root", f"{directory}/data", "--exec-root", f"{directory}/exec"]
    argv += ["--pidfile", f"{directory}/dockerd.pid", "--config-file", f"{directory}/daemon.json"]
    argv += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"]
    argv += ["--storage-driver=overlay2", "--exec-opt=native.cgroupdriver=cgroupfs", f"--cgroup-parent={group}"]
    (directory / "daemon.json").write_text("{}")
    (directory / "data").mkdir()
    try:
        with (directory / "log").open("wb") as log:
            env = {"PATH": SYSTEM_PATH}
            daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        try:
            _await_socket(daemon, directory)
            yield f"unix://{directory}/docker.sock"
        finally:
            _stop(daemon)
    finally:
        _sweep(directory, group)


def _await_socket(daemon: subprocess.Popen[bytes], directory: Path) -> None:
    until = time.monotonic() + START_S
    while not (directory / "docker.sock").exists():
        if daemon.poll() is not None or time.monotonic() > until:
            tail = (directory / "log").read_text(errors="replace").strip()[-500:]
            raise CannotRun(f"dockerd does not come up: {tail}")
        time.sleep(0.05)


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(STOP_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _sweep(directory: Path, group: str) -> None:
    """Remove what a daemon leaves: empty control groups and its directory."""
    for left in (*Path("/sys/fs/cgroup").glob(f"*/{group}"), *Path("/sys/fs/cgroup").glob(group)):
        left.rmdir()
    shutil.rmtree(directory, ignore_errors=True)
