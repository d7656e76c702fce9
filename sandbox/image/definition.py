"""The definition of a desktop image: a folder that says what goes into the root filesystem.

::

    dockerfiles/desktop/office/  profile.toml   name, description, Debian suite; `extends`, the profile that it adds to
                                 packages.txt   one package a line, `#` comments
                                 files/         copied over the root, owned by root
                                 bake.sh        optional; runs in the root at the end, without network

A profile that extends another has the other's packages besides its own, its files except where it has one of the same
path, and its bake script before its own.

A loaded `Profile` is a value: it holds the files' bytes, so what is hashed is what is built, whatever happens to the
folder meanwhile. The hash ignores what cannot change the image (comments, order of packages, description) and what
checkouts and wheels do not keep (owner, time, every mode bit but the executable one).
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox.errors import BadRequest

__all__ = ["Profile", "ProfileFile", "load_profile", "profile_names"]

_BUILTIN = Path(__file__).resolve().parents[2] / "dockerfiles" / "desktop"
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+(=[A-Za-z0-9.+~:-]+)?")
# Python writes these beside any .py file, in a checkout as in an installed wheel.
_IGNORED = "__pycache__"
# Raised when the build steps themselves change what comes out of an unchanged definition.
_RECIPE = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileFile:
    """A file that is copied into the root."""

    path: str
    """Where, relative to the root."""
    executable: bool
    data: bytes

    @property
    def mode(self) -> int:
        """Permission bits that it gets."""
        return 0o755 if self.executable else 0o644


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A desktop image's definition."""

    name: str
    description: str
    suite: str
    """Debian release, by code name."""
    packages: tuple[str, ...]
    """Sorted, without repeats; `name` or `name=version`."""
    files: tuple[ProfileFile, ...]
    """Sorted by path."""
    bake: bytes
    """Shell script run in the finished root; empty for none."""

    @property
    def definition_hash(self) -> str:
        """sha256 of everything that decides the image, but for the versions that the mirror has on the day."""
        parts = {
            "recipe": _RECIPE,
            "name": self.name,
            "suite": self.suite,
            "packages": sorted(set(self.packages)),
            "files": sorted([f.path, f.mode, hashlib.sha256(f.data).hexdigest()] for f in self.files),
            "bake": hashlib.sha256(self.bake).hexdigest(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class _ProfileToml(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")
    description: str = Field(min_length=1)
    suite: str = Field(pattern=r"^[a-z]+$")
    extends: str = ""
    """A profile that comes along, or a folder (with a slash) seen from this one's."""


def profile_names() -> list[str]:
    """Names of the profiles that come with Frontdesk."""
    return sorted(path.parent.name for path in _BUILTIN.glob("*/profile.toml"))


def load_profile(profile: str | Path = "light") -> Profile:
    """Read a definition.

    Args:
        profile: the name of one that comes with Frontdesk, or one's own folder (a Path, or a string with a slash).

    Raises:
        BadRequest: there is none, or something in it is wrong; the message names the file and the line.
    """
    return _load(_folder(profile), ())


def _folder(profile: str | Path) -> Path:
    if isinstance(profile, Path) or os.sep in profile:
        folder = Path(profile).expanduser()
        if not folder.is_dir():
            raise BadRequest(f"there is no profile folder {folder}")
        return folder
    if profile not in profile_names():
        near = difflib.get_close_matches(profile, profile_names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(profile_names())}."
        raise BadRequest(f"there is no desktop profile {profile!r}; {hint} A folder of your own is given with a slash")
    return _BUILTIN / profile


def _load(folder: Path, extending: tuple[Path, ...]) -> Profile:
    """The profile in a folder, with all that it takes from others.

    Args:
        extending: folders of the profiles that extend this one.
    """
    if folder.resolve() in extending:
        raise BadRequest(f"{folder / 'profile.toml'}: the profile extends itself")
    head = _read_toml(folder / "profile.toml")
    bake = folder / "bake.sh"
    own = Profile(
        name=head.name,
        description=head.description,
        suite=head.suite,
        packages=_read_packages(folder / "packages.txt"),
        files=_read_files(folder / "files"),
        bake=_read_bytes(bake) if bake.exists() else b"",
    )
    if not head.extends:
        return own
    named = folder / head.extends if os.sep in head.extends else head.extends
    base = _load(_folder(named), (*extending, folder.resolve()))
    if base.suite != own.suite:
        raise BadRequest(f"{folder / 'profile.toml'}: suite is {own.suite}, but {head.extends} is of {base.suite}")
    files = {file.path: file for file in (*base.files, *own.files)}
    return replace(
        own,
        packages=tuple(sorted({*base.packages, *own.packages})),
        files=tuple(files[path] for path in sorted(files)),
        bake=b"\n".join(script for script in (base.bake, own.bake) if script),
    )


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from error


def _read_text(path: Path) -> str:
    try:
        return _read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 text") from error


def _read_toml(path: Path) -> _ProfileToml:
    try:
        return _ProfileToml.model_validate(tomllib.loads(_read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadRequest(
            f"{path}: {key}: {first['msg']} (its keys are name, description, suite and extends)"
        ) from error


def _read_packages(path: Path) -> tuple[str, ...]:
    found: set[str] = set()
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if not _PACKAGE.fullmatch(name):
            raise BadRequest(f"{path}, line {number}: {name!r} is not one Debian package name (or name=version)")
        found.add(name)
    if not found:
        raise BadRequest(f"{path} names no package")
    return tuple(sorted(found))


def _read_files(folder: Path) -> tuple[ProfileFile, ...]:
    found: list[ProfileFile] = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if _IGNORED in relative.parts or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or not path.is_file():
            raise BadRequest(
                f"{path} is not a regular file; make links in bake.sh (wheels and zip files do not keep them)"
            )
        executable = bool(path.stat().st_mode & 0o100)
        found.append(ProfileFile(path=relative.as_posix(), executable=executable, data=_read_bytes(path)))
    return tuple(found)
