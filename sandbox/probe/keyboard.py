"""The keyboard: keys and exact text through XTEST, whatever the layout.

A symbol that the current layout has is typed with its own key. Any other (accents, CJK, emoji) is bound to a spare
keycode first. All symbols of one text that need a binding are bound together before its first key is sent, and a
binding is kept until its keycode is needed for another symbol: an application asks for the map when it handles the key,
which may be later than when the key was sent, so changing a map under unread keys would change the text.

A text with more new symbols than spare keycodes is typed in pieces, each piece given time to be read.

Some applications do not do at once what Enter, Tab and chords do, or take letters beyond the basic plane (emoji)
another way than others; there the application is waited for, so that nothing overtakes anything (see `receipt`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from Xlib import X

from sandbox.keys import keysym
from sandbox.probe.receipt import Receipt

__all__ = ["KEY_GAP_S", "Keyboard"]

CONTROL_KEYS = {"\n": "enter", "\t": "tab"}
FIRST_BEYOND_BASIC_PLANE = 0x0101_0000
"""The keysym of U+10000; that of any later character is larger."""
REBIND_QUIET_S = 0.25
"""Time for applications to read what was typed before keycodes change their meaning."""
BIND_SETTLE_S = 0.04
KEY_GAP_S = 0.002
GROUP_SHIFT = 13
"""Where the pointer's state has the group of the layout that is in force (two bits)."""


