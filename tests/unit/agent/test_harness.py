"""The harness as data: validation, templates, hash, TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from agent import ConfigError, Harness, parse_toml
from agent.harness import Limits


def test_defaults_are_usable_and_stable() -> None:
    harness = Harness()
    assert harness == Harness()
    assert harness.hash == Harness().hash
    prompt = harness.prompt(fragment="HOW TO ACT", width=640, height=400)
    assert "HOW TO ACT" in prompt
    assert "${" not in prompt


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"window": 6},
        {"delta": 1},
        {"placeholder": "gone"},
        {"channels": {"notes": "hint"}},
        {"limits": Limits(max_steps=3)},
        {"max_side": 400},
        {"observe": ("frame", "windows")},
        {"system_prompt": "x"},
    ],
)
def test_everything_in_it_changes_the_hash(change: dict[str, object]) -> None:
    assert Harness.model_validate({**Harness().model_dump(), **change}).hash != Harness().hash


def test_the_order_of_channels_does_not_change_the_hash() -> None:
    one = Harness(channels={"notes": "n", "extra": "e"})
    other = Harness(channels={"extra": "e", "notes": "n"})
    assert one.hash == other.hash


def test_channels_fill_the_prompt_and_nothing_else_does() -> None:
    harness = Harness(
        system_prompt="Costs $$5. ${notes}|${dialect}|${width}x${height}", channels={"notes": "see ${width} {x} $y"}
    )
    assert harness.prompt(fragment="F", width=3, height=4) == "Costs $5. see ${width} {x} $y|F|3x4"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"window": 4, "delta": 5}, r"delta = 5 is more than window = 4"),
        ({"delta": 0}, "greater than or equal to 1"),
        ({"dialect": "compcat"}, "did you mean 'compact'"),
        ({"system_prompt": "${nots}"}, r"\$\{nots\}, which is no channel; did you mean 'notes'"),
        ({"system_prompt": "costs $ 5"}, r"write `\$\$`"),
        ({"channels": {"width": "x"}}, "cannot name a channel"),
        ({"channels": {"a-b": "x", "notes": ""}}, "cannot name a channel"),
        ({"observe": ("windows",)}, "name 'frame'"),
        ({"observe": ("frame", "frame")}, "each further kind once"),
        ({"max_side": 8}, "greater than or equal to 32"),
    ],
)
def test_mistakes_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Harness.model_validate(fields)


def test_it_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Harness().window = 3  # type: ignore[misc]


def test_toml_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "harness.toml"
    path.write_text(
        'name = "mine"\nwindow = 4\ndelta = 2\n[limits]\nmax_steps = 7\n[channels]\nnotes = "be quick"\n'
        "[settle]\ncap_ms = 600\n[sampling]\ntemperature = 0.6\n"
    )
    harness = Harness.load(path)
    assert (harness.name, harness.window, harness.delta) == ("mine", 4, 2)
    assert harness.limits.max_steps == 7
    assert harness.settle.settle().cap_ms == 600
    assert harness.sampling.temperature == 0.6
    assert harness.channels["notes"] == "be quick"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("windw = 3", r"windw: there is no such key; did you mean 'window'\?"),
        ("[limits]\nmax_step = 3", r"limits\.max_step: there is no such key; did you mean 'max_steps'\?"),
        ("zzz = 3", r"zzz: there is no such key; known are channels, .*window"),
        ("window = 'many'", r"window = 'many': Input should be a valid integer"),
        ("window = 2\ndelta = 3", r"delta = 3 is more than window = 2"),
        ("window = ", "is not TOML"),
        ("windw = 3\ndetla = 1", r"(?s)windw.*detla: .*'delta'"),
    ],
)
def test_toml_mistakes_name_the_key_and_the_nearest_right_one(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_toml(Harness, text, source="harness.toml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.toml"):
        Harness.load(tmp_path / "nowhere.toml")
