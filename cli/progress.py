"""Progress of long work: a live bar on a terminal, plain lines in a log.

A live display and a log want different things: the display shows what happens now and forgets it, the log keeps one
line for each thing that was finished. Both are behind `Progress`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich import progress as rich_progress
    from rich.console import Console

__all__ = ["Progress", "live_progress", "plain_progress"]


class Progress(Protocol):
    """What long work reports to."""

    def now(self, text: str) -> None:
        """Say what is being done."""
        ...

    def line(self, markup: str) -> None:
        """Leave a line behind."""
        ...

    def finished(self, markup: str = "") -> None:
        """Count one thing as finished, and leave a line behind if there is one."""
        ...

    def reach(self, done: float) -> None:
        """Set how much of the total is done, for work that is measured rather than counted."""
        ...


class _Live:
    def __init__(self, bar: rich_progress.Progress, task: rich_progress.TaskID) -> None:
        self.bar, self.task = bar, task

    def now(self, text: str) -> None:
        self.bar.update(self.task, now=text)

    def line(self, markup: str) -> None:
        self.bar.console.print(markup, highlight=False)

    def finished(self, markup: str = "") -> None:
        self.bar.advance(self.task)
        if markup:
            self.line(markup)

    def reach(self, done: float) -> None:
        self.bar.update(self.task, completed=done)


class _Plain:
    def __init__(self, console: Console, total: int | None) -> None:
        self.console, self.total = console, total
        self.done = 0
        self.last = ""

    def now(self, text: str) -> None:
        if text and text != self.last:
            self.last = text
            self.console.print(f"  {text}", highlight=False, markup=False)

    def line(self, markup: str) -> None:
        self.console.print(markup, highlight=False)

    def finished(self, markup: str = "") -> None:
        self.done += 1
        if markup:
            self.line(markup if self.total is None else f"{self.done}/{self.total} {markup}")

    def reach(self, done: float) -> None:
        """A log keeps what was finished, not how far the rest is."""


@contextmanager
def live_progress(console: Console, title: str, total: int | None) -> Iterator[Progress]:
    """A spinner at the bottom of the terminal, with a bar when the total is known; lines scroll above it."""
    from rich import progress as rich_progress
    from rich.markup import escape

    columns: list[rich_progress.ProgressColumn] = [
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("[bold]{task.description}[/bold]"),
    ]
    if total is not None:
        columns += [rich_progress.BarColumn(bar_width=24), rich_progress.MofNCompleteColumn()]
    columns += [
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("{task.fields[now]}", style="dim", markup=False),
    ]
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        yield _Live(bar, bar.add_task(escape(title), total=total, now=""))


@contextmanager
def plain_progress(console: Console, title: str, total: int | None) -> Iterator[Progress]:
    """One line when the work begins, one for each change and each finished thing."""
    console.print(title, highlight=False, markup=False)
    yield _Plain(console, total)
