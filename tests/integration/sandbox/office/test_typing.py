"""Text typed into six applications of three toolkits is, byte for byte, what they save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.actions import Press, TypeText
from sandbox.desktop import Desktop
from tests.support.office_text import APPS, CASES, type_into

pytestmark = [pytest.mark.desktop, pytest.mark.office]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("app", APPS)
async def test_text_arrives_exactly(office: Desktop, app: str, case: str) -> None:
    number = list(APPS).index(app) * len(CASES) + list(CASES).index(case)
    assert await type_into(office, APPS[app], CASES[case], f"typed-{number:03d}") == CASES[case]


async def test_what_an_application_does_to_the_text_is_noticed(office: Desktop) -> None:
    terminal = APPS["terminal"]
    argv = (*terminal.argv[:-1], "sh -c 'tr b x >{name}'")
    assert await type_into(office, replace(terminal, argv=argv), "abc", "changed", timeout_s=1.0) == "axc"


async def test_text_waits_for_what_keys_before_it_do(office: Desktop) -> None:
    # Writer does what these keys do when it is idle; text that came meanwhile would stand in front or be erased.
    keys = (Press(keys=("enter",)), TypeText(text="two"), Press(keys=("backspace",)), TypeText(text="x"))
    writer = replace(APPS["writer"], save=(*(keys * 5), *APPS["writer"].save))
    expected = "one" + "\ntwx" * 5
    assert await type_into(office, writer, "one", "keys", timeout_s=5.0, expected=expected) == expected


def test_enough_is_typed() -> None:
    assert len(APPS) * len(CASES) >= 48
    assert len(CASES["2,000 characters"]) == 2000
    assert all(chr(code) in CASES["every printable ASCII character"] for code in range(0x20, 0x7F))
