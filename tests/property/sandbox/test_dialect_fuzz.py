"""Damaged turns, noise and huge inputs: each is answered. The long tier is `frontdesk bench dialects`."""

from __future__ import annotations

import itertools

import pytest

from sandbox.actions import Done
from sandbox.dialects import DIALECTS, ParsedTurn, ParseError, View, get_dialect
from tests.support.fuzz import GRAMMAR_SHARE, VIEWS, fuzz, huge_inputs, problem_with

NUM_INPUTS = 1_000


@pytest.mark.parametrize("name", DIALECTS)
def test_damaged_turns_and_noise_are_answered(name: str) -> None:
    found = fuzz(name, NUM_INPUTS, seed=1)
    assert found.exceptions == ()
    assert GRAMMAR_SHARE >= 0.8
    assert found.num_from_grammar >= 0.8 * NUM_INPUTS
    assert found.num_understood > 0, "damage that leaves nothing whole tests little"


@pytest.mark.parametrize("name", DIALECTS)
def test_huge_inputs_are_answered(name: str) -> None:
    for text in itertools.islice(huge_inputs(name, seed=1), 0, None, 19):
        assert problem_with(get_dialect(name).parse(text, VIEWS[0]), text, VIEWS[0]) == ""


@pytest.mark.parametrize("name", DIALECTS)
def test_any_depth_is_answered(name: str) -> None:
    frames = (
        '{{"type": {}}}',
        '{{"action": {}}}',
        '{{"arguments": {{"action": {}}}}}',
        '{{"action_type": {}}}',
        "click({})",
    )
    for depth in range(50, 1000, 7):
        for frame in frames:
            text = frame.format("[" * depth + "]" * depth)
            assert problem_with(get_dialect(name).parse(text, VIEWS[0]), text, VIEWS[0]) == ""


def test_a_dialect_that_raises_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(text: str, view: View) -> ParsedTurn:
        if "x" in text:
            raise RuntimeError("here")
        return ParsedTurn(actions=(Done(),), error=None, thought="", raw=text)

    monkeypatch.setattr(get_dialect("compact"), "parse", parse)
    found = fuzz("compact", 100, seed=1)
    assert found.exceptions
    assert found.exceptions[0].startswith("RuntimeError: here")


@pytest.mark.parametrize(
    "turn",
    [
        ParsedTurn(actions=(), error=None, thought="", raw="a"),
        ParsedTurn(actions=(Done(),), error=ParseError(message="no", where=""), thought="", raw="a"),
        ParsedTurn(actions=(), error=ParseError(message="", where=""), thought="", raw="a"),
        ParsedTurn(actions=(), error=ParseError(message="x" * 900, where=""), thought="", raw="a"),
        ParsedTurn(actions=(Done(),), error=None, thought="", raw="b"),
    ],
)
def test_broken_promises_are_found_out(turn: ParsedTurn) -> None:
    assert problem_with(turn, "a", VIEWS[0])
