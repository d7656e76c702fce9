"""`frontdesk dialects`: the table, the losses in words, and reading by hand."""

from __future__ import annotations

import io

import pytest

from sandbox.actions import ACTION_KINDS
from sandbox.dialects import DIALECTS
from tests.support.command_line import CommandLine


def test_alone_it_lists_what_each_dialect_supports(frontdesk: CommandLine) -> None:
    ran = frontdesk("dialects")
    assert ran.code == 0
    assert all(name in ran.out for name in (*DIALECTS, *ACTION_KINDS))
    data = {row["name"]: row for row in frontdesk("dialects --json").json["dialects"]}
    assert data == {row["name"]: row for row in frontdesk("dialects list --json").json["dialects"]}
    assert list(data) == list(DIALECTS)
    assert (data["qwen3"]["tool"], data["compact"]["tool"]) == (True, False)
    assert data["openai"]["support"]["key_down"] == "never"
    assert data["openai"]["support"]["click"] == "lossy"
    assert data["compact"]["support"]["click"] == "exact"
    assert "500, 500" in data["qwen3"]["example"]


def test_losses_are_told_in_words(frontdesk: CommandLine) -> None:
    ran = frontdesk("dialects list uitars")
    assert "waits of five seconds" in ran.out
    assert "click(start_box='(966,546)')" in ran.out
    assert len(frontdesk("dialects list uitars qwen3 --json").json["dialects"]) == 2


def test_one_is_tried_by_hand(frontdesk: CommandLine) -> None:
    ran = frontdesk("dialects parse --dialect compact 'click 100 200' --json")
    assert ran.code == 0
    assert ran.json["actions"] == [{"kind": "click", "point": {"x": 100, "y": 200}}]
    assert ran.json["error"] is None


def test_the_standard_input_is_read(frontdesk: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Thought: [b]so[/b]\nAction: click(start_box='(644,364)')"))
    ran = frontdesk("dialects parse --dialect uitars --screen 2560x1440 --shown 1280x720 -")
    assert ran.code == 0
    assert '"x": 1280, "y": 720' in ran.out
    assert "[b]so[/b]" in ran.out


def test_what_is_not_understood_says_what_the_model_is_told_and_fails(frontdesk: CommandLine) -> None:
    ran = frontdesk("dialects parse --dialect qwen3 nothing --json")
    assert ran.code == 1
    assert ran.json["actions"] == []
    assert ran.json["told"].startswith("<tool_response>")
    assert "there is no <tool_call>" in ran.json["error"]
    assert "nothing was done" in frontdesk("dialects parse --dialect uitars '[x]'").out


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("dialects parse --dialect utars x", "did you mean 'uitars'"),
        ("dialects parse --dialect uitars --screen 0x5 x", "--screen '0x5' is no size"),
        ("dialects parse --dialect uitars --shown big x", "--shown 'big' is no size"),
        ("dialects list nothing", "there is no dialect 'nothing'"),
    ],
)
def test_bad_input_is_named(frontdesk: CommandLine, line: str, part: str) -> None:
    ran = frontdesk(line)
    assert ran.code == 2
    assert part in ran.err
