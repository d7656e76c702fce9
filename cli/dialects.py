"""`frontdesk dialects`: how each model family writes actions, what it cannot say, and a way to try one by hand."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from cli.command import Json, command, group
from cli.errors import FAILED
from cli.output import MARKS, Mark, Output, facts, table

__all__ = ["app"]

app = group(
    "Dialects: how each model family writes actions, what each can say, and what it loses.\n\n"
    "Called alone it lists them all."
)
app.info.no_args_is_help = False
SCREEN = "1920x1080"
NEVER = "cannot be written"


@app.callback(invoke_without_command=True)
def dialects(context: typer.Context, json: Json = False) -> None:
    """List the dialects when no command is named."""
    if context.invoked_subcommand is None:
        list_(json=json)


@command(
    app,
    "list",
    examples={
        "frontdesk dialects list": "what each dialect says exactly, with a loss, or not at all",
        "frontdesk dialects list uitars qwen3": "what two of them lose, in words",
    },
)
def list_(
    names: Annotated[list[str] | None, typer.Argument(metavar="[DIALECT]...", help="Only these, in words.")] = None,
    json: Json = False,
) -> None:
    """List the dialects: what each supports, and what it loses."""
    from sandbox.actions import ACTION_KINDS, Click, Point
    from sandbox.dialects import DIALECTS, View, get_dialect

    output = Output(json=json)
    view = View.unscaled(*_size(SCREEN, "--screen"))
    chosen = [get_dialect(name) for name in names or DIALECTS]
    center = Click(point=Point(x=960, y=540))
    data = [
        {
            "name": dialect.name,
            "tool": dialect.tool_schema(view) is not None,
            "example": dialect.render(center, view),
            "support": {kind: _support(dialect.lossy.get(kind)) for kind in ACTION_KINDS},
            "losses": dict(dialect.lossy),
        }
        for dialect in chosen
    ]
    if names:
        from rich.markup import escape

        shown = [
            facts([("dialect", f"[cyan]{dialect.name}[/cyan]"), ("a click", escape(dialect.render(center, view)))])
            for dialect in chosen
        ]
        losses = [table(["Kind", "What becomes of it"], list(dialect.lossy.items())) for dialect in chosen]
        output.result({"dialects": data}, *[part for pair in zip(shown, losses, strict=True) for part in pair])
        return
    rows = [
        (
            f"[cyan]{dialect.name}[/cyan]",
            *(MARKS[_MARKS[_support(dialect.lossy.get(kind))]] for kind in ACTION_KINDS),
        )
        for dialect in chosen
    ]
    legend = f"{MARKS['ok']} exact   {MARKS['warn']} with a loss or a limit   {MARKS['bad']} cannot be written"
    hint = "In words: [cyan]frontdesk dialects list NAME[/cyan]"
    output.result({"dialects": data}, table(["Dialect", *ACTION_KINDS], rows), legend, hint)


@command(
    app,
    "parse",
    examples={
        "frontdesk dialects parse --dialect compact 'click 100 200'": "try one by hand",
        "frontdesk dialects parse --dialect uitars -": "read the model's output from the standard input",
    },
)
def parse(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What a model wrote; - reads the standard input.")],
    dialect: Annotated[str, typer.Option(help="Which dialect.")],
    screen: Annotated[str, typer.Option(metavar="WxH", help="Size of the screen.")] = SCREEN,
    shown: Annotated[
        str | None, typer.Option(metavar="WxH", help="Size of the picture shown, if it differs.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Read a model's output: its actions, or what it is told.

    Exits with 1 when the output is not understood.
    """
    from json import dumps

    from rich.markup import escape

    from sandbox.actions import action_json
    from sandbox.dialects import View, get_dialect

    output = Output(json=json)
    codec = get_dialect(dialect)
    view = View(screen=_size(screen, "--screen"), shown=_size(shown or screen, "--shown"))
    turn = codec.parse(sys.stdin.read() if text == "-" else text, view)
    told = codec.render_result(turn.error, turn.tool_call_ids) if turn.error else None
    actions = [action_json(action) for action in turn.actions]
    rows = [("thought", escape(turn.thought))] if turn.thought else []
    rows += [("tool calls", escape(", ".join(turn.tool_call_ids)))] if turn.tool_call_ids else []
    lines = [f"{MARKS['ok']} {escape(dumps(action, ensure_ascii=False))}" for action in actions]
    if told:
        lines.append(f"{MARKS['bad']} {escape(told)}")
    output.result(
        {
            "actions": actions,
            "error": str(turn.error) if turn.error else None,
            "told": told,
            "thought": turn.thought,
            "tool_call_ids": turn.tool_call_ids,
        },
        *lines,
        *([facts(rows)] if rows else []),
    )
    if turn.error:
        raise typer.Exit(FAILED)


_MARKS: dict[str, Mark] = {"exact": "ok", "lossy": "warn", "never": "bad"}


def _support(loss: str | None) -> str:
    if loss is None:
        return "exact"
    return "never" if loss == NEVER else "lossy"


def _size(text: str, option: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if match is None:
        raise ValueError(f"{option} {text!r} is no size; write it like 1920x1080")
    return int(match[1]), int(match[2])
