"""The accessibility tree, asked of the helper that runs under the desktop's uid.

The helper can be killed, stopped or replaced by the agent's programs, so nothing it says is trusted beyond being JSON
of bounded size, and every wait has a deadline. A helper that died is started again once per request.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

from sandbox.probe.commands import CommandFailed, Process, SpawnerLink
from sandbox.probe.waiting import ready

__all__ = ["Accessibility", "AccessibilityUnavailable"]

HELPER = ["/usr/bin/python3", "-I", "/opt/frontdesk/sandbox/probe/a11y_helper.py"]
MAX_ANSWER = 8 << 20
MAX_DEPTH = 40
APP_TIMEOUT_MS = 1000
KEYS = frozenset({"role", "name", "states", "bounds", "text", "value", "children"})


class AccessibilityUnavailable(Exception):
    """The tree could not be had; the rest of the desktop may be well."""


class Accessibility:
    """Starts the helper when first asked and keeps it."""

    def __init__(self, link: SpawnerLink) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._in_w = self._out_r = -1

    @property
    def pid(self) -> int | None:
        """The helper's process: the desktop's user runs it, but it is none of the user's doing."""
        return None if self._process is None else self._process.pid

    def tree(self, *, app: str | None, max_nodes: int, deadline: float) -> dict[str, Any]:
        """The tree as {"apps": [nodes], "silent": whether an application did not answer, "truncated": bool}.

        Raises:
            AccessibilityUnavailable: the helper does not answer in time, twice died, or answers nonsense.
        """
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise AccessibilityUnavailable("the accessibility helper was busy with others until the deadline")
        try:
            request = {"app": app, "max_nodes": max_nodes, "max_depth": MAX_DEPTH, "timeout_ms": APP_TIMEOUT_MS}
            for attempt in (1, 2):
                if self._process is None or self._process.status is not None:
                    self._start()
                try:
                    return self._ask(request, deadline)
                except BrokenPipeError as error:
                    self._stop()
                    if attempt == 2:
                        raise AccessibilityUnavailable("the accessibility helper keeps ending") from error
            raise AssertionError("unreachable")
        finally:
            self._lock.release()

    def _start(self) -> None:
        self._stop()
        in_r, self._in_w = os.pipe()
        self._out_r, out_w = os.pipe()
        null = os.open("/dev/null", os.O_WRONLY)
        try:
            self._process = self._link.spawn(HELPER, [in_r, out_w, null], user="user", cwd="/", env={})
        except CommandFailed as error:
            raise AccessibilityUnavailable(str(error)) from error
        finally:
            for fd in (in_r, out_w, null):
                os.close(fd)

    def _stop(self) -> None:
        if self._process is not None:
            self._link.kill(self._process)
            self._process.close()
            os.close(self._in_w)
            os.close(self._out_r)
            self._process = None

    def _ask(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        os.write(self._in_w, json.dumps(request).encode() + b"\n")
        data = bytearray()
        while not data.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not ready([self._out_r], left):
                self._stop()
                raise AccessibilityUnavailable("the accessibility tree did not come before the deadline")
            more = os.read(self._out_r, 1 << 18)
            if not more:
                raise BrokenPipeError
            data += more
            if len(data) > MAX_ANSWER:
                self._stop()
                raise AccessibilityUnavailable(f"the accessibility tree is larger than {MAX_ANSWER} bytes")
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            self._stop()
            raise AccessibilityUnavailable("the accessibility helper did not answer with a tree") from error
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            raise AccessibilityUnavailable(f"the accessibility helper failed: {answer['error']}")
        if not isinstance(answer, dict) or not _is_tree(answer.get("apps"), request["max_nodes"]):
            self._stop()
            raise AccessibilityUnavailable("the accessibility helper did not answer with a tree")
        return {
            "apps": answer["apps"],
            "silent": bool(answer.get("silent")),
            "truncated": bool(answer.get("truncated")),
        }


def _is_tree(apps: Any, max_nodes: int) -> bool:
    """Whether these are nodes as the helper writes them: whoever reads them next may rely on every type and bound."""
    level, left = apps, max_nodes
    for _ in range(MAX_DEPTH + 2):
        if not isinstance(level, list) or len(level) > left:
            return False
        if not level:
            return True
        left -= len(level)
        below: list[Any] = []
        for node in level:
            if not isinstance(node, dict) or not _is_node(node) or not isinstance(node["children"], list):
                return False
            below.extend(node["children"])
        level = below
    return False


def _is_node(node: dict[str, Any]) -> bool:
    bounds, text, value = node.get("bounds"), node.get("text"), node.get("value")
    return (
        KEYS.issuperset(node)
        and isinstance(node.get("role"), str)
        and isinstance(node.get("name"), str)
        and isinstance(node.get("states"), list)
        and all(isinstance(state, str) for state in node["states"])
        and (bounds is None or (isinstance(bounds, list) and [type(b) for b in bounds] == [int] * 4))
        and all(abs(b) < 1 << 31 for b in bounds or ())
        and (text is None or isinstance(text, str))
        and (value is None or (type(value) in (int, float) and abs(value) < 1e300))
        and "children" in node
    )
