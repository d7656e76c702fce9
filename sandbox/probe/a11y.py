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
MAX_ANSWER = 16 << 20
APP_TIMEOUT_MS = 1000


class AccessibilityUnavailable(Exception):
    """The tree could not be had; the rest of the desktop may be well."""


class Accessibility:
    """Starts the helper when first asked and keeps it."""

    def __init__(self, link: SpawnerLink) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._in_w = self._out_r = -1

    def tree(self, *, app: str | None, max_nodes: int, deadline: float) -> dict[str, Any]:
        """The tree as {"apps": [nodes], "silent": [names], "truncated": bool}.

        Raises:
            AccessibilityUnavailable: the helper does not answer in time, twice died, or answers nonsense.
        """
        with self._lock:
            request = {"app": app, "max_nodes": max_nodes, "timeout_ms": APP_TIMEOUT_MS}
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
        if not isinstance(answer, dict) or not isinstance(answer.get("apps"), list):
            reason = answer.get("error", "no tree") if isinstance(answer, dict) else "no tree"
            raise AccessibilityUnavailable(f"the accessibility helper failed: {reason}")
        return answer
