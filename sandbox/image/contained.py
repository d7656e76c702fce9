"""Runs one build step so that nothing of it outlives the build.

::

    builder --SIGKILL on its death--> unshare --SIGKILL--> pid 1 of a new pid namespace --kernel--> everything below it

The step's mounts are made in its own mount namespace and vanish with its last process, after kill -9 as after an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from sandbox.errors import MissingRequirement

__all__ = ["check_requirements", "run_contained"]

_PROXY = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_WRAP = (
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)


def check_requirements() -> None:
    """Raise MissingRequirement for the first thing that this machine lacks to build an image."""
    if os.geteuid() != 0:
        raise MissingRequirement(
            "building a desktop image needs root", fix="run the command with sudo, or copy an image built elsewhere"
        )
    for program, package in (("mmdebstrap", "mmdebstrap"), ("setpriv", "util-linux"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            raise MissingRequirement(
                f"building a desktop image needs the program {program}", fix=f"apt-get install {package}"
            )
    probe = subprocess.run([*_WRAP, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise MissingRequirement(
            f"root may not make mount and pid namespaces here ({probe.stderr.strip()})",
            fix="give the container CAP_SYS_ADMIN (docker run --privileged), or build on the host",
        )


def run_contained(
    argv: Sequence[str],
    *,
    on_line: Callable[[str], None],
    lock_fd: int,
    stdin: Path = Path(os.devnull),
    network: bool = False,
) -> int:
    """Run a command to its end.

    Args:
        on_line: called with each line of its output, error output included.
        lock_fd: inherited by the command, so that the build lock is held as long as anything of it lives.
        stdin: a file that it reads.
        network: leave it the machine's network.

    Returns:
        Its exit code.
    """
    env = {name: value for name, value in os.environ.items() if name in _PROXY}
    env |= {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": "/root",
    }
    env |= {"DEBIAN_FRONTEND": "noninteractive"}
    wrap = [*_WRAP, "--"] if network else [*_WRAP, "--net", "--"]
    with stdin.open("rb") as source:
        process = subprocess.Popen(
            [*wrap, *argv],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            pass_fds=(lock_fd,),
            umask=0o022,
            text=True,
            errors="replace",
        )
    try:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                on_line(line.rstrip("\n"))
        return process.wait()
    finally:
        process.kill()
        process.wait()
