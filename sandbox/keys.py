"""One table of key names: every way models and people write a key, the canonical name, and its X11 keysym.

A canonical key is a name of `KEY_NAMES` (lower case: `enter`, `ctrl_r`, `kp_add`) or one character (`a`, `+`, `é`).
Names are matched without regard to case, spaces, `_` and `-`. Single characters keep their case: `A` is the character
`A`, which the probe types with Shift, so the chord Ctrl+S is written `ctrl+s` and `ctrl+S` means Ctrl+Shift+S.

Guarantees: `canonical_key` is idempotent, and every canonical key has a keysym. This module imports only the standard
library, because the probe inside a desktop carries a copy of it.
"""

from __future__ import annotations

import difflib
import re
import unicodedata

__all__ = ["KEY_NAMES", "canonical_key", "keysym", "parse_chord", "render_key"]

_SPECIAL: dict[str, tuple[int, str]] = {
    # editing and movement
    "enter": (0xFF0D, "return linefeed newline"),
    "esc": (0xFF1B, "escape"),
    "tab": (0xFF09, ""),
    "backtab": (0xFE20, "isolefttab"),
    "space": (0x20, "spacebar"),
    "backspace": (0xFF08, "bksp bs"),
    "delete": (0xFFFF, "del kpdelete"),
    "insert": (0xFF63, "ins kpinsert"),
    "home": (0xFF50, "kphome"),
    "end": (0xFF57, "kpend"),
    "pageup": (0xFF55, "pgup prior kpprior kppageup"),
    "pagedown": (0xFF56, "pgdn pgdown next kpnext kppagedown"),
    "up": (0xFF52, "arrowup uparrow kpup"),
    "down": (0xFF54, "arrowdown downarrow kpdown"),
    "left": (0xFF51, "arrowleft leftarrow kpleft"),
    "right": (0xFF53, "arrowright rightarrow kpright"),
    # locks and system keys
    "capslock": (0xFFE5, "caps"),
    "numlock": (0xFF7F, ""),
    "scrolllock": (0xFF14, "scrlk"),
    "printscreen": (0xFF61, "print prtsc prtscr prntscrn prtscn prtscreen snapshot sysrq sysreq"),
    "pause": (0xFF13, ""),
    "break": (0xFF6B, ""),
    "menu": (0xFF67, "apps app application contextmenu"),
    "compose": (0xFF20, "multikey"),
    "clear": (0xFF0B, "kpbegin"),
    "help": (0xFF6A, ""),
    "select": (0xFF60, ""),
    "execute": (0xFF62, ""),
    "cancel": (0xFF69, ""),
    "undo": (0xFF65, ""),
    "redo": (0xFF66, "again"),
    "find": (0xFF68, ""),
    "sleep": (0x1008FF2F, "xf86sleep standby"),
    "wakeup": (0x1008FF2B, "xf86wakeup"),
    "power": (0x1008FF2A, "poweroff xf86poweroff"),
    "fn": (0x100811D0, "xf86fn function"),
    # input methods; X11 has no key for `accept` and `final`, so they send VoidSymbol, which no program acts on
    "accept": (0xFFFFFF, ""),
    "final": (0xFFFFFF, "finalmode"),
    "convert": (0xFF23, "henkan henkanmode"),
    "nonconvert": (0xFF22, "muhenkan"),
    "kanji": (0xFF21, "kanjimode"),
    "kana": (0xFF2D, "kanalock kanamode"),
    "hangul": (0xFF31, "hanguel hangulmode"),
    "hanja": (0xFF34, "hangulhanja hanjamode"),
    "junja": (0xFF38, "hanguljeonja junjamode"),
    "modechange": (0xFF7E, "modeswitch"),
    # sound, media, browser, programs
    "volumeup": (0x1008FF13, "audiovolumeup volup xf86audioraisevolume"),
    "volumedown": (0x1008FF11, "audiovolumedown voldown xf86audiolowervolume"),
    "volumemute": (0x1008FF12, "audiovolumemute mute xf86audiomute"),
    "playpause": (0x1008FF14, "mediaplaypause mediaplay play xf86audioplay"),
    "mediapause": (0x1008FF31, "xf86audiopause"),
    "mediastop": (0x1008FF15, "stop mediatrackstop xf86audiostop"),
    "nexttrack": (0x1008FF17, "mediatracknext medianext xf86audionext"),
    "prevtrack": (0x1008FF16, "mediatrackprevious mediaprevious xf86audioprev previoustrack"),
    "browserback": (0x1008FF26, "goback xf86back"),
    "browserforward": (0x1008FF27, "goforward xf86forward"),
    "browserrefresh": (0x1008FF29, "refresh xf86refresh xf86reload"),
    "browserstop": (0x1008FF28, "xf86stop"),
    "browsersearch": (0x1008FF1B, "xf86search"),
    "browserfavorites": (0x1008FF30, "xf86favorites"),
    "browserhome": (0x1008FF18, "homepage xf86homepage"),
    "launchmail": (0x1008FF19, "xf86mail"),
    "launchmediaselect": (0x1008FF32, "launchmediaplayer mediaselect xf86audiomedia"),
    "launchapp1": (0x1008FF33, "launchapplication1 xf86mycomputer"),
    "launchapp2": (0x1008FF1D, "launchapplication2 xf86calculator calculator"),
    "brightnessup": (0x1008FF02, "xf86monbrightnessup"),
    "brightnessdown": (0x1008FF03, "xf86monbrightnessdown"),
    # the numeric keypad, beyond its digits
    "kp_enter": (0xFF8D, "numpadenter numenter"),
    "kp_add": (0xFFAB, "add numpadadd"),
    "kp_subtract": (0xFFAD, "subtract numpadsubtract"),
    "kp_multiply": (0xFFAA, "multiply numpadmultiply"),
    "kp_divide": (0xFFAF, "divide numpaddivide"),
    "kp_decimal": (0xFFAE, "decimal numpaddecimal"),
    "kp_separator": (0xFFAC, "separator numpadcomma"),
    "kp_equal": (0xFFBD, "numpadequal"),
}

