"""How a command is declared: its help always ends with examples, and every command takes `--json`.

A command's function imports what it needs inside its body, so that `frontdesk --help` stays quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

__all__ = ["EXAMPLES", "Json", "command", "group", "root_group"]

Function = TypeVar("Function", bound=Callable[..., object])

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.", show_default=False)]

EXAMPLES: list[str] = []
"""Every example line of every command's help; a test parses them all."""

HELP_WIDTH = 76
"""Columns of help text that fit an 80-column terminal."""


def group(help: str) -> typer.Typer:
    """A group of commands, which shows its help when it is called alone."""
    return typer.Typer(help=_unwrap(help), no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


def root_group(help: str, *, order: Sequence[str]) -> typer.Typer:
    """The root of the command line.

    Args:
        order: names of its commands and groups as its help lists them.
    """

    class Root(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(order)

    root = group(help)
    root.info.cls = Root
    # A failure is reported by cli.main, in one message.
    root.pretty_exceptions_enable = False
    return root


def command(
    app: typer.Typer,
    name: str,
    *,
    examples: dict[str, str],
    panel: str | None = None,
    context_settings: dict[str, Any] | None = None,
) -> Callable[[Function], Function]:
    """Register a function as a command; its docstring is the help, and its first line the summary in lists.

    Args:
        examples: command line -> what it does, shown at the end of the help.
        panel: heading under which the command is listed.
        context_settings: how its arguments are parsed, where that differs.
    """
    EXAMPLES.extend(examples)

    def register(function: Function) -> Function:
        text = inspect.cleandoc(function.__doc__ or "")
        app.command(
            name,
            help=f"{_unwrap(text)}\n\n{_shown_examples(examples)}",
            short_help=text.partition("\n")[0],
            rich_help_panel=panel,
            context_settings=context_settings,
        )(function)
        return function

    return register


def _unwrap(text: str) -> str:
    """Join the lines of each paragraph, so that the terminal's width breaks them; `\\b` keeps a paragraph as it is."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith("\b") else " ".join(part.split()) for part in paragraphs)


def _shown_examples(examples: dict[str, str]) -> str:
    """The examples in columns if they fit, otherwise each below its explanation."""
    width = max(map(len, examples))
    if width + max(map(len, examples.values())) + 5 <= HELP_WIDTH:
        lines = [
            f"  [cyan]{_escape(line)}[/cyan]{' ' * (width - len(line))}   {what}" for line, what in examples.items()
        ]
    else:
        lines = [f"  [dim]# {_escape(what)}[/dim]\n  [cyan]{_escape(line)}[/cyan]" for line, what in examples.items()]
    # \b keeps the lines of this paragraph as they are; it must touch the text, or an empty line is drawn.
    return "\b[bold]Examples[/bold]\n" + "\n".join(lines)


def _escape(text: str) -> str:
    """Text for rich markup; `[` would open a tag."""
    return text.replace("[", "\\[")
