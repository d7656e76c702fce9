"""The `frontdesk` command: which commands there are, and what happens when one fails.

Commands are thin over Python calls that a notebook could make. A failure becomes one message (cli/errors.py) and an
exit code: 0 done, 1 the work failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys

from cli import bench, desk, dialects, doctor, episodes, evaluate, gc, hub, image, quickstart, synth, tasks, train
from cli.command import root_group
from cli.errors import BAD_INPUT, INTERRUPTED, Failure, explain
from cli.output import Output

__all__ = ["app", "run"]

STARTS_OVER = ("--fresh", "--force")
"""Options that would throw away what an interrupted command has finished."""

app = root_group(
    """Train computer-use agents on real Linux desktops.

    New here? [cyan]frontdesk doctor[/cyan] says what this machine lacks, [cyan]frontdesk quickstart[/cyan] runs
    everything once. Every command takes [cyan]--help[/cyan], which ends with examples, and [cyan]--json[/cyan].
    State lives under $FRONTDESK_HOME (~/.local/share/frontdesk).
    """,
    order=(
        "doctor",
        "quickstart",
        "image",
        "desk",
        "hub",
        "synth",
        "tasks",
        "train",
        "eval",
        "episodes",
        "dialects",
        "bench",
        "gc",
    ),
)
doctor.register(app)
quickstart.register(app)
app.add_typer(image.app, name="image", rich_help_panel="Desktops")
app.add_typer(desk.app, name="desk", rich_help_panel="Desktops")
app.add_typer(hub.app, name="hub", rich_help_panel="Desktops")
synth.register(app)
app.add_typer(tasks.app, name="tasks", rich_help_panel="Tasks and episodes")
train.register(app)
evaluate.register(app)
app.add_typer(episodes.app, name="episodes", rich_help_panel="Tasks and episodes")
app.add_typer(dialects.app, name="dialects", rich_help_panel="Tasks and episodes")
gc.register(app)
bench.register(app)


def run() -> None:
    """Run the command line of this process and exit with its code."""
    _prepare_streams()
    try:
        app(prog_name="frontdesk")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            words = [word for word in sys.argv[1:] if word not in STARTS_OVER]
            _output().interrupted(shlex.join(["frontdesk", *words]))
        elif end.code == BAD_INPUT and (misuse := _misuse(end)) is not None and _asks_for_json():
            # typer has told people on stderr; the program that reads stdout gets its document as well.
            Output(json=True).failure(misuse, end)
        raise
    except Exception as error:  # noqa: BLE001 - the outermost place: whatever it is becomes one message
        failure = explain(error)
        try:
            _output().failure(failure, error)
        except OSError:  # stdout is full or gone; stderr is what is left
            with contextlib.suppress(OSError):
                Output(json=False).failure(failure, error)
        sys.exit(failure.exit_code)


def _prepare_streams() -> None:
    """Make the standard streams take any text.

    Where the caller closed one, /dev/null is put, or a file that is opened later would take its place. What a stream's
    encoding lacks, in the C locale say, becomes a question mark rather than an error.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _misuse(end: SystemExit) -> Failure | None:
    """What was wrong with the command line itself; None if something else ended the command."""
    error = end.__context__
    told = getattr(error, "format_message", None)
    if told is None:
        return None
    return Failure(type=type(error).__name__, message=told(), fix="see the command's --help", exit_code=BAD_INPUT)


def _asks_for_json() -> bool:
    """Whether the command line says --json, though it could not be read as a whole."""
    words = sys.argv[1:]
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _output() -> Output:
    """The output of the command that ran, or a plain one if it failed before it had any."""
    return Output.current or Output(json=False)
