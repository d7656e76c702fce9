"""The README's examples are run, its figures are the measured ones, and its files exist."""

from __future__ import annotations

import re
import shlex
import time

import pytest

from benchmarks.readme import README, with_figures
from tests.support.command_line import CommandLine

HOUSE = README.parent
BLOCK = re.compile(r"<!-- run -->\n```console\n(.*?)```", re.DOTALL)


def examples() -> list[list[tuple[str, list[str]]]]:
    """Each block of the README that is to be run: command lines, each with the lines that it should print."""
    blocks = []
    for text in BLOCK.findall(README.read_text()):
        steps: list[tuple[str, list[str]]] = []
        for line in text.splitlines():
            if line.startswith("$ "):
                steps.append((line.removeprefix("$ "), []))
            else:
                steps[-1][1].append(line)
        blocks.append(steps)
    return blocks


def matches(expected: str, line: str) -> bool:
    """Whether a printed line is the expected one; `…` stands for anything, runs of spaces are one."""
    pattern = ".*".join(re.escape(" ".join(part.split())) for part in expected.split("…"))
    return re.fullmatch(pattern.replace(r"\ ", " ").replace(" .*", " ?.*"), " ".join(line.split())) is not None


def wait_for_a_window(frontdesk: CommandLine) -> None:
    """A person waits until the app that they started is there."""
    for _ in range(200):
        if any(window["active"] for window in frontdesk("desk windows --json").json["windows"]):
            return
        time.sleep(0.05)
    raise AssertionError("no window was shown")


@pytest.mark.desktop
@pytest.mark.parametrize("number", range(len(examples())))
def test_the_readmes_examples_do_what_they_say(number: int, frontdesk: CommandLine) -> None:
    for line, expected in examples()[number]:
        words = shlex.split(line)
        assert words[0] == "frontdesk"
        ran = frontdesk(shlex.join(words[1:]))
        assert ran.code == 0, ran.err
        for wanted in expected:
            assert any(matches(wanted, printed) for printed in ran.out.splitlines()), (
                f"{wanted!r} is not in:\n{ran.out}"
            )
        if "--detach" in words:
            wait_for_a_window(frontdesk)


def test_there_are_examples_and_a_wrong_line_would_be_found() -> None:
    assert sum(len(block) for block in examples()) >= 8
    assert matches("✓ desk is open: light, 1280x720, in … s", "✓ desk is open: light, 1280x720, in 0.7 s")
    assert not matches("✓ desk is open: light, 1280x720, in … s", "✓ desk is open: office, 1280x720, in 0.7 s")
    assert matches("… task …", "·   task   abc")
    assert not matches("… task …", "·   tusk   abc")


def test_the_readmes_figures_are_the_measured_ones() -> None:
    text = README.read_text()
    assert with_figures(text) == text, "run: python -m benchmarks.readme"
    assert re.search(r"<!-- desktops\.cold_boot_s -->\d", text)
    changed = re.sub(r"(<!-- desktops\.cold_boot_s -->)[^<]*", r"\g<1>0.001", text)
    assert with_figures(changed) == text


def test_every_file_and_folder_that_the_readme_names_is_there() -> None:
    text = README.read_text()
    named = re.findall(r"`((?:[a-z]+/)+[\w.-]*|[A-Z]+\.md)`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    assert {"sandbox/", "sandbox/probe/pointer.py", "docs/images/desktop.png"} <= set(named)
    assert [path for path in named if not (HOUSE / path).exists()] == []
