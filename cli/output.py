"""Where everything that a command says goes: results to stdout, progress and errors to stderr.

::

    --json    stdout: exactly one JSON document, also when the command fails ({"error": ...})
    otherwise stdout: text and tables for people
    always    stderr: progress (a live bar on a terminal, plain lines elsewhere) and error messages

rich is imported on first use, so that a command's help does not pay for it twice.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cli.errors import Failure, debug_enabled

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from cli.progress import Progress

__all__ = ["MARKS", "Mark", "Output", "age", "facts", "size", "table"]

Mark = Literal["ok", "warn", "bad", "none"]
MARKS: dict[Mark, str] = {
    "ok": "[green]✓[/green]",
    "warn": "[yellow]![/yellow]",
    "bad": "[red]✗[/red]",
    "none": "[dim]·[/dim]",
}
"""The four marks that stand for a state, the same in every command."""

WIDTH_WITHOUT_TERMINAL = 160


class Output:
    """One command's voice.

    Args:
        json: print one JSON document instead of text.
    """

    current: ClassVar[Output | None] = None
    """The running command's output; an error is reported in its form."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        Output.current = self

    @property
    def out(self) -> Console:
        """The console of results."""
        return _console(stderr=False)

    @property
    def err(self) -> Console:
        """The console of progress and errors."""
        return _console(stderr=True)

    def note(self, *parts: RenderableType) -> None:
        """Tell people, beside the progress, what a part of the work came to."""
        for part in parts:
            self.err.print(part, highlight=False)

    def result(self, data: Any, *parts: RenderableType) -> None:
        """Print a command's result: `data` as JSON, or `parts` one below the other for people."""
        with _naming_stdout():
            if self.json:
                sys.stdout.write(_json_text(data) + "\n")
            for part in () if self.json else parts:
                self.out.print(part, highlight=False)
            sys.stdout.flush()

    @contextmanager
    def progress(self, title: str, total: int | None = None) -> Iterator[Progress]:
        """Show that long work goes on.

        Args:
            total: number of things to do, for a bar; None shows only what is being done.
        """
        from cli.progress import live_progress, plain_progress

        make = live_progress if self.err.is_terminal else plain_progress
        with make(self.err, title, total) as progress:
            yield progress

    def failure(self, failure: Failure, error: BaseException) -> None:
        """Report a failure; with FRONTDESK_DEBUG=1 its traceback too."""
        if debug_enabled():
            traceback.print_exception(error)
        if self.json:
            body = {"type": failure.type, "message": failure.message, "fix": failure.fix}
            self.result({"error": body})
            return
        from rich.markup import escape

        self.err.print(f"[bold red]error:[/bold red] {escape(failure.message)}", highlight=False, soft_wrap=True)
        if failure.fix:
            self.err.print(f"[bold]to fix it:[/bold] {escape(failure.fix)}", highlight=False, soft_wrap=True)

    def interrupted(self, command: str) -> None:
        """Say that nothing is lost and how to go on."""
        from rich.markup import escape

        if self.json:
            self.result({"error": {"type": "Interrupted", "message": "interrupted", "fix": f"run again: {command}"}})
            return
        self.err.print(
            f"[yellow]interrupted[/yellow]; what was finished is kept. To go on from there:\n  {escape(command)}",
            highlight=False,
            soft_wrap=True,
        )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table in the house's form. A column whose name starts with `>` is aligned right; cells are rich markup."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values below each other, long values broken inside their column."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(width=0)  # only its padding: the names are indented
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row("", name, value)
    return made


def size(num_bytes: int) -> str:
    """Bytes for a person: 1.5 GB."""
    amount = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def age(seconds: float) -> str:
    """A duration for a person: 42 s, 3 min, 2.5 h, 4 d."""
    for limit, unit in ((120, 1), (7200, 60), (172_800, 3600)):
        if seconds < limit:
            amount = seconds / unit
            name = {1: "s", 60: "min", 3600: "h"}[unit]
            return f"{amount:.0f} {name}" if unit != 3600 else f"{amount:.1f} {name}"
    return f"{seconds / 86_400:.0f} d"


@contextmanager
def _naming_stdout() -> Iterator[None]:
    """A full disk behind `> file` is told as that of standard output; a reader that left stays a BrokenPipeError."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def _console(*, stderr: bool) -> Console:
    """A console on the stream as it is now (tests and pipes replace streams)."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else WIDTH_WITHOUT_TERMINAL)


def _json_text(data: Any) -> str:
    """JSON as readable as stdout's encoding allows; nothing is lost to it, odd file names included."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=_plain)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return json.dumps(data, indent=2, default=_plain)
    return text


def _plain(value: object) -> object:
    """JSON data for the house's own types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"{type(value).__name__} has no JSON form")
