"""Builds one desktop's namespaces, file system and users, then becomes bubblewrap. Runs in the keeper's forked child.

::

    lower: image root (read only, shared)   upper: a tmpfs (what it writes: bounded, counted as its memory)
    overlay of both = / of the box   ctl/: the one directory that both sides see; only the probe may enter it

Everything mounted here lives in a mount namespace that ends with the last process of the desktop.
"""

from __future__ import annotations

import compileall
import ctypes
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from sandbox.backends.seccomp import bpf_program

__all__ = [
    "CODE",
    "HOME",
    "RUNTIME_DIR",
    "START",
    "Uids",
    "accounts",
    "bwrap_argv",
    "claim_uids",
    "filter_descriptor",
    "populate",
    "prepare",
    "session_environment",
    "spawner_config",
    "stage_code",
]

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
KEYCTL, JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1
HOME = "/home/user"
RUNTIME_DIR = "/run/user/desktop"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
CODE = "/opt/frontdesk"
START = (
    f"import sys; sys.path += ['{CODE}', '/usr/lib/python3/dist-packages']; "
    "from sandbox.probe.spawner import main; sys.exit(main())"
)


class Uids:
    """The three uids of a desktop, distinct from those of every other on this host.

    They lie in a range that no distribution hands out, below 2^31.
    """

    FIRST, COUNT = 2_000_000_000, 20_000

    def __init__(self, slot: int) -> None:
        first = self.FIRST + 4 * slot
        self.user, self.xserver, self.probe = first, first + 1, first + 2

    def as_dict(self) -> dict[str, int]:
        """By role."""
        return {"user": self.user, "xserver": self.xserver, "probe": self.probe}


def claim_uids() -> tuple[socket.socket, Uids]:
    """Claim a set of uids that no other desktop on this host has.

    The claim is an abstract socket name: it ends with the process that holds it and leaves no file.

    Raises:
        OSError: every set is in use.
    """
    for slot in range(Uids.COUNT):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            claim.bind(f"\0frontdesk-uids-{slot}")
        except OSError:
            claim.close()
            continue
        return claim, Uids(slot)
    raise OSError(f"all {Uids.COUNT} sets of desktop uids are in use")


def spawner_config(spec: dict[str, Any], token: str, uids: Uids) -> dict[str, Any]:
    """What the spawner is told on its standard input."""
    environment = session_environment()
    return {
        "width": spec["width"],
        "height": spec["height"],
        "pids": spec["pids"],
        "dpi": round(96 * spec["font_scale"]),
        "token": token,
        "uids": uids.as_dict(),
        "env": {"user": environment, "root": {"PATH": environment["PATH"], "HOME": "/root"}},
    }


def session_environment() -> dict[str, str]:
    """Environment of the desktop's programs."""
    return {
        "PATH": PATH,
        "HOME": HOME,
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "DISPLAY": ":0",
        "XDG_RUNTIME_DIR": RUNTIME_DIR,
        "XDG_CURRENT_DESKTOP": "XFCE",
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME_DIR}/bus",
        "GSETTINGS_BACKEND": "keyfile",
        "GTK_A11Y": "atspi",
        "GTK_OVERLAY_SCROLLING": "0",
        "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        "NO_AT_BRIDGE": "0",
    }


