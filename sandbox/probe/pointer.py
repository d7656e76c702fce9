"""The mouse: canonical pointer actions become X events here, through the XTEST extension."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from Xlib import X

__all__ = ["BUTTONS", "Pointer"]

BUTTONS = {"left": 1, "middle": 2, "right": 3, "back": 8, "forward": 9}
WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}
DOUBLE_CLICK_S = 0.55
"""Toolkits join two presses within 400 ms, Chromium within 500; separate clicks on one spot keep further apart."""
DOUBLE_CLICK_PX = 6
MULTI_CLICK_GAP_S = 0.03
DRAG_STEP_PX = 12


class Pointer:
    """Moves the pointer and presses its buttons.

    Args:
        connection: a python-xlib Display that owns no resources.
        width, height: screen size in pixels; a point outside raises ValueError and nothing is done.
    """

    def __init__(self, connection: Any, width: int, height: int) -> None:
        self._display = connection
        self._width, self._height = width, height
        self._last_click = ("", -1000, -1000, 0.0)  # button, x, y, time

    def position(self) -> tuple[int, int]:
        """Where the pointer is, pixels."""
        reply = self._display.screen().root.query_pointer()
        return int(reply.root_x), int(reply.root_y)

    def check(self, x: int, y: int) -> None:
        """Refuse a point outside the screen."""
        if not (0 <= x < self._width and 0 <= y < self._height):
            raise ValueError(f"point ({x}, {y}) is outside the screen of {self._width}x{self._height}")

    def move(self, x: int, y: int) -> None:
        """Jump to a pixel."""
        self.check(x, y)
        self._display.xtest_fake_input(X.MotionNotify, x=x, y=y)
        self._display.sync()

    def down(self, button: str) -> None:
        """Press a button and keep it down."""
        self._separate(button)
        self._button(X.ButtonPress, BUTTONS[button])

    def up(self, button: str) -> None:
        """Release a button."""
        self._button(X.ButtonRelease, BUTTONS[button])

    def _button(self, event: int, number: int) -> None:
        self._display.xtest_fake_input(event, number)
        self._display.sync()

    def click(self, button: str, clicks: int) -> None:
        """Press and release `clicks` times where the pointer is."""
        self._separate(button)
        for number in range(clicks):
            if number:
                time.sleep(MULTI_CLICK_GAP_S)
            self._button(X.ButtonPress, BUTTONS[button])
            self._button(X.ButtonRelease, BUTTONS[button])
        self._last_click = (button, *self.position(), time.monotonic())

    def _separate(self, button: str) -> None:
        """Wait until a press here is no second click of the click before."""
        last_button, last_x, last_y, when = self._last_click
        x, y = self.position()
        if button == last_button and max(abs(x - last_x), abs(y - last_y)) < DOUBLE_CLICK_PX:
            time.sleep(max(0.0, when + DOUBLE_CLICK_S - time.monotonic()))

    def drag(self, path: Sequence[tuple[int, int]], button: str) -> None:
        """Press at the first point, pass through the others in small steps, release at the last.

        The steps are what makes toolkits see a drag and not a jump.
        """
        for x, y in path:
            self.check(x, y)
        if len(path) > 1:
            self.move(*path[0])
        start, rest = (path[0], path[1:]) if len(path) > 1 else (self.position(), path)
        self.down(button)
        try:
            for target in rest:
                distance = math.dist(start, target)
                steps = max(2, math.ceil(distance / DRAG_STEP_PX))
                for step in range(1, steps + 1):
                    self.move(
                        round(start[0] + (target[0] - start[0]) * step / steps),
                        round(start[1] + (target[1] - start[1]) * step / steps),
                    )
                    time.sleep(0.004)
                start = target
            time.sleep(0.03)
        finally:
            self.up(button)

    def scroll(self, dx: int, dy: int) -> None:
        """Turn the wheel: dx clicks right, dy clicks up."""
        for count, direction in ((abs(dy), "up" if dy > 0 else "down"), (abs(dx), "right" if dx > 0 else "left")):
            for _ in range(count):
                self._button(X.ButtonPress, WHEEL[direction])
                self._button(X.ButtonRelease, WHEEL[direction])
                time.sleep(0.002)
