"""What a desktop's start state is, as lines that can be compared: files, windows and the evidence that checks read.

Two setups of one bundle must give equal fingerprints, or attempts at it would not be attempts at the same task. Left
out are only things that differ without mattering: caches, logs, sockets, lists of recently used files (they hold times)
and process ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.errors import GraderFailed
from sandbox.desktop import Desktop
from sandbox.evidence import EvidenceRequest
from verigen.canonical import canonical_bytes, content_hash
from verigen.steps import HOME

__all__ = ["VOLATILE", "Fingerprint", "difference", "take_fingerprint"]

Fingerprint = frozenset[str]
"""One line per file, link, directory, window and evidence item."""

VOLATILE = (
    "./.cache",
    "./.dbus",
    "./.ICEauthority",
    "./.Xauthority",
    "./.xsession-errors",
    "./.local/share/recently-used.xbel",
    "./.local/share/gvfs-metadata",
    "./.config/pulse",
)
"""Paths below the home that are not part of the state."""
MAX_OUTPUT = 8 << 20
SHOWN = 3
SHOWN_BYTES = 120

_FILES = r"""
cd "$0" || exit 1
prune() { for path do printf '%s\n' -path "$path" -o; done; }
set -- $(prune "$@") -false
find . \( "$@" \) -prune -o -type f -print0 | sort -z | xargs -0 -r sha256sum
find . \( "$@" \) -prune -o ! -type f ! -type s ! -type p -printf '%y %m %p %l\n' | sort
"""


async def take_fingerprint(desktop: Desktop, requests: Sequence[EvidenceRequest]) -> Fingerprint:
    """Describe the present state.

    Raises:
        GraderFailed: it could not be read.
        DesktopError: the desktop failed.
    """
    listing = await desktop.exec(["/bin/sh", "-c", _FILES, HOME, *VOLATILE], max_output=MAX_OUTPUT)
    if not listing.ok or listing.truncated:
        raise GraderFailed(f"the files below {HOME} could not be listed: {listing.stderr.decode('utf-8', 'replace')}")
    lines = {f"file {line}" for line in listing.stdout.decode("utf-8", "surrogateescape").splitlines()}
    for window in (await desktop.observe(("windows",))).windows or ():
        bounds = window.bounds
        lines.add(
            f"window {window.app} {window.title!r} {bounds.width}x{bounds.height}+{bounds.x}+{bounds.y}"
            f"{' active' if window.active else ''}"
        )
    evidence = await desktop.collect(requests)
    for name, item in evidence.items.items():
        data = item.data
        if isinstance(data, list):
            data = [{key: value for key, value in entry.items() if key not in ("pid", "id")} for entry in data]
        shown = canonical_bytes(data)[:SHOWN_BYTES].decode("utf-8", "replace")
        lines.add(f"evidence {name} {item.status} {content_hash(data)} {shown}")
    return frozenset(lines)


def difference(one: Fingerprint, other: Fingerprint) -> str:
    """The first few lines that only one of them has; empty if they are equal."""
    lines = [f"only first: {line}" for line in sorted(one - other)]
    lines += [f"only second: {line}" for line in sorted(other - one)]
    more = f" (and {len(lines) - SHOWN} more)" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more
