"""The `frontdesk` command: which commands there are, and what happens when one fails.

Commands are thin over Python calls that a notebook could make. A failure becomes one message (cli/errors.py) and an
exit code: 0 done, 1 the work failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import shlex
import sys

from cli import bench, desk, dialects, doctor, episodes, evaluate, gc, image, quickstart, synth, tasks, train
from cli.command import root_group
from cli.errors import INTERRUPTED, explain
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
    try:
        app(prog_name="frontdesk")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            words = [word for word in sys.argv[1:] if word not in STARTS_OVER]
            _output().interrupted(shlex.join(["frontdesk", *words]))
        raise
    except Exception as error:  # noqa: BLE001 - the outermost place: whatever it is becomes one message
        failure = explain(error)
        _output().failure(failure, error)
        sys.exit(failure.exit_code)


def _output() -> Output:
    """The output of the command that ran, or a plain one if it failed before it had any."""
    return Output.current or Output(json=False)
