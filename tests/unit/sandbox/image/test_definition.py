"""What changes a definition's hash, what does not, and what a bad definition says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandbox.errors import BadRequest
from sandbox.image import load_profile, profile_names
from tests.support.images import write_profile

FILES = {"etc/motd": "hello\n", "etc/skel/.config/app.conf": "a=1\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "p", packages="zip\nhostname  # why\n", bake="true\n", files=FILES)


def test_comments_order_repeats_and_description_do_not_change_the_hash(folder: Path) -> None:
    before = load_profile(folder).definition_hash
    (folder / "packages.txt").write_text("# group\n\nhostname\nzip\nzip\n")
    text = (folder / "profile.toml").read_text()
    (folder / "profile.toml").write_text(text.replace("for tests", "in other words"))
    assert load_profile(folder).definition_hash == before


def test_what_checkouts_do_not_keep_does_not_change_the_hash(folder: Path) -> None:
    before = load_profile(folder).definition_hash
    (folder / "files/etc/motd").chmod(0o600)
    (folder / "files/etc/empty").mkdir()
    (folder / "files/etc/__pycache__").mkdir()
    (folder / "files/etc/__pycache__/x.pyc").write_bytes(b"x")
    assert load_profile(folder).definition_hash == before


@pytest.mark.parametrize(
    "change",
    [
        lambda f: (f / "packages.txt").write_text("zip\n"),
        lambda f: (f / "packages.txt").write_text("zip\nhostname=3.23\n"),
        lambda f: (f / "bake.sh").write_text("false\n"),
        lambda f: (f / "bake.sh").unlink(),
        lambda f: (f / "files/etc/motd").write_text("bye\n"),
        lambda f: (f / "files/etc/motd").chmod(0o755),
        lambda f: (f / "files/etc/motd").rename(f / "files/etc/issue"),
        lambda f: (f / "files/etc/skel/.config/app.conf").unlink(),
        lambda f: (f / "profile.toml").write_text('name = "tiny"\ndescription = "x"\nsuite = "trixie"\n'),
        lambda f: (f / "profile.toml").write_text('name = "other"\ndescription = "x"\nsuite = "bookworm"\n'),
    ],
)
def test_what_changes_the_image_changes_the_hash(folder: Path, change: object) -> None:
    before = load_profile(folder).definition_hash
    assert callable(change)
    change(folder)
    assert load_profile(folder).definition_hash != before


def test_a_loaded_profile_is_a_value(folder: Path) -> None:
    profile = load_profile(folder)
    before = profile.definition_hash
    (folder / "files/etc/motd").write_text("changed under the build\n")
    assert profile.definition_hash == before
    assert {f.path: f.data for f in profile.files}["etc/motd"] == b"hello\n"


def test_executable_is_the_one_mode_bit_kept(folder: Path) -> None:
    (folder / "files/etc/motd").chmod(0o700)
    modes = {f.path: f.mode for f in load_profile(folder).files}
    assert modes == {"etc/motd": 0o755, "etc/skel/.config/app.conf": 0o644}


def test_every_profile_that_comes_along_loads() -> None:
    assert "light" in profile_names()
    for name in profile_names():
        profile = load_profile(name)
        assert profile.name == name
        assert profile.packages


@pytest.mark.parametrize(("name", "manager"), [("light", "icewm"), ("office", "xfwm4")])
def test_a_profile_has_what_a_desktop_is_started_with(name: str, manager: str) -> None:
    profile = load_profile(name)
    assert {"xvfb", "dbus", "at-spi2-core", "python3-xlib", "gir1.2-atspi-2.0", manager} <= set(profile.packages)
    session = next(f for f in profile.files if f.path == "usr/lib/frontdesk/session")
    assert session.executable
    assert f"exec {manager}".encode() in session.data


@pytest.fixture
def child(folder: Path) -> Path:
    """A profile beside `folder` that extends it."""
    files = {"etc/motd": "changed\n", "etc/new": "new\n"}
    made = write_profile(folder.parent / "q", name="more", packages="zip\nunzip\n", bake="date\n", files=files)
    _extend(made, "../p")
    return made


def _extend(folder: Path, base: str) -> None:
    with (folder / "profile.toml").open("a") as file:
        file.write(f'extends = "{base}"\n')


def test_a_profile_adds_to_the_one_that_it_extends(child: Path) -> None:
    profile = load_profile(child)
    assert profile.name == "more"
    assert profile.packages == ("hostname", "unzip", "zip")
    assert {f.path: f.data for f in profile.files} == {
        "etc/motd": b"changed\n",
        "etc/new": b"new\n",
        "etc/skel/.config/app.conf": b"a=1\n",
    }
    assert [line for line in profile.bake.split(b"\n") if line] == [b"true", b"date"]


def test_what_changes_the_extended_profile_changes_the_hash(child: Path, folder: Path) -> None:
    before = load_profile(child).definition_hash
    (folder / "files/etc/motd").write_text("hidden by the other's\n")
    assert load_profile(child).definition_hash == before
    (folder / "files/etc/skel/.config/app.conf").write_text("a=2\n")
    assert load_profile(child).definition_hash != before


def test_a_profile_extends_one_that_comes_along_by_name(child: Path, folder: Path) -> None:
    (child / "profile.toml").write_text((folder / "profile.toml").read_text())
    _extend(child, "light")
    assert set(load_profile(child).packages) == {*load_profile("light").packages, "zip", "unzip"}


def test_a_profile_that_extends_itself_or_another_release(child: Path, folder: Path) -> None:
    _extend(folder, "../q")
    with pytest.raises(BadRequest, match=r"p/profile.toml: the profile extends itself|q/profile.toml: .*itself"):
        load_profile(child)
    (folder / "profile.toml").write_text('name = "tiny"\ndescription = "x"\nsuite = "trixie"\n')
    with pytest.raises(BadRequest, match=r"suite is bookworm, but \.\./p is of trixie"):
        load_profile(child)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "packages.txt").write_text("zip\nfoo bar\n"), "packages.txt, line 2: 'foo bar'"),
        (lambda f: (f / "packages.txt").write_text("Zip!\n"), "line 1"),
        (lambda f: (f / "packages.txt").write_text("--include=x\n"), "line 1"),
        (lambda f: (f / "packages.txt").write_text("# none\n"), "names no package"),
        (lambda f: (f / "packages.txt").write_bytes(b"\xff\n"), "UTF-8"),
        (lambda f: (f / "packages.txt").unlink(), "cannot read .*packages.txt"),
        (lambda f: (f / "profile.toml").unlink(), "cannot read .*profile.toml"),
        (lambda f: (f / "profile.toml").write_text("name = "), "not TOML"),
        (lambda f: (f / "profile.toml").write_text('name = "a"\ndescription = "b"\nsuit = "c"\n'), "suit"),
        (lambda f: (f / "profile.toml").write_text('name = "a/b"\ndescription = "b"\nsuite = "c"\n'), "name"),
        (lambda f: (f / "files/link").symlink_to("/etc/passwd"), "files/link is not a regular file"),
        (lambda f: (f / "files/dir").symlink_to("/etc"), "files/dir is not a regular file"),
    ],
)
def test_a_bad_definition_names_file_and_line(folder: Path, change: object, message: str) -> None:
    assert callable(change)
    change(folder)
    with pytest.raises(BadRequest, match=message):
        load_profile(folder)


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(BadRequest, match="did you mean 'light'"):
        load_profile("ligth")
    with pytest.raises(BadRequest, match=re.escape("there are: ")):
        load_profile("zzz")
    with pytest.raises(BadRequest, match="no profile folder"):
        load_profile("./no-such-folder")
