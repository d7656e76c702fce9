"""Text typed is text received: what the keyboard sends arrives in a real editor and a real terminal, exactly."""

from __future__ import annotations

import string

import pytest

from sandbox.backends.local import LocalDesktop
from tests.support.live import act, edit, python, sh, start, typed, wait_for

pytestmark = pytest.mark.desktop

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F))
CJK = "".join(chr(0x4E00 + 7 * number) for number in range(400))
"""More new symbols than any keyboard has spare keycodes (248 at most)."""


async def test_more_new_symbols_than_spare_keys(shared: LocalDesktop) -> None:
    assert await edit(shared, typed(CJK)) == CJK


async def test_symbols_alternate_between_texts(shared: LocalDesktop) -> None:
    pieces = [CJK[start : start + 15] for start in range(0, 60, 15)]
    assert await edit(shared, *(typed(piece + "é€") for piece in pieces)) == "".join(piece + "é€" for piece in pieces)


async def test_caps_lock_does_not_change_text_and_stays_on(shared: LocalDesktop) -> None:
    lock = {"kind": "press", "keys": ["capslock"]}
    text = "Mixed CASE é É 中 1!"
    # The key `a` alone shows that the lock is still on: that is what a lock is for.
    after = {"kind": "press", "keys": ["a"]}
    assert await edit(shared, lock, typed(text), after, lock, typed("b")) == f"{text}Ab"


@pytest.mark.parametrize("layout", ["de", "ru"])
async def test_text_is_exact_under_another_layout(desktop: LocalDesktop, layout: str) -> None:
    text = 'yz YZ q!@#[]{}\\|~"/<> é ü ж € 中'
    before = await edit(desktop, typed("é ü ж"))
    await sh(desktop, f"setxkbmap {layout}")
    assert await edit(desktop, typed(text)) == text
    assert before == "é ü ж"


async def test_a_shortcut_works_under_another_layout(desktop: LocalDesktop) -> None:
    await sh(desktop, "setxkbmap de")  # where the key that says `y` elsewhere says `z`
    select_all, undo = ({"kind": "press", "keys": ["ctrl", key]} for key in "az")
    capital = {"kind": "press", "keys": ["shift", "y"]}
    end = {"kind": "press", "keys": ["ctrl", "end"]}
    assert await edit(desktop, typed("a"), select_all, undo, end, capital, before="kept") == "keptY"


async def test_a_terminal_receives_the_text(shared: LocalDesktop) -> None:
    text = PRINTABLE + " é à ß 中文 日本 😀 -- " + CJK[:50]
    await start(shared, ["xfce4-terminal", "--command", "cat"], "xfce4-terminal")
    await act(shared, {"kind": "press", "keys": ["ctrl", "shift", "w"]})
    await start(shared, ["xfce4-terminal", "--command", "dd of=typed.txt status=none"], "xfce4-terminal")
    await act(shared, typed(text + "\n"), {"kind": "press", "keys": ["ctrl", "d"]})

    async def written() -> str:
        return await sh(shared, "cat typed.txt")

    assert await wait_for("the terminal's file", written) == text + "\n"


async def test_single_characters_of_every_kind_are_keys(shared: LocalDesktop) -> None:
    keys = [*string.ascii_letters, *string.digits, *"!@#$%^&*()_+{}|:<>?", "é", "€", "中"]
    assert await edit(shared, *({"kind": "press", "keys": [key]} for key in keys)) == "".join(keys)


LOCK_GROUP = """
import ctypes, sys
x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
d = ctypes.c_void_p(x.XOpenDisplay(None))
x.XkbLockGroup(d, 0x100, int(sys.argv[1]))
x.XSync(d, 0)
"""


async def test_text_is_exact_while_another_group_of_the_layout_is_in_force(desktop: LocalDesktop) -> None:
    await sh(desktop, "setxkbmap us,ru")
    await python(desktop, LOCK_GROUP, "1")
    text = "latin Ελλ кир é 1!\n"
    assert await edit(desktop, typed(text), {"kind": "press", "keys": ["b"]}) == text + "b"


LAZY = """
# An editor that takes 15 ms for a letter, and breaks the line or clears the text only when no event is waiting.
import os, sys, time
from Xlib import X, XK, Xatom, display
from Xlib.protocol import event
d = display.Display()
root = d.screen().root
ping, protocols = d.intern_atom("_NET_WM_PING"), d.intern_atom("WM_PROTOCOLS")
w = root.create_window(0, 0, 300, 200, 0, d.screen().root_depth, background_pixel=0xFFFFFF, event_mask=X.KeyPressMask)
w.set_wm_class("lazy", "lazy")
w.set_wm_protocols([ping] if sys.argv[1] == "answers" else [])
w.change_property(d.intern_atom("_NET_WM_PID"), Xatom.CARDINAL, 32, [os.getpid()])
w.map()
text, later = "", []
while True:
    if later and not d.pending_events():
        text = "" if later.pop(0) == XK.XK_Escape else text + "\\n"
        open("lazy.txt", "w").write(text)
        continue
    e = d.next_event()
    if e.type == X.ClientMessage and e.client_type == protocols and e.data[1][0] == ping:
        answer = event.ClientMessage(window=root, client_type=protocols, data=e.data)
        root.send_event(answer, event_mask=X.SubstructureNotifyMask | X.SubstructureRedirectMask)
        d.flush()
    elif e.type == X.KeyPress:
        symbol = d.keycode_to_keysym(e.detail, 0)
        if symbol in (XK.XK_Return, XK.XK_Escape):
            later.append(symbol)
        else:
            time.sleep(0.015)
            text += chr(symbol)
"""


@pytest.mark.parametrize("answers", ["answers", "mute"])
async def test_letters_wait_for_what_a_busy_editor_does_later(desktop: LocalDesktop, answers: str) -> None:
    await desktop.spawn(["python3", "-c", LAZY, answers])

    async def active() -> bool:
        windows = (await desktop.observe(want=["windows"])).windows or ()
        return any(window.app == "lazy" and window.active for window in windows)

    await wait_for("the editor's window", active)
    text = "one\ntwo\nthree\n"
    await act(desktop, typed("dropped"), {"kind": "press", "keys": ["esc"]}, typed(text))

    async def written() -> str:
        return await sh(desktop, "cat lazy.txt 2>/dev/null || true")

    async def complete() -> bool:
        return len(await written()) >= len(text)

    if answers == "answers":
        await wait_for("the text", complete)
        assert await written() == text
    else:  # the control: this is what happens to the text when nobody can say that it is dealt with
        assert "one\ntwo\nthree\n" not in await written()
