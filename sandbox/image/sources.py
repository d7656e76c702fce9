"""Where packages come from: the machine's own apt configuration, so that no mirror's address is written anywhere else.

Of `/etc/apt` only entries for the profile's Debian release are taken (the release itself, its updates and its security
updates, component main); third parties' repositories are not. Of apt's options only those that say how to reach a
mirror.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import MissingRequirement

__all__ = ["AptSources", "machine_apt_options", "machine_sources"]

_KEPT_OPTIONS = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Max-ValidTime", "Acquire::ForceIPv4")


@dataclass(frozen=True, kw_only=True, slots=True)
class AptSources:
    """Package sources for one release."""

    deb822: str
    """Stanzas for a `.sources` file."""
    lines: str
    """One-line entries for a `.list` file."""

    def write(self, folder: Path) -> list[Path]:
        """Write them as files that apt reads; return those that hold something."""
        written = []
        for name, text in (("machine.sources", self.deb822), ("machine.list", self.lines)):
            if text:
                (folder / name).write_text(text, encoding="utf-8")
                written.append(folder / name)
        return written


def machine_sources(suite: str, etc_apt: Path = Path("/etc/apt")) -> AptSources:
    """The machine's package sources for a Debian release.

    Raises:
        MissingRequirement: it has none.
    """
    stanzas: list[str] = []
    lines: list[str] = []
    parts = etc_apt / "sources.list.d"
    for path in [etc_apt / "sources.list", *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]:
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".sources":
            stanzas += _wanted_stanzas(text, suite)
        else:
            lines += _wanted_lines(text, suite)
    if not any(suite in _suites_of(stanza) for stanza in stanzas) and not any(f" {suite} " in line for line in lines):
        raise MissingRequirement(
            f"this machine has no apt source for Debian {suite}",
            fix=f"add an entry for {suite} main below {parts}, and its key ring (package debian-archive-keyring)",
        )
    return AptSources(deb822="\n".join(stanzas), lines="".join(line + "\n" for line in lines))


def machine_apt_options() -> str:
    """The machine's apt settings for reaching a mirror (proxy, certificates, validity dates), as an apt.conf file."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    kept = [line for line in dump.splitlines() if line.startswith(_KEPT_OPTIONS) and not line.endswith(' "";')]
    return "".join(line + "\n" for line in kept)


def _wanted_suites(suite: str) -> set[str]:
    return {suite, f"{suite}-updates", f"{suite}-security"}


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and name:
            fields[name] += "\n" + line
        elif ":" in line:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def _suites_of(stanza: str) -> list[str]:
    return next((value.split() for key, value in _fields(stanza).items() if key.lower() == "suites"), [])


def _wanted_stanzas(text: str, suite: str) -> Iterator[str]:
    for stanza in _split_stanzas(text):
        fields = _fields(stanza)
        known = {key.lower(): value for key, value in fields.items()}
        suites = [name for name in known.get("suites", "").split() if name in _wanted_suites(suite)]
        enabled = known.get("enabled", "yes").lower() not in {"no", "false", "off", "0"}
        if not (
            suites
            and enabled
            and "deb" in known.get("types", "").split()
            and "main" in known.get("components", "").split()
        ):
            continue
        narrowed = {"types": "deb", "suites": " ".join(suites), "components": "main"}
        yield "".join(f"{key}: {narrowed.get(key.lower(), value)}\n" for key, value in fields.items())


def _split_stanzas(text: str) -> Iterator[str]:
    stanza: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            stanza.append(line)
        elif stanza:
            yield "\n".join(stanza)
            stanza = []


def _wanted_lines(text: str, suite: str) -> Iterator[str]:
    for line in text.splitlines():
        words = shlex.split(line, comments=True, posix=False)
        if words[:1] != ["deb"]:
            continue
        options: list[str] = []
        rest = words[1:]
        if rest and rest[0].startswith("["):
            end = next((i for i, word in enumerate(rest) if word.endswith("]")), len(rest) - 1)
            options, rest = rest[: end + 1], rest[end + 1 :]
        if len(rest) >= 3 and rest[1] in _wanted_suites(suite) and "main" in rest[2:]:
            yield " ".join(["deb", *options, rest[0], rest[1], "main"])
