"""Which of a machine's apt entries a build uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import MissingRequirement
from sandbox.image.sources import machine_sources

DEB822 = """\
Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://vendor.example
Suites: nodistro
Components: main

Types: deb
URIs: http://vendor.example/stable
Suites: bookworm
Components: stable
"""
LINES = """\
# deb http://commented.example/debian bookworm main
deb [signed-by=/etc/k.gpg arch=amd64] http://mirror.example/debian bookworm main non-free  # why
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/security bookworm-security main
deb http://vendor.example cloud-sdk-bookworm main
deb http://mirror.example/debian trixie main
"""


def _etc(tmp_path: Path, **files: str) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        path = tmp_path / "sources.list" if name == "list" else tmp_path / "sources.list.d" / name.replace("_", ".")
        path.write_text(text)
    return tmp_path


def test_only_the_releases_own_stanzas_are_taken(tmp_path: Path) -> None:
    found = machine_sources("bookworm", _etc(tmp_path, debian_sources=DEB822))
    assert found.lines == ""
    assert found.deb822 == (
        "Types: deb\n"
        "URIs: http://mirror.example/debian\n"
        "Suites: bookworm bookworm-updates\n"
        "Components: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )


def test_only_the_releases_own_lines_are_taken(tmp_path: Path) -> None:
    found = machine_sources("bookworm", _etc(tmp_path, list=LINES))
    assert found.deb822 == ""
    assert found.lines.splitlines() == [
        "deb [signed-by=/etc/k.gpg arch=amd64] http://mirror.example/debian bookworm main",
        "deb http://mirror.example/security bookworm-security main",
    ]


def test_an_embedded_key_survives(tmp_path: Path) -> None:
    key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc=\n"
    text = f"Types: deb\nURIs: http://m.example\nSuites: bookworm\nComponents: main\n{key}"
    assert machine_sources("bookworm", _etc(tmp_path, a_sources=text)).deb822.endswith(
        "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc=\n"
    )


@pytest.mark.parametrize(
    "text", ["", "deb http://m.example/debian trixie main\n", "deb http://s.example bookworm-security main\n"]
)
def test_a_machine_without_the_release_is_told_what_to_add(tmp_path: Path, text: str) -> None:
    with pytest.raises(MissingRequirement, match=r"no apt source for Debian bookworm.*To fix it: add an entry"):
        machine_sources("bookworm", _etc(tmp_path, list=text))


def test_written_files_are_named_for_apt(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    sources = machine_sources("bookworm", _etc(tmp_path, list=LINES, debian_sources=DEB822))
    written = sources.write(tmp_path / "out")
    assert [path.name for path in written] == ["machine.sources", "machine.list"]
    assert written[1].read_text() == sources.lines
