"""What a desktop is started with: its users, its files, its command."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sandbox.backends.launch import Uids, bwrap_argv, populate, session_environment, stage_code
from sandbox.desktop import DesktopSpec


def test_no_two_desktops_share_a_uid() -> None:
    seen: set[int] = set()
    for slot in (0, 1, 2, 77, Uids.COUNT - 1):
        uids = Uids(slot).as_dict()
        assert set(uids) == {"user", "xserver", "probe"}
        assert seen.isdisjoint(uids.values())
        assert len(set(uids.values())) == 3
        seen.update(uids.values())
    assert max(seen) < 1 << 31
    assert min(seen) > 1_000_000


def _argv(**changes: Any) -> list[str]:
    spec = DesktopSpec(**changes).model_dump()
    return bwrap_argv("/usr/bin/bwrap", Path("/run/root"), Path("/run/ctl"), Path("/run/code"), spec, 9)


def test_the_box_keeps_three_capabilities_and_dies_with_its_keeper() -> None:
    argv = _argv()
    drop = argv.index("--cap-drop")
    assert argv[drop + 1] == "ALL"
    kept = [argv[at + 1] for at, word in enumerate(argv) if word == "--cap-add"]
    assert kept == ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"]
    assert drop < argv.index("--cap-add")  # in the other order nothing would be kept
    assert {"--die-with-parent", "--as-pid-1", "--new-session", "--clearenv"}.issubset(argv)
    assert {"--unshare-pid", "--unshare-ipc", "--unshare-uts"}.issubset(argv)


def test_the_network_is_unshared_once() -> None:
    # Without a network the namespace is made before, so that not even its own interface is up.
    assert "--unshare-net" in _argv(network="loopback")
    assert "--unshare-net" not in _argv(network="none")


def test_kernel_settings_are_shown_read_only_after_proc() -> None:
    argv = _argv()
    at = argv.index("/proc/sys")
    assert argv[at - 1 : at + 2] == ["--ro-bind-try", "/proc/sys", "/proc/sys"]
    assert argv.index("--proc") < at


def test_the_session_has_no_secret_and_nothing_of_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the host")
    environment = session_environment()
    assert "SECRET" not in environment
    assert environment["HOME"] == "/home/user"
    assert environment["LANG"] == "C.UTF-8"


def test_staged_code_can_be_read_by_all_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        stage_code(tmp_path / "code")
    finally:
        os.umask(before)
    staged = tmp_path / "code/sandbox"
    assert (staged / "keys.py").is_file()
    assert (staged / "probe/server.py").is_file()
    assert not (staged / "client.py").exists()  # the host's side stays with the host
    for path in (tmp_path / "code", *(tmp_path / "code").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change owners")
def test_a_fresh_desktop_has_its_users_and_a_private_home(tmp_path: Path) -> None:
    image, upper, uids = tmp_path / "image", tmp_path / "upper", Uids(3)
    (image / "etc/skel/.config/app").mkdir(parents=True)
    (image / "etc/skel/.config/app/settings").write_text("preset")
    (image / "etc/skel/link").symlink_to("/etc/passwd")
    (image / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (image / "etc/group").write_text("root:x:0:\n")
    upper.mkdir()
    populate(upper, image, uids)
    users = dict(line.split(":")[0:3:2] for line in (upper / "etc/passwd").read_text().splitlines())
    assert users == {"root": "0", "user": str(uids.user), "xserver": str(uids.xserver), "probe": str(uids.probe)}
    home = upper / "home/user"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / ".config/app/settings").read_text() == "preset"
    assert {path.lstat().st_uid for path in (home, *home.rglob("*"))} == {uids.user}
    assert (image / "etc/passwd").stat().st_uid == 0  # the link was not followed
    framebuffer = upper / "run/frontdesk/fb"
    assert (framebuffer.stat().st_uid, stat.S_IMODE(framebuffer.stat().st_mode)) == (uids.xserver, 0o700)
    assert stat.S_IMODE((upper / "tmp").stat().st_mode) == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change owners")
def test_an_image_without_a_skeleton_still_gives_a_home(tmp_path: Path) -> None:
    (tmp_path / "image/etc").mkdir(parents=True)
    for name in ("passwd", "group"):
        (tmp_path / "image/etc" / name).write_text("")
    (tmp_path / "upper").mkdir()
    populate(tmp_path / "upper", tmp_path / "image", Uids(0))
    assert list((tmp_path / "upper/home/user").iterdir()) == []
