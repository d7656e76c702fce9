"""Key names: every spelling seen in the wild reaches one key, and nothing else does."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import sandbox.keys
from sandbox.keys import KEY_NAMES, canonical_key, keysym, parse_chord, render_key

PYAUTOGUI_WORDS = """
accept add alt altleft altright apps backspace browserback browserfavorites browserforward browserhome browserrefresh
browsersearch browserstop capslock clear convert ctrl ctrlleft ctrlright decimal del delete divide down end enter esc
escape execute f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20 f21 f22 f23 f24 final fn hanguel
hangul hanja help home insert junja kana kanji launchapp1 launchapp2 launchmail launchmediaselect left modechange
multiply nexttrack nonconvert num0 num1 num2 num3 num4 num5 num6 num7 num8 num9 numlock pagedown pageup pause pgdn pgup
playpause prevtrack print printscreen prntscrn prtsc prtscr return right scrolllock select separator shift shiftleft
shiftright sleep space stop subtract tab up volumedown volumemute volumeup win winleft winright yen command option
optionleft optionright
"""
PRINTABLES = [chr(code) for code in range(32, 127) if not chr(code).isupper()]
PYAUTOGUI_NAMES = ["\t", "\n", "\r", *PRINTABLES, *PYAUTOGUI_WORDS.split()]

SPELLINGS = {
    "enter": "enter return Return RETURN KEY_ENTER Key.enter Linefeed",
    "kp_enter": "KP_Enter NumpadEnter kp_enter",
    "esc": "esc escape Escape XK_Escape",
    "ctrl": "ctrl control Control Control_L ControlLeft ctrlleft left_ctrl lctrl CTRL ControlOrMeta",
    "ctrl_r": "ctrl_r Control_R ControlRight ctrlright rctrl",
    "alt": "alt Alt_L option AltLeft opt",
    "alt_r": "alt_r Alt_R altright optionright",
    "altgr": "altgr AltGraph ISO_Level3_Shift alt_gr",
    "shift_r": "Shift_R shiftright",
    "super": "win super meta Meta cmd command Super_L Meta_L MetaLeft winleft windows OS",
    "super_r": "Super_R MetaRight winright cmd_r",
    "pageup": "pgup pageup page_up Page_Up PageUp Prior page-up",
    "pagedown": "pgdn pgdown pagedown page_down Page_Down Next",
    "up": "arrowup up Up ArrowUp up_arrow",
    "down": "arrowdown down Down ArrowDown KP_Down",
    "left": "arrowleft Left ArrowLeft",
    "right": "arrowright Right ArrowRight",
    "backspace": "backspace BackSpace Backspace",
    "delete": "del delete Delete KP_Delete",
    "insert": "ins insert Insert",
    "space": "space Space spacebar",
    "backtab": "ISO_Left_Tab",
    "printscreen": "prtsc print Print PrintScreen prntscrn",
    "capslock": "Caps_Lock CapsLock",
    "numlock": "Num_Lock",
    "scrolllock": "Scroll_Lock ScrollLock",
    "menu": "apps ContextMenu Menu",
    "volumeup": "AudioVolumeUp XF86AudioRaiseVolume",
    "nexttrack": "MediaTrackNext XF86AudioNext",
    "browserback": "BrowserBack XF86Back",
    "kp_5": "num5 numpad5 KP_5 kp_5",
    "kp_add": "add KP_Add NumpadAdd",
    "5": "Digit5 5",
    "a": "KeyA a XK_a",
    "+": "plus + PLUS",
    "-": "minus - hyphen",
    "=": "equal equals =",
    ",": "comma",
    ".": "period dot",
    "/": "slash",
    "\\": "backslash \\",
    ";": "semicolon",
    "'": "apostrophe '",
    '"': "quotedbl",
    "`": "grave",
    "[": "bracketleft",
    "}": "braceright",
    "<": "less",
    "|": "bar",
    "_": "underscore _",
    "€": "EuroSign U20AC €",
    "美": "美",
}


@pytest.mark.parametrize("name", PYAUTOGUI_NAMES)
def test_every_pyautogui_name_is_a_key(name: str) -> None:
    assert keysym(name) > 0
    assert canonical_key(canonical_key(name)) == canonical_key(name)


@pytest.mark.parametrize(("key", "spellings"), SPELLINGS.items())
def test_spellings_reach_their_key(key: str, spellings: str) -> None:
    assert {spelling: canonical_key(spelling) for spelling in spellings.split()} == dict.fromkeys(
        spellings.split(), key
    )


def test_whitespace_characters_are_named_keys() -> None:
    assert [canonical_key(char) for char in " \t\n\r"] == ["space", "tab", "enter", "enter"]


def test_single_characters_keep_their_case() -> None:
    assert (canonical_key("A"), canonical_key("a")) == ("A", "a")
    assert (keysym("A"), keysym("a")) == (0x41, 0x61)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Return", 0xFF0D),
        ("f1", 0xFFBE),
        ("f12", 0xFFC9),
        ("f24", 0xFFD5),
        ("Control_L", 0xFFE3),
        ("Super_L", 0xFFEB),
        ("kp_0", 0xFFB0),
        ("kp_9", 0xFFB9),
        ("plus", 0x2B),
        ("é", 0xE9),
        ("ÿ", 0xFF),
        ("Ā", 0x01000100),
        ("美", 0x01007F8E),
        ("😀", 0x0101F600),
        ("volumemute", 0x1008FF12),
    ],
)
def test_keysyms_are_those_of_x11(name: str, code: int) -> None:
    assert keysym(name) == code


def test_every_canonical_name_is_itself_and_has_a_keysym() -> None:
    assert {name: canonical_key(name) for name in KEY_NAMES} == {name: name for name in KEY_NAMES}
    codes = [keysym(name) for name in KEY_NAMES if name not in ("accept", "final")]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("entr", "enter"),
        ("pagdown", "pagedown"),
        ("contrl", "ctrl"),
        ("qqqq", "one character"),
        ("", "empty"),
        ("   ", "empty"),
        ("\x01", "U+0001"),
        ("\ud800", "U+D800"),
        ("x" * 5000, "xxx..."),
    ],
)
def test_an_unknown_key_is_refused_with_help(name: str, part: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        canonical_key(name)
    assert part in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("ctrl+s", ("ctrl", "s")),
        ("Ctrl + Shift + T", ("ctrl", "shift", "T")),
        ("ctrl++", ("ctrl", "+")),
        ("ctrl+plus", ("ctrl", "+")),
        ("ctrl + +", ("ctrl", "+")),
        ("+", ("+",)),
        ("+++", ("+", "+")),
        ("++a", ("+", "a")),
        ("super", ("super",)),
        ("ctrl+Page_Down", ("ctrl", "pagedown")),
        ("alt+é", ("alt", "é")),
    ],
)
def test_chords_split_at_the_joiner(text: str, keys: tuple[str, ...]) -> None:
    assert parse_chord(text) == keys


@pytest.mark.parametrize("text", ["", " ", "ctrl+", "++", "ctrl+ +s+", "ctrl-s", "ctrl s", "++++"])
def test_broken_chords_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="key"):
        parse_chord(text)


def test_invisible_characters_are_written_as_code_points() -> None:
    assert [render_key(key) for key in ("a", "enter", "\u00a0", "\u200b", "é")] == ["a", "enter", "U00A0", "U200B", "é"]
    assert canonical_key("U200B") == "\u200b"


def test_the_probe_can_carry_a_copy() -> None:
    tree = ast.parse(Path(sandbox.keys.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names