class Keyboard:
    """Presses keys and types text.

    Args:
        connection: a python-xlib Display that owns no resources.
    """

    def __init__(self, connection: Any) -> None:
        self._display = connection
        self._receipt = Receipt(connection)
        info = connection.display.info
        self._min, self._count = info.min_keycode, info.max_keycode - info.min_keycode + 1
        self._bound: dict[int, int] = {}  # keysym -> spare keycode, least recently used first
        self._spare: list[int] = []
        self._last_typed = 0.0
        self._pressed = False  # keys, since text was last typed
        self._width = 0
        self._map: dict[int, tuple[int, bool]] = {}
        self._down: dict[str, tuple[int, bool]] = {}  # the keys that are held, whatever the layout becomes meanwhile

    def _read_map(self) -> None:
        """Read the layout as it is now: for each symbol its key and whether it needs shift.

        It is the desktop's: programs change it, and switch between its groups (say, Latin and Cyrillic letters).
        """
        while self._display.pending_events():
            self._display.next_event()  # every client is told of every change; nobody else takes these off the queue
        rows = self._display.get_keyboard_mapping(self._min, self._count)
        group = self._display.screen().root.query_pointer().mask >> GROUP_SHIFT & 3
        self._width = max(len(row) for row in rows)
        bound = {code: symbol for symbol, code in self._bound.items()}
        self._map, self._spare = {}, []
        for code, row in enumerate(rows, self._min):
            if code in bound:
                if all(symbol == bound[code] for symbol in row[:2]):
                    continue
                del self._bound[bound[code]]  # a new layout took the key away from us
            if not any(row):
                self._spare.append(code)
            for level, symbol in enumerate(_levels(row, group)):
                if symbol:
                    self._map.setdefault(symbol, (code, level == 1))

    def key_down(self, name: str) -> None:
        """Press a key and keep it down."""
        self._read_map()
        code, shifted = self._down[name] = self._code(keysym(name))
        if shifted:
            self._event(X.KeyPress, self._shift())
        self._event(X.KeyPress, code)
        self._display.sync()

    def key_up(self, name: str) -> None:
        """Release a key."""
        if name in self._down:
            code, shifted = self._down.pop(name)
        else:
            self._read_map()
            code, shifted = self._code(keysym(name))
        self._event(X.KeyRelease, code)
        if shifted:
            self._event(X.KeyRelease, self._shift())
        self._display.sync()
        self._pressed = True

    @contextmanager
    def held(self, names: Sequence[str]) -> Iterator[None]:
        """Keep keys down for the length of a block."""
        down: list[str] = []
        try:
            for name in names:
                self.key_down(name)
                down.append(name)
            yield
        finally:
            for name in reversed(down):
                self.key_up(name)

    def press(self, names: Sequence[str], hold_s: float = 0.0) -> None:
        """Press a chord, hold it, release it in reverse order."""
        self._read_map()
        self._bind([keysym(name) for name in names])
        with self.held(names):
            if hold_s:
                time.sleep(hold_s)
            else:
                time.sleep(KEY_GAP_S)

    def type(self, text: str) -> None:
        """Type text exactly."""
        self._read_map()
        lock = bool(self._display.screen().root.query_pointer().mask & X.LockMask)
        if lock:
            self._tap(self._code(keysym("capslock"))[0])
        try:
            controls = {keysym(name) for name in CONTROL_KEYS.values()}
            with self._receipt.asking():
                if self._pressed:
                    self._receipt.wait()
                    self._pressed = False
                for piece in self._pieces(text):
                    self._bind(piece)
                    for symbol in piece:
                        beyond = symbol >= FIRST_BEYOND_BASIC_PLANE
                        if beyond:
                            self._receipt.wait()
                        self._type_symbol(symbol)
                        if beyond or symbol in controls:
                            self._receipt.wait()
        finally:
            if lock:
                self._tap(self._code(keysym("capslock"))[0])
            self._display.sync()
            self._last_typed = time.monotonic()

    def _pieces(self, text: str) -> Iterable[list[int]]:
        """Cut text where its new symbols outnumber the spare keycodes."""
        room = max(1, len(self._spare) + len(self._bound))
        piece: list[int] = []
        new: set[int] = set()
        for char in text:
            symbol = keysym(CONTROL_KEYS.get(char, char))
            if symbol not in self._map and symbol not in new:
                if len(new) == room:
                    yield piece
                    piece, new = [], set()
                new.add(symbol)
            piece.append(symbol)
        if piece:
            yield piece

    def _bind(self, symbols: Iterable[int]) -> None:
        """Give every symbol that has no key a spare keycode."""
        wanted = dict.fromkeys(symbol for symbol in symbols if symbol not in self._map)
        for symbol in wanted:
            if symbol in self._bound:
                self._bound[symbol] = self._bound.pop(symbol)
        missing = [symbol for symbol in wanted if symbol not in self._bound]
        if not missing:
            return
        if len(missing) > len(self._spare):
            time.sleep(max(0.0, self._last_typed + REBIND_QUIET_S - time.monotonic()))
        for symbol in missing:
            if self._spare:
                code = self._spare.pop()
            else:
                oldest = next((bound for bound in self._bound if bound not in wanted), None)
                if oldest is None:
                    raise ValueError("this keyboard layout leaves no spare key for symbols that it lacks")
                code = self._bound.pop(oldest)
            self._bound[symbol] = code
            # The same symbol on every level: shift and the lock keys do not change it.
            self._display.change_keyboard_mapping(code, [[symbol] * max(2, self._width)])
        self._display.sync()
        time.sleep(BIND_SETTLE_S)

    def _code(self, symbol: int) -> tuple[int, bool]:
        """The key for a symbol and whether it needs shift."""
        if symbol in self._map:
            return self._map[symbol]
        if symbol not in self._bound:
            self._bind([symbol])
        return self._bound[symbol], False

    def _shift(self) -> int:
        return self._map[keysym("shift")][0]

    def _type_symbol(self, symbol: int) -> None:
        code, shifted = self._code(symbol)
        if shifted:
            shift = self._shift()
            self._event(X.KeyPress, shift)
            self._tap(code)
            self._event(X.KeyRelease, shift)
            self._display.sync()
        else:
            self._tap(code)
        self._last_typed = time.monotonic()
        time.sleep(KEY_GAP_S)

    def _tap(self, code: int) -> None:
        self._event(X.KeyPress, code)
        self._event(X.KeyRelease, code)
        self._display.sync()

    def _event(self, kind: int, code: int) -> None:
        self._display.xtest_fake_input(kind, code)


def _levels(row: Sequence[int], group: int) -> Sequence[int]:
    """What a key gives in a group, plain and with shift.

    The server lists the first two groups as pairs and pads keys that are alike in all groups. Where further groups
    stand depends on their levels, so there a key serves if it is alike in the first two.
    """
    first, second = row[:2], row[2:4]
    if group == 0:
        return first
    if group == 1:
        return second if any(second) else first
    return first if first == second or not any(second) else ()
