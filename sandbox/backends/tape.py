"""A tape: what was asked of desktops and what they answered, as a tree of requests.

::

    DIR/index.jsonl      header, then one line per desktop spec (a root) and per answered request (an entry)
    DIR/blobs/SHA256     frames and other bytes by the hash of their content, zstd; each is stored once
    NAME.zip             the same files in one archive, to keep and to hand on (`pack`)

The state of a desktop is named by a key: of a root the hash of its spec, of an entry the hash of the previous key and
of the request. So recordings that begin alike share their beginning and branch where they differ, and one tape answers
any branch that was recorded. Answers, deadlines, request ids and times are not part of a key. The first answer recorded
for a key stays.

Guarantees: an entry is readable only when its blobs are (they are written first); a last line that was cut short by a
crash is ignored, and removed by the next recording; any other damage is refused with the line's number, as is a format
version that this code does not know; one process records into a tape at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import zstandard

from sandbox.desktop import DesktopSpec
from sandbox.errors import BadRequest, RecordingMiss

__all__ = ["Entry", "Root", "Tape", "pack", "root_key", "state_key"]

FORMAT = "frontdesk-tape"
VERSION = 1
KEPT_BLOBS = 32
_INDEX, _BLOBS = "index.jsonl", "blobs"
_NAME = re.compile(r"[0-9a-f]{64}")
_PACKED_AT = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can hold: equal tapes pack to equal bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """The state of a desktop fresh from its boot."""

    key: str
    spec: DesktopSpec
    image_digest: str
    started: float
    """When it was first recorded, seconds since the epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One request in one state, and its answer."""

    key: str
    """The state after it."""
    parent: str
    """The state before it."""
    request: dict[str, Any]
    answer: Any
    """JSON data; None if it failed."""
    error: dict[str, Any] | None
    """How it failed; None if it did not."""
    seconds: float
    """How long it took."""


def root_key(spec: DesktopSpec) -> str:
    """The state of a fresh desktop of this spec."""
    return _hash("root", spec.model_dump(mode="json"))


def state_key(parent: str, request: dict[str, Any]) -> str:
    """The state after a request in the state `parent`."""
    return _hash(parent, request)


def _hash(before: str, data: dict[str, Any]) -> str:
    return hashlib.sha256(f"{before}\n{_canonical(data)}".encode()).hexdigest()


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


class _Files:
    """The files of a tape, in a directory or in a zip."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = None if path.is_dir() else zipfile.ZipFile(path)

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes() if self._archive is None else self._archive.read(name)

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()


