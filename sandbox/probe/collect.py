"""Evidence, item by item: each request is answered ok, missing, too_large or error, and none stops the others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from sandbox.probe.a11y import Accessibility, AccessibilityUnavailable
from sandbox.probe.commands import CommandFailed, Drain, SpawnerLink, run
from sandbox.probe.files import FileRefused, Files

__all__ = ["Collector"]

MAX_NODES = 4000
MAX_OUTPUT = 1 << 18
MAX_ARGUMENTS = 1 << 16
MAX_READS = 4
"""How often a file is read that changes each time: a program may just be saving it."""
MISSING = frozenset({"missing", "unreadable", "denied", "changed"})


def _ok(data: Any) -> dict[str, Any]:
    return {"status": "ok", "data": data, "reason": ""}


def _not_ok(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "data": None, "reason": reason}


class Collector:
    """Gathers what a check asked for."""

    def __init__(
        self,
        link: SpawnerLink,
        drain: Drain,
        files: Files,
        accessibility: Accessibility,
        windows: Callable[[], list[dict[str, Any]]],
        user_uid: int,
    ) -> None:
        self._link = link
        self._drain = drain
        self._files = files
        self._accessibility = accessibility
        self._windows = windows
        self._user_uid = user_uid
        self._collectors = {
            "file": self._file,
            "glob": self._glob,
            "command": self._command,
            "setting": self._setting,
            "accessibility": self._nodes,
            "windows": self._window_list,
            "process": self._processes,
        }

    def collect(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Answer one request. A file's bytes are given as bytes, everything else is JSON."""
        try:
            answer: dict[str, Any] = self._collectors[request["type"]](request, deadline)
            return answer
        except FileRefused as error:
            status = "missing" if error.kind in MISSING else "too_large" if error.kind == "too_large" else "error"
            return _not_ok(status, str(error))
        except (CommandFailed, AccessibilityUnavailable) as error:
            return _not_ok("error", str(error))

    def _file(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        # Links out of the home are not followed; a path that says openly where it leads is not held to it.
        plain = os.path.normpath(self._files.absolute(request["path"]))
        inside = self._files.home if plain.startswith(self._files.home + "/") else ""
        for reads in range(1, MAX_READS + 1):
            try:
                with self._files.read(
                    request["path"], user="user", max_bytes=request["max_bytes"], inside=inside, deadline=deadline
                ) as transfer:
                    return _ok(b"".join(transfer.chunks(deadline)))
            except FileRefused as error:
                if error.kind != "changed" or reads == MAX_READS:
                    raise
        raise AssertionError("the last read returns or raises")

    def _glob(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        return _ok(self._files.glob(request["pattern"], max_items=request["max_items"], deadline=deadline))

    def _run(self, argv: list[str], user: str, deadline: float) -> Any:
        return run(
            self._link,
            self._drain,
            argv,
            user=user,
            cwd=None,
            env={},
            stdin=b"",
            deadline=deadline,
            max_output=MAX_OUTPUT,
        )

    def _command(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        deadline = min(deadline, time.monotonic() + request["timeout_s"])
        outcome = self._run(list(request["argv"]), request["user"], deadline)
        if outcome.timed_out:
            return _not_ok("error", f"{request['argv'][0]} did not end in time")
        if outcome.truncated:
            return _not_ok("too_large", f"{request['argv'][0]} printed more than {MAX_OUTPUT} bytes")
        return _ok(
            {
                "exit_code": outcome.status,
                "stdout": outcome.stdout.decode("utf-8", "replace"),
                "stderr": outcome.stderr.decode("utf-8", "replace"),
            }
        )

    def _setting(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        if request["key"] is None:
            argv = ["gsettings", "list-recursively", request["schema_id"]]
        else:
            argv = ["gsettings", "get", request["schema_id"], request["key"]]
        outcome = self._run(argv, "user", deadline)
        if outcome.timed_out:
            return _not_ok("error", "gsettings did not end in time")
        if outcome.status != 0:
            return _not_ok("missing", outcome.stderr.decode("utf-8", "replace").strip())
        text = outcome.stdout.decode("utf-8", "replace").strip()
        if request["key"] is not None:
            return _ok(text)
        values = {}
        for line in text.splitlines():
            fields = line.split(" ", 2)
            if len(fields) != 3:
                return _not_ok("error", f"gsettings printed {line[:80]!r}")
            values[fields[1]] = fields[2]
        return _ok(values)

    def _nodes(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        tree = self._accessibility.tree(app=request["app"], max_nodes=MAX_NODES, deadline=deadline)
        if not tree["apps"]:
            if tree.get("silent"):
                return _not_ok("error", f"{request['app']} does not answer accessibility requests")
            return _not_ok("missing", f"no application {request['app']!r} is in the accessibility tree")
        found = []
        stack = list(reversed(tree["apps"]))
        while stack:
            node = stack.pop()
            children = node.get("children", [])
            if request["role"] in (None, node.get("role")) and request["name_is"] in (None, node.get("name")):
                found.append({key: value for key, value in node.items() if key != "children"})
            stack.extend(reversed(children))
        if not found:
            return _not_ok("missing", f"{request['app']} has no node of that role and name")
        return _ok(found)

    def _window_list(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        return _ok(self._windows())

    def _processes(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                if os.stat(f"/proc/{entry}").st_uid != self._user_uid or int(entry) == self._accessibility.pid:
                    continue
                with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as handle:
                    name = handle.read().strip()
                with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as handle:
                    argv = handle.read(MAX_ARGUMENTS).rstrip("\0").split("\0")
            except OSError:
                continue  # it ended while we looked
            if argv == [""]:
                continue  # it ended and waits for its parent to notice
            # The kernel cuts names to 15 characters.
            if name == request["process"][:15] or os.path.basename(argv[0]) == request["process"]:
                found.append({"pid": int(entry), "argv": argv})
        return _ok(sorted(found, key=lambda item: item["pid"]))