# canonical name: keysym, keysym of the right-hand key, other words for it
_MODIFIERS: dict[str, tuple[int, int, str]] = {
    "ctrl": (0xFFE3, 0xFFE4, "control ctl"),
    "alt": (0xFFE9, 0xFFEA, "option opt"),
    "shift": (0xFFE1, 0xFFE2, ""),
    "super": (0xFFEB, 0xFFEC, "win windows meta cmd command os"),
}

_CHARACTERS: dict[str, str] = {
    "plus": "+",
    "minus": "-", "hyphen": "-", "dash": "-",
    "equal": "=", "equals": "=",
    "comma": ",",
    "period": ".", "dot": ".", "fullstop": ".",
    "slash": "/", "forwardslash": "/",
    "backslash": "\\",
    "semicolon": ";", "colon": ":",
    "apostrophe": "'", "quote": "'", "quoteright": "'", "singlequote": "'",
    "quotedbl": '"', "doublequote": '"',
    "grave": "`", "quoteleft": "`", "backquote": "`", "backtick": "`",
    "asciitilde": "~", "tilde": "~",
    "exclam": "!", "exclamation": "!",
    "at": "@",
    "numbersign": "#", "hash": "#",
    "dollar": "$", "percent": "%",
    "asciicircum": "^", "caret": "^",
    "ampersand": "&",
    "asterisk": "*", "star": "*",
    "parenleft": "(", "leftparen": "(", "parenright": ")", "rightparen": ")",
    "bracketleft": "[", "leftbracket": "[", "bracketright": "]", "rightbracket": "]",
    "braceleft": "{", "leftbrace": "{", "braceright": "}", "rightbrace": "}",
    "less": "<", "lessthan": "<", "greater": ">", "greaterthan": ">",
    "question": "?", "questionmark": "?",
    "bar": "|", "pipe": "|",
    "underscore": "_",
    "yen": "¥", "eurosign": "€", "sterling": "£", "section": "§", "degree": "°",
}  # fmt: skip


def _tables() -> tuple[dict[str, int], dict[str, str]]:
    keysyms: dict[str, int] = {}
    aliases: dict[str, str] = {}

    def add(key: str, *names: str) -> None:
        for name in names:
            assert aliases.get(name, key) == key, f"{name} names both {aliases[name]} and {key}"
            aliases[name] = key

    for key, (code, names) in _SPECIAL.items():
        keysyms[key] = code
        add(key, key.replace("_", ""), *names.split())
    for key, (code, right_code, names) in _MODIFIERS.items():
        right = f"{key}_r"
        keysyms[key], keysyms[right] = code, right_code
        for word in (key, *names.split()):
            add(key, word, f"{word}l", f"{word}left", f"left{word}", f"l{word}")
            add(right, f"{word}r", f"{word}right", f"right{word}", f"r{word}")
    keysyms["altgr"] = 0xFE03
    add("altgr", "altgr", "altgraph", "isolevel3shift")
    add("ctrl", "controlormeta")
    for number in range(1, 25):
        keysyms[f"f{number}"] = 0xFFBE + number - 1
        add(f"f{number}", f"f{number}")
    for digit in "0123456789":
        keysyms[f"kp_{digit}"] = 0xFFB0 + int(digit)
        add(f"kp_{digit}", f"kp{digit}", f"num{digit}", f"numpad{digit}")
        add(digit, f"digit{digit}")
    for letter in "abcdefghijklmnopqrstuvwxyz":
        add(letter, f"key{letter}")
    for name, char in _CHARACTERS.items():
        add(char, name)
    return keysyms, aliases


