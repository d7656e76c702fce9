"""Text typed is text received: in an editor and with a held key."""

from __future__ import annotations

import pytest

from sandbox.backends.owned import OwnedDesktop
from tests.support.live import edit, typed

pytestmark = pytest.mark.desktop

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F))


@pytest.mark.parametrize(
    "text",
    [
        f"-n --help\n{PRINTABLE}\na\tb\n\n\tc \"d\" 'e' `f` “g” «h»\n",
        "é à ß ñ Ø ½ § ¿ 中文 日本語 한국어 Ελληνικά Русский עברית 😀🎉 a😀b 👩‍🚀",
        "e\u0301 combining, a\u00a0no-break, \u200bzero width, \u2028line separator",
        "aaAAaa!!11éé中中 aAéÉ" * 10,
    ],
    ids=["ascii", "scripts", "invisible", "repeats"],
)
async def test_an_editor_receives_the_text(shared: OwnedDesktop, text: str) -> None:
    assert await edit(shared, typed(text)) == text


async def test_two_thousand_characters_arrive_in_order(shared: OwnedDesktop) -> None:
    text = "".join(f"{number:04d} " for number in range(400))
    assert await edit(shared, typed(text)) == text


async def test_a_held_control_key_makes_shortcuts_and_releasing_it_makes_text(shared: OwnedDesktop) -> None:
    down, up = {"kind": "key_down", "key": "ctrl"}, {"kind": "key_up", "key": "ctrl"}
    assert await edit(shared, down, typed("a"), up, typed("replaced"), before="all of this\n") == "replaced"