def stage_code(target: Path) -> None:
    """Copy the probe's code to where desktops can see it: readable by all, whatever the checkout's permissions.

    It is compiled ahead when this Python and the image's (Debian 12: 3.11) share a bytecode format, which saves every
    boot the time.
    """
    package = Path(__file__).resolve().parent.parent
    (target / "sandbox").mkdir(parents=True)
    shutil.copytree(package / "probe", target / "sandbox" / "probe", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(package / "keys.py", target / "sandbox" / "keys.py")
    if sys.version_info[:2] == (3, 11):
        compileall.compile_dir(target, quiet=2)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {kind} on {target}: {os.strerror(code)}")


def prepare(directory: Path, image_root: Path, spec: dict[str, Any], uids: Uids) -> Path:
    """Unshare, mount and fill; returns the directory that becomes / of the box.

    Raises:
        OSError: the kernel refused a step; the message names it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNS | (CLONE_NEWNET if spec["network"] == "none" else 0)
    if libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)}")
    # Keys are not namespaced: whoever inherits a session keyring reads what is in it. Where the call is refused
    # altogether (in many containers), it is refused to the desktop as well.
    libc.syscall(KEYCTL[os.uname().machine], JOIN_SESSION_KEYRING, None)
    _mount("none", Path("/"), "none", MS_REC | MS_PRIVATE, "")
    for name in DEVICES:
        # The box is shown the host's device files: writing to them is harmless, changing their mode would not be.
        _mount(f"/dev/{name}", Path("/dev", name), "none", MS_BIND, "")
        _mount("none", Path("/dev", name), "none", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, "")
    base = directory / "fs"
    _mount("frontdesk", base, "tmpfs", MS_NODEV, f"size={spec['disk_mb']}m,mode=0755")
    for name in ("lower", "upper", "work", "root"):
        (base / name).mkdir()
    populate(base / "upper", image_root, uids)
    # Relative names: paths may be long or have commas, and the box can read its mounts.
    os.chdir(base)
    _mount(str(image_root), Path("lower"), "none", MS_BIND, "")
    _mount("overlay", Path("root"), "overlay", MS_NODEV, "lowerdir=lower,upperdir=upper,workdir=work")
    os.chdir("/")
    return base / "root"


def accounts(image_root: Path, uids: Uids) -> dict[str, str]:
    """Contents of /etc/passwd and /etc/group: the image's, and the desktop's own users."""
    texts = {}
    for name in ("passwd", "group"):
        lines = [(image_root / "etc" / name).read_text()]
        for user, uid in uids.as_dict().items():
            account = f"{HOME}:/bin/bash" if user == "user" else "/nonexistent:/usr/sbin/nologin"
            lines.append(f"{user}:x:{uid}:{uid}::{account}\n" if name == "passwd" else f"{user}:x:{uid}:\n")
        texts[name] = "".join(lines)
    return texts


def populate(upper: Path, image_root: Path, uids: Uids) -> None:
    """Write what differs between desktops: users, home, runtime directories."""
    _directory(upper / "etc", 0, 0o755)
    for name, text in accounts(image_root, uids).items():
        (upper / "etc" / name).write_text(text)
    (upper / "etc/hosts").write_text("127.0.0.1 localhost desktop\n")
    (upper / "etc/hostname").write_text("desktop\n")
    _directory(upper / "tmp", 0, 0o1777)
    _directory(upper / "tmp/.X11-unix", 0, 0o1777)
    _directory(upper / "run", 0, 0o755)
    _directory(upper / "run/frontdesk", 0, 0o755)
    _directory(upper / "run/frontdesk/fb", uids.xserver, 0o700)
    _directory(upper / "run/user", 0, 0o755)
    _directory(upper / "run/user/desktop", uids.user, 0o700)
    _directory(upper / "opt", 0, 0o755)
    _directory(upper / CODE.lstrip("/"), 0, 0o755)
    _directory(upper / "home", 0, 0o755)
    skeleton = image_root / "etc/skel"
    home = upper / HOME.lstrip("/")
    if skeleton.is_dir():
        shutil.copytree(skeleton, home, symlinks=True)
    else:
        home.mkdir()
    for path in (home, *home.rglob("*")):
        os.chown(path, uids.user, uids.user, follow_symlinks=False)
    home.chmod(0o700)


def _directory(path: Path, uid: int, mode: int) -> None:
    path.mkdir(exist_ok=True)
    os.chown(path, uid, uid)
    path.chmod(mode)


def filter_descriptor() -> int:
    """A descriptor that bubblewrap reads the filter of system calls from."""
    descriptor = os.memfd_create("seccomp", 0)
    os.write(descriptor, bpf_program())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def bwrap_argv(bwrap: str, root: Path, control: Path, code: Path, spec: dict[str, Any], filter_fd: int) -> list[str]:
    """The command that turns the prepared root into a box whose pid 1 is the spawner.

    Args:
        control: the directory shared with the host.
        code: the staged probe, see `stage_code`.
        filter_fd: see `filter_descriptor`.
    """
    argv = [bwrap, "--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev"]
    for shared in ("sys", "sysrq-trigger", "fs"):  # uid 0 owns these files, so no capability is asked for to write them
        argv += ["--ro-bind-try", f"/proc/{shared}", f"/proc/{shared}"]
    argv += ["--perms", "1777", "--tmpfs", "/dev/shm"]
    argv += ["--bind", str(control), "/run/frontdesk/ctl"]
    argv += ["--ro-bind", str(code), CODE]
    argv += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if spec["network"] != "none":
        argv.append("--unshare-net")
    argv += ["--hostname", "desktop", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    argv += ["--seccomp", str(filter_fd)]
    argv += ["--cap-drop", "ALL"]  # started by root, bubblewrap would otherwise keep them all
    for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL"):
        argv += ["--cap-add", capability]
    return [*argv, "--setenv", "PATH", PATH, "--chdir", "/", "--", "/usr/bin/python3", "-I", "-S", "-c", START]