_KEYSYMS, _ALIASES = _tables()

KEY_NAMES: tuple[str, ...] = tuple(_KEYSYMS)
"""The canonical names longer than one character."""

_NAMED_CHARACTERS = {"\n": "enter", "\r": "enter", "\t": "tab", " ": "space", "\b": "backspace", "\x1b": "esc"}
_LIBRARY_PREFIX = re.compile(r"(?:xk_|vk_|key[._])(?=.)", re.IGNORECASE)
_CODE_POINT = re.compile(r"[uU]\+?([0-9a-fA-F]{4,6})")
_UNTYPEABLE = frozenset({"Cc", "Cs"})
_MAX_NAME = 40


def canonical_key(name: str) -> str:
    """The canonical form of a key name or character.

    Args:
        name: a canonical name, an alias (of pyautogui, xdotool, browsers, pynput), one character, or `U20AC`.

    Raises:
        ValueError: there is no such key; the message gives the nearest names.
    """
    if len(name) == 1:
        return _character(name)
    plain = _plain(name)
    if plain in _ALIASES:
        return _ALIASES[plain]
    unprefixed = _plain(_LIBRARY_PREFIX.sub("", name.strip(), count=1))
    if unprefixed in _ALIASES:
        return _ALIASES[unprefixed]
    if len(unprefixed) == 1 and unprefixed.isalnum():
        return _character(unprefixed)
    if (match := _CODE_POINT.fullmatch(name)) and int(match[1], 16) <= 0x10FFFF:
        return _character(chr(int(match[1], 16)))
    raise ValueError(_unknown(name, plain))


def keysym(name: str) -> int:
    """The X11 keysym of a key: its code point for Latin-1 characters, `0x01000000 | code point` for all others.

    Raises:
        ValueError: there is no such key.
    """
    key = canonical_key(name)
    if len(key) > 1:
        return _KEYSYMS[key]
    code = ord(key)
    return code if code <= 0xFF else 0x01000000 | code


def parse_chord(text: str) -> tuple[str, ...]:
    """Split a chord such as `ctrl+shift+s` into canonical keys. The joiner itself is a key too: `ctrl++`, `ctrl+plus`.

    Raises:
        ValueError: a key is unknown, or one is missing beside a `+`.
    """
    keys: list[str] = []
    rest = text.strip()
    while True:
        end = 1 if rest.startswith("+") else rest.find("+")
        name = rest if end < 0 else rest[:end]
        if not name:
            raise ValueError(f"{_quoted(text)} lacks a key; write chords like ctrl+s, and the plus key as ctrl+plus")
        keys.append(canonical_key(name.strip() or name[:1]))
        if end < 0 or end == len(rest):
            return tuple(keys)
        after = rest[end:].lstrip()
        if not after.startswith("+"):
            raise ValueError(f"{_quoted(text)} has no + between its keys; write chords like ctrl+s")
        rest = after[1:].lstrip()


def render_key(key: str) -> str:
    """A spelling of a canonical key that is visible and free of spaces: itself, or `U00A0` for invisible characters."""
    if len(key) == 1 and (key.isspace() or not key.isprintable()):
        return f"U{ord(key):04X}"
    return key


def _character(char: str) -> str:
    if char in _NAMED_CHARACTERS:
        return _NAMED_CHARACTERS[char]
    if unicodedata.category(char) in _UNTYPEABLE:
        raise ValueError(f"character U+{ord(char):04X} has no key")
    return char


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower() if len(name) <= _MAX_NAME else ""


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_NAME else text[:_MAX_NAME] + "...")


def _unknown(name: str, plain: str) -> str:
    if not name.strip():
        return "the name of a key is empty"
    near = dict.fromkeys(_ALIASES[match] for match in difflib.get_close_matches(plain, _ALIASES, n=4, cutoff=0.6))
    hint = f"the nearest are {', '.join(near)}" if near else "write a name such as enter, ctrl or f5, or one character"
    return f"there is no key {_quoted(name)}; {hint}"