class Tape:
    """A tape. Made by `open` or `record`; `close` it, or use it in a `with` block."""

    def __init__(self, files: _Files, index: bytes) -> None:
        self.name = str(files.path)
        self.roots: dict[str, Root] = {}
        self.entries: dict[str, Entry] = {}
        self._files = files
        self._known: dict[str, list[dict[str, Any]]] = {}
        self._has_header = False
        self._index: IO[bytes] | None = None
        self.blob = lru_cache(maxsize=KEPT_BLOBS)(self._load_blob)
        for number, line in enumerate(index.split(b"\n")[:-1], start=1):  # what follows the last newline was cut short
            self._load(number, line)

    @classmethod
    def open(cls, path: str | Path) -> Tape:
        """Read a tape from a directory or a zip.

        Raises:
            BadRequest: there is none, it is damaged, or its version is unknown.
        """
        try:
            files = _Files(Path(path))
        except (OSError, zipfile.BadZipFile) as error:
            raise BadRequest(f"there is no tape at {path}: {error}") from error
        try:
            tape = cls(files, files.read(_INDEX))
            if not tape._has_header:
                raise BadRequest(f"{path} is not a tape: its index has no header; record it again")
        except (OSError, KeyError) as error:
            files.close()
            raise BadRequest(f"there is no tape at {path}: {error}") from error
        except BaseException:
            files.close()
            raise
        return tape

    @classmethod
    def record(cls, directory: str | Path) -> Tape:
        """Open a directory to record into: a new tape, or one to add branches to.

        Raises:
            BadRequest: another process records into it, it is damaged, or its version is unknown.
        """
        directory = Path(directory)
        (directory / _BLOBS).mkdir(parents=True, exist_ok=True)
        index = (directory / _INDEX).open("a+b")
        try:
            try:
                fcntl.flock(index, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadRequest(f"another process records into {directory}; choose another directory") from None
            index.seek(0)
            data = index.read()
            tape = cls(_Files(directory), data)
            index.truncate(data.rfind(b"\n") + 1)
        except BaseException:
            index.close()
            raise
        tape._index = index
        if not tape._has_header:
            tape._write({"format": FORMAT, "version": VERSION})
        return tape

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of its files. Idempotent."""
        self._files.close()
        if self._index is not None:
            self._index.close()
            self._index = None

    def add_root(self, spec: DesktopSpec, image_digest: str, started: float) -> Root:
        """Record that a desktop was booted; the first such record stays.

        Raises:
            BadRequest: the tape has this spec from another image.
        """
        key = root_key(spec)
        root = self.roots.get(key)
        if root is None:
            root = Root(key=key, spec=spec, image_digest=image_digest, started=started)
            self._write({"root": key, "spec": spec.model_dump(mode="json"), "image": image_digest, "started": started})
            self.roots[key] = root
        if root.image_digest != image_digest:
            raise BadRequest(
                f"{self.name} holds this desktop from image {root.image_digest}, not {image_digest}; "
                "record into a new directory"
            )
        return root

    def add(self, entry: Entry) -> Entry:
        """Record an answer and return the entry that stays: the first one of its key."""
        kept = self.entries.get(entry.key)
        if kept is not None:
            return kept
        line = {"key": entry.key, "parent": entry.parent, "request": entry.request, "seconds": entry.seconds}
        self._write({**line, **({"answer": entry.answer} if entry.error is None else {"error": entry.error})})
        self._keep(entry)
        return entry

    def known(self, key: str) -> list[dict[str, Any]]:
        """The requests that this state has answers for."""
        return list(self._known.get(key, ()))

    def add_blob(self, data: bytes) -> str:
        """Store bytes once and return their name."""
        name = hashlib.sha256(data).hexdigest()
        path = self._files.path / _BLOBS / name
        if not path.exists():
            temporary = path.with_name(f".{name}")
            temporary.write_bytes(zstandard.ZstdCompressor().compress(data))
            temporary.replace(path)
        return name

    def _load_blob(self, name: str) -> bytes:
        try:
            if _NAME.fullmatch(name) is None:
                raise ValueError("it has no proper name")
            data = zstandard.ZstdDecompressor().decompress(self._files.read(f"{_BLOBS}/{name}"))
            if hashlib.sha256(data).hexdigest() != name:
                raise ValueError("its content is not what its name says")
        except (OSError, KeyError, ValueError, zstandard.ZstdError) as error:
            raise RecordingMiss(f"{self.name} lost a part of this answer ({name[:12]}): {error}") from error
        return data

    def _write(self, line: dict[str, Any]) -> None:
        if self._index is None:
            raise BadRequest(f"{self.name} is not open for recording; use Tape.record(directory)")
        self._index.write(_canonical(line).encode() + b"\n")
        self._index.flush()

    def _keep(self, entry: Entry) -> None:
        self.entries[entry.key] = entry
        self._known.setdefault(entry.parent, []).append(entry.request)

    def _load(self, number: int, raw: bytes) -> None:
        try:
            line = json.loads(raw)
            if number == 1:
                self._load_header(line)
            elif "root" in line:
                self._load_root(line)
            else:
                self._load_entry(line)
        except BadRequest:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"line {number} of the index of {self.name} is damaged ({error!r}); record it again"
            raise BadRequest(message) from error

    def _load_header(self, line: dict[str, Any]) -> None:
        if line["format"] != FORMAT:
            raise ValueError("it is not a tape's header")
        if line["version"] != VERSION:
            raise BadRequest(
                f"{self.name} is a tape of version {line['version']}, and this Frontdesk plays version {VERSION}; "
                "record it again, or use the Frontdesk that made it"
            )
        self._has_header = True

    def _load_root(self, line: dict[str, Any]) -> None:
        spec = DesktopSpec.model_validate(line["spec"])
        if line["root"] != root_key(spec):
            raise ValueError("its key does not fit")
        root = Root(key=line["root"], spec=spec, image_digest=line["image"], started=float(line["started"]))
        self.roots[root.key] = root

    def _load_entry(self, line: dict[str, Any]) -> None:
        if line["parent"] not in self.roots and line["parent"] not in self.entries:
            raise ValueError("it follows a state that is not there")
        if line["key"] != state_key(line["parent"], line["request"]):
            raise ValueError("its key does not fit")
        entry = Entry(
            key=line["key"],
            parent=line["parent"],
            request=line["request"],
            answer=line.get("answer"),
            error=line.get("error"),
            seconds=float(line["seconds"]),
        )
        self._keep(entry)


def pack(directory: str | Path, archive: str | Path) -> None:
    """Put a recorded directory into one zip; equal tapes give equal bytes.

    Raises:
        BadRequest: the directory holds no sound tape.
    """
    Tape.open(directory).close()
    directory = Path(directory)
    names = [_INDEX, *sorted(f"{_BLOBS}/{path.name}" for path in (directory / _BLOBS).iterdir())]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            if not Path(name).name.startswith("."):  # a blob whose writing a crash cut short
                info = zipfile.ZipInfo(name, _PACKED_AT)
                info.compress_type = zipfile.ZIP_DEFLATED
                packed.writestr(info, (directory / name).read_bytes())
