"""`frontdesk desk`: a desktop by hand. It stays open between commands until it is closed or idle for long.

Opening, listing, closing and running commands are here; looking and acting are in cli/screen.py.
"""

from __future__ import annotations

import shlex
import sys
import time
from typing import Annotated

import typer

from cli import screen
from cli.command import Json, command, group
from cli.errors import FAILED
from cli.hubs import BackendOption
from cli.output import MARKS, Output, age, table
from cli.screen import DEFAULT, Name, on_desk

__all__ = ["app"]

app = group(
    "A desktop by hand: open one, look at it, act on it.\n\n"
    "It stays open between commands, and closes itself after an hour without one. Commands are about the desk named "
    "[cyan]desk[/cyan] unless [cyan]--name[/cyan] says otherwise."
)


@command(
    app,
    "open",
    examples={
        "frontdesk desk open": "a light desktop, 1280x720",
        "frontdesk desk open --name big --size 1920x1080 --font-scale 1.5": "a second one",
    },
)
def open_(
    name: Name = DEFAULT,
    profile: Annotated[str, typer.Option(help="Desktop image; built first if it is not there.")] = "light",
    size: Annotated[str, typer.Option(help="Screen size in pixels, WIDTHxHEIGHT.")] = "1280x720",
    font_scale: Annotated[float, typer.Option(help="1.0 is 96 dpi.")] = 1.0,
    idle_min: Annotated[float, typer.Option(min=0.01, help="Close it after so many minutes without a command.")] = 60.0,
    backend: BackendOption = "local",
    json: Json = False,
) -> None:
    """Open a desktop that stays open between commands."""
    from cli.image import require_image
    from sandbox.desks import open_desk, require_free
    from sandbox.desktop import DesktopSpec
    from store import Home

    output = Output(json=json)
    home = Home.default().ensure()
    width, height = _screen_size(size)
    spec = DesktopSpec(profile=profile, width=width, height=height, font_scale=font_scale)
    require_free(home, name)
    require_image(output, home, profile, backend)
    begun = time.monotonic()
    with output.progress(f"Opening {name}"):
        desk = open_desk(home, name, spec=spec, backend=backend, idle_s=idle_min * 60)
    which = "" if name == DEFAULT else f" -n {name}"
    output.result(
        {"name": name, "desktop": desk.desktop_id, "image": desk.image_digest, "width": width, "height": height},
        f"{MARKS['ok']} {name} is open: {profile}, {width}x{height}, in {time.monotonic() - begun:.1f} s",
        f"  look   [cyan]frontdesk desk shot{which}[/cyan]\n"
        f"  act    [cyan]frontdesk desk do{which} 'click 100 200'[/cyan]\n"
        f"  close  [cyan]frontdesk desk close{'' if name == DEFAULT else f' {name}'}[/cyan]",
    )


screen.register(app)


@command(
    app,
    "exec",
    context_settings={"allow_interspersed_args": False},
    examples={
        "frontdesk desk exec ls -l": "as the desktop's user, in its home",
        "frontdesk desk exec --root -- apt list --installed": "as root of the desktop",
        "frontdesk desk exec --detach galculator": "start an app and leave it running",
        "echo hello | frontdesk desk exec --stdin tee note.txt": "with standard input",
    },
)
def exec_(
    argv: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command and its arguments.")],
    name: Name = DEFAULT,
    root: Annotated[bool, typer.Option("--root", help="Run as root of the desktop.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Leave it running and return.")] = False,
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass standard input on, to its end.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Kill it after so many seconds.")] = 60.0,
    json: Json = False,
) -> None:
    """Run a command inside the desktop, with its display and session bus.

    Options come before the command. Exit code 1 when the command fails or is killed at its timeout.
    """
    output = Output(json=json)
    if detach:
        pid = on_desk(name, lambda desktop: desktop.spawn(argv, user="root" if root else "user"))
        output.result({"pid": pid}, f"{MARKS['ok']} {shlex.join(argv)} runs as process {pid}")
        return
    given = sys.stdin.buffer.read() if stdin else b""
    done = on_desk(
        name,
        lambda desktop: desktop.exec(argv, user="root" if root else "user", stdin=given, deadline_s=timeout_s),
    )
    if json:
        output.result(done)
    else:
        sys.stdout.buffer.write(done.stdout)
        sys.stdout.buffer.flush()
        sys.stderr.buffer.write(done.stderr)
        sys.stderr.buffer.flush()
        if done.truncated:
            output.err.print("[yellow]some output was dropped: it was longer than 1 MB[/yellow]")
    if not done.ok:
        if not json:
            how = f"was killed after {timeout_s:g} s" if done.timed_out else f"ended with code {done.exit_code}"
            output.err.print(f"{MARKS['bad']} {argv[0]} {how}", highlight=False)
        raise typer.Exit(FAILED)


@command(app, "list", examples={"frontdesk desk list": "which desks are open, and which ended by themselves"})
def list_(json: Json = False) -> None:
    """List the open desks.

    A desk that ended by itself is told once, with the reason.
    """
    from sandbox.desks import list_desks
    from store import Home

    output = Output(json=json)
    desks = list_desks(Home.default())
    rows = [
        (
            MARKS["ok"] if desk.alive else MARKS["bad"],
            desk.name,
            f"{desk.spec.profile}, {desk.spec.width}x{desk.spec.height}{', docker' * (desk.backend == 'docker')}",
            f"{age(time.time() - desk.opened_at)} ago",
            "open" if desk.alive else f"gone: {desk.why_ended}",
        )
        for desk in desks
    ]
    data = [
        {
            "name": desk.name,
            "alive": desk.alive,
            "opened_at": desk.opened_at,
            "spec": desk.spec,
            "backend": desk.backend,
        }
        | ({} if desk.alive else {"why_ended": desk.why_ended})
        for desk in desks
    ]
    shown = table(["", "Name", "Desktop", ">Opened", "State"], rows)
    output.result({"desks": data}, shown if desks else "No desk is open: [cyan]frontdesk desk open[/cyan]")


@command(
    app,
    "close",
    examples={
        "frontdesk desk close": "the default desk",
        "frontdesk desk close big": "another one",
        "frontdesk desk close --all": "every one",
    },
)
def close(
    name: Annotated[str, typer.Argument(help="Which desk.")] = DEFAULT,
    all: Annotated[bool, typer.Option("--all", help="Every open desk.")] = False,
    json: Json = False,
) -> None:
    """Close a desk and everything in it."""
    from sandbox.desks import close_desk, list_desks
    from store import Home

    output = Output(json=json)
    home = Home.default()
    names = [desk.name for desk in list_desks(home) if desk.alive] if all else [name]
    for each in names:
        close_desk(home, each)
    output.result({"closed": names}, *[f"{MARKS['ok']} {each} is closed" for each in names])


def _screen_size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise ValueError(f"{text!r} is no screen size: write WIDTHxHEIGHT, for example 1280x720")
    return int(width), int(height)
