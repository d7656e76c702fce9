from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

import cli.main
from cli.command import EXAMPLES, group
from cli.main import app

ROOT: Any = typer.main.get_command(app)


def commands(command: Any = ROOT, path: str = "frontdesk") -> Iterator[tuple[str, Any]]:
    """Every command that can be run, with what one types for it."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from commands(below, f"{path} {name}")


def parse(line: str) -> str:
    """Parse a command line as the shell and typer would, without running it; return the command's path."""
    words = [word for word in shlex.split(line.partition(" | ")[0] if line.startswith("frontdesk") else line)]
    words = words[words.index("frontdesk") + 1 :]
    command, path = ROOT, "frontdesk"
    context = command.make_context("frontdesk", words[:1])
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, words)
        path = f"{path} {name}"
        if hasattr(command, "commands"):
            context = command.make_context(name, words[:1], parent=context)
        else:
            command.make_context(name, words, parent=context)
    return path


ALL = dict(commands())


@pytest.mark.parametrize("path", ALL)
def test_every_command_teaches(path: str) -> None:
    command = ALL[path]
    summary = command.get_short_help_str(limit=200)
    assert summary.endswith(".")
    assert len(summary) <= 80
    assert "Examples" in command.help
    options = {option for param in command.params for option in param.opts}
    assert "--json" in options
    assert all(param.help for param in command.params)


def test_every_command_has_an_example_that_parses() -> None:
    assert {parse(line) for line in EXAMPLES} == set(ALL)


def test_an_example_with_a_wrong_option_would_be_found() -> None:
    with pytest.raises(typer.TyperException, match="No such option"):
        parse("frontdesk desk shot --no-such-option")
    with pytest.raises(typer.TyperException, match="No such command"):
        parse("frontdesk desk shoot")


def test_the_root_lists_every_command_once() -> None:
    assert sorted(ROOT.list_commands(None)) == sorted(ROOT.commands)


def test_help_text_is_joined_but_examples_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    made = group(
        """First line
        goes on.

        \b[bold]Kept[/bold]
          as it is
        """
    )
    assert made.info.help == "First line goes on.\n\n\b[bold]Kept[/bold]\n  as it is"


def test_the_command_is_the_one_that_the_distribution_installs() -> None:
    from importlib.metadata import entry_points

    found = [point for point in entry_points(group="console_scripts") if point.name == "frontdesk"]
    assert all(point.value == "cli.main:run" for point in found)
    assert callable(cli.main.run)
