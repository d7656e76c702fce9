"""Whether a mirror has newer packages than an image: a report, never a reason to refuse the image."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import MissingRequirement
from sandbox.image.manifest import Image
from sandbox.image.sources import machine_sources

__all__ = ["Drift", "check_drift"]

# `Inst NAME [installed] (candidate RELEASE [ARCH])`; a newly required package has no installed version.
_INST = re.compile(r"Inst (\S+) (?:\[(\S+)\] )?\((\S+) ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """How an image differs from one built now."""

    checked: bool
    """False when the mirror could not be asked; then `changed` says nothing."""
    changed: dict[str, tuple[str | None, str]]
    """By package: the version in the image (None: not in it) and the one that apt would install now."""
    reason: str
    """Why it was not checked; empty if it was."""


def check_drift(image: Image, *, timeout_s: float = 120.0) -> Drift:
    """Ask apt what it would upgrade in the image. Changes nothing and needs no root; without a network it says so.

    Args:
        timeout_s: for each of the two apt calls.
    """
    try:
        sources = machine_sources(_suite(image))
        with tempfile.TemporaryDirectory(prefix="frontdesk-drift-") as name:
            folder = Path(name)
            sources.write(folder)
            _apt(image, folder, ["update"], timeout_s)
            output = _apt(image, folder, ["--simulate", "dist-upgrade"], timeout_s)
    except MissingRequirement as error:
        return Drift(checked=False, changed={}, reason=str(error))
    except subprocess.CalledProcessError as error:
        return Drift(checked=False, changed={}, reason=f"apt could not be asked: {error.stderr.strip()}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Drift(checked=False, changed={}, reason=f"apt could not be asked: {error}")
    return Drift(
        checked=True, changed={name: (old or None, new) for name, old, new in _INST.findall(output)}, reason=""
    )


def _suite(image: Image) -> str:
    text = (image.root / "usr/lib/os-release").read_text(encoding="utf-8")
    match = re.search(r"^VERSION_CODENAME=(\w+)$", text, re.MULTILINE)
    if match is None:
        raise OSError(f"{image.root} does not say which Debian release it is")
    return match[1]


def _apt(image: Image, folder: Path, command: list[str], timeout_s: float) -> str:
    """Run apt-get with the image's package state and, for everything that it writes, folders of its own."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": str(folder),
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": str(folder / "lists"),
        "Dir::State::status": str(image.root / "var/lib/dpkg/status"),
        "Dir::State::extended_states": str(image.root / "var/lib/apt/extended_states"),
        "Dir::Cache": str(folder / "cache"),
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
        "Acquire::Retries": "0",
    }
    argv = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items()), *command]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=timeout_s, env=_environment())
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8"}
