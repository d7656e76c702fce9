"""Executes canonical actions: checks each against the screen, then hands it to the pointer or the keyboard."""

from __future__ import annotations

import time
from typing import Any

from sandbox.probe.keyboard import KEY_GAP_S, Keyboard
from sandbox.probe.pointer import Pointer

__all__ = ["Actor"]


class Actor:
    """Turns the JSON form of an action into input."""

    def __init__(self, pointer: Pointer, keyboard: Keyboard) -> None:
        self._pointer = pointer
        self._keyboard = keyboard

    @staticmethod
    def shortest_s(actions: list[dict[str, Any]]) -> float:
        """The time that actions take at the very least: what they wait, hold and type."""
        total = 0.0
        for action in actions:
            if action["kind"] == "wait":
                total += action.get("seconds", 1.0)
            total += action.get("hold_s", 0.0) + KEY_GAP_S * len(action.get("text", ""))
        return total

    def run(self, actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Execute in order; the first that is refused stops the rest, which are reported as skipped."""
        results: list[dict[str, Any]] = []
        refused = False
        for action in actions:
            if refused:
                results.append({"ok": False, "error": "skipped: an earlier action was refused", "elapsed_ms": 0.0})
                continue
            start, problem = time.monotonic(), None
            try:
                self._execute(action)
            except ValueError as error:
                problem, refused = str(error), True
            elapsed = (time.monotonic() - start) * 1000
            results.append({"ok": problem is None, "error": problem, "elapsed_ms": elapsed})
        return results

    def _execute(self, action: dict[str, Any]) -> None:
        kind = action["kind"]
        if kind == "type":
            self._keyboard.type(action["text"])
        elif kind == "press":
            self._keyboard.press(action["keys"], action.get("hold_s", 0.0))
        elif kind == "key_down":
            self._keyboard.key_down(action["key"])
        elif kind == "key_up":
            self._keyboard.key_up(action["key"])
        elif kind == "wait":
            time.sleep(action.get("seconds", 1.0))
        elif kind != "screenshot":
            self._point(kind, action)

    def _point(self, kind: str, action: dict[str, Any]) -> None:
        pointer, button = self._pointer, action.get("button", "left")
        if kind == "drag":
            path = [(point["x"], point["y"]) for point in action["path"]]
            for x, y in path:
                pointer.check(x, y)
            with self._keyboard.held(action.get("modifiers", ())):
                pointer.drag(path, button)
            return
        point = action.get("point")
        if point is not None:
            pointer.move(point["x"], point["y"])
        if kind == "move":
            return
        if kind == "button_down":
            pointer.down(button)
        elif kind == "button_up":
            pointer.up(button)
        else:
            with self._keyboard.held(action.get("modifiers", ())):
                if kind == "click":
                    pointer.click(button, action.get("clicks", 1))
                elif kind == "scroll":
                    pointer.scroll(action.get("dx", 0), action.get("dy", 0))
                else:
                    raise ValueError(f"a desktop cannot execute {kind!r}")
