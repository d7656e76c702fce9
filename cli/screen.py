"""Looking at a desk's screen and acting on it: `frontdesk desk shot|do|type|windows|tree`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cli.command import Json, command
from cli.errors import FAILED
from cli.output import MARKS, Output, table

if TYPE_CHECKING:
    from sandbox.actions import Action
    from sandbox.desktop import A11yNode, Desktop, DesktopSpec, Rect, StepResult
    from sandbox.frame import Frame

__all__ = ["DEFAULT", "Name", "on_desk", "register"]

Answer = TypeVar("Answer")
DEFAULT = "desk"
MAX_QUOTED = 200
"""Characters of an action that an error message quotes."""
USUAL_STATES = frozenset({"enabled", "sensitive", "showing", "visible"})
"""What nearly everything on a screen is; only the other states are worth a person's time."""
Name = Annotated[str, typer.Option("--name", "-n", help="Which desk.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="PNG file to write.", show_default=False)]


def on_desk(name: str, use: Callable[[Desktop], Awaitable[Answer]]) -> Answer:
    """Do something with an open desk and hang up; the desk stays open."""
    from sandbox.desks import connect_desk
    from sandbox.errors import DesktopLost, ProbeLost
    from store import Home

    async def talk() -> Answer:
        try:
            return await use(desktop)
        finally:
            await desktop.close()

    desktop = connect_desk(Home.default(), name)
    try:
        return asyncio.run(talk())
    except (DesktopLost, ProbeLost) as error:
        raise DesktopLost(f"desk {name!r} is broken: {error}. Close it and open a new one") from error


def register(app: typer.Typer) -> None:
    """Add the commands to `frontdesk desk`."""
    command(
        app,
        "shot",
        examples={
            "frontdesk desk shot": "save what is on the screen and say where",
            "frontdesk desk shot -o now.png": "into a file of your own",
        },
    )(shot)
    command(
        app,
        "do",
        examples={
            "frontdesk desk do 'click 100 200'": "one action",
            "frontdesk desk do 'double 40 60' 'type hello' 'press ctrl+s'": "several, in order",
            "frontdesk desk do 'scroll 640 360 0 -3' -o after.png": "with the screenshot in a file of your own",
        },
    )(do)
    command(
        app,
        "type",
        examples={
            "frontdesk desk type 'Grüße, 世界'": "any text, exactly as it is written",
            "frontdesk desk type $'first\\nsecond\\n'": "a line break is the Return key",
        },
    )(type_)
    command(app, "windows", examples={"frontdesk desk windows": "titles, places, and which is active"})(windows)
    command(
        app,
        "tree",
        examples={
            "frontdesk desk tree": "every application",
            "frontdesk desk tree --app mousepad": "one of them",
        },
    )(tree)


def shot(name: Name = DEFAULT, out: Out = None, json: Json = False) -> None:
    """Take a screenshot."""
    output = Output(json=json)
    seen = on_desk(name, lambda desktop: desktop.observe())
    assert seen.frame is not None
    path = _save(seen.frame, name, out)
    output.result(
        {"path": path, "sha256": seen.frame.sha256, "width": seen.frame.width, "height": seen.frame.height}
        | {"cursor": seen.cursor},
        f"{MARKS['ok']} [cyan]{path}[/cyan]  {seen.frame.width}x{seen.frame.height}, pointer at "
        f"{seen.cursor[0]},{seen.cursor[1]}",
    )


def do(
    actions: Annotated[list[str], typer.Argument(metavar="ACTION...", help="Actions in the compact dialect.")],
    name: Name = DEFAULT,
    out: Out = None,
    json: Json = False,
) -> None:
    """Act with mouse and keys.

    Says what happened and whether the screen changed, and saves a new screenshot. Every action is read before the
    first is executed, so a misspelt one changes nothing. X and Y are pixels of the screen from its top left corner.

    \b[bold]Actions[/bold]
      click X Y          left click; also double, triple, right, middle
      click X Y ctrl     with keys held
      move X Y           move the pointer
      drag X Y X2 Y2     drag from one point to the next
      down X Y / up X Y  press a button and keep it down / release it
      scroll X Y DX DY   turn the wheel: DY clicks up (negative: down)
      type TEXT          type the rest of the line
      press ctrl+s       press keys together; also keydown KEY, keyup KEY
      wait SECONDS       wait
    """
    from sandbox.desks import find_desk
    from store import Home

    output = Output(json=json)
    spec = find_desk(Home.default(), name).spec
    _act(output, name, _parse(actions, spec), actions, out)


def type_(
    text: Annotated[str, typer.Argument(help="What to type; a line break is Return, a tab is Tab.")],
    name: Name = DEFAULT,
    out: Out = None,
    json: Json = False,
) -> None:
    """Type text exactly: any language, any symbol."""
    from sandbox.actions import TypeText

    output = Output(json=json)
    _act(output, name, [TypeText(text=text)], [f"type {text!r}"], out)


def windows(name: Name = DEFAULT, json: Json = False) -> None:
    """List the windows, as the window manager reports them."""
    from rich.markup import escape

    output = Output(json=json)
    seen = on_desk(name, lambda desktop: desktop.observe(("windows",)))
    found = seen.windows or ()
    rows = [
        (
            MARKS["ok"] if window.active else "",
            escape(window.app),
            escape(window.title),
            _bounds(window.bounds),
            "dialog" if window.dialog else "",
        )
        for window in found
    ]
    output.result({"windows": found}, table(["", "App", "Title", "x,y width×height", ""], rows))


def tree(
    name: Name = DEFAULT,
    app: Annotated[str | None, typer.Option(help="Only this application.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Print the accessibility tree.

    Role, name, place, text and state of everything that is shown. It is the desktop's own word: its programs can forge
    it.
    """
    output = Output(json=json)
    seen = on_desk(name, lambda desktop: desktop.observe(("a11y",)))
    roots = [root for root in seen.a11y or () if app is None or root.name.lower() == app.lower()]
    if app is not None and not roots:
        there = ", ".join(root.name for root in seen.a11y or ()) or "none"
        raise ValueError(f"no application named {app} is on the screen; there are: {there}")
    output.result({"applications": roots}, *[line for root in roots for line in _tree_lines(root, 0)])


def _shortened(line: str) -> str:
    """A line as an error message quotes it."""
    return repr(line if len(line) <= MAX_QUOTED else line[:MAX_QUOTED] + "...")


def _parse(lines: Sequence[str], spec: DesktopSpec) -> list[Action]:
    """Read every line before anything is executed."""
    from sandbox.actions import is_terminal
    from sandbox.dialects import View, get_dialect

    view = View.unscaled(spec.width, spec.height)
    actions: list[Action] = []
    for line in lines:
        turn = get_dialect("compact").parse(line, view)
        if turn.error is not None:
            raise ValueError(f"{_shortened(line)} is no action: {turn.error.message}")
        if any(is_terminal(action) for action in turn.actions):
            raise ValueError(f"{line!r} ends an episode, and a desk has none: close it with frontdesk desk close")
        if len(turn.actions) != 1:
            raise ValueError(f"{line!r} is more than one action: give each an argument of its own")
        actions += turn.actions
    return actions


def _act(output: Output, name: str, actions: Sequence[Action], lines: Sequence[str], out: Path | None) -> None:
    """Execute the actions one by one, so that each has its own word on whether the screen changed."""
    from rich.markup import escape

    async def run(desktop: Desktop) -> list[StepResult]:
        done: list[StepResult] = []
        for action in actions:
            done.append(await desktop.step([action]))
            if not done[-1].actions[0].ok:
                break
        return done

    steps = on_desk(name, run)
    last = steps[-1].observation.frame
    assert last is not None
    path = _save(last, name, out)
    data, parts = [], []
    for line, step in zip(lines, steps, strict=False):
        result, settle = step.actions[0], step.settle
        changed = "[green]the screen changed[/green]" if settle.changed else "[dim]nothing changed[/dim]"
        if settle.changed and not settle.settled:
            changed = "[yellow]the screen still changes[/yellow]"
        what = changed if result.ok else f"[red]{escape(result.error or 'refused')}[/red]"
        parts.append(
            f"{MARKS['ok' if result.ok else 'bad']} {escape(line)}  {what} [dim]{settle.waited_ms:.0f} ms[/dim]"
        )
        data.append({"action": line, "ok": result.ok, "error": result.error, "changed": settle.changed})
    skipped = len(actions) - len(steps)
    if skipped:
        parts.append(f"{MARKS['none']} {skipped} more {'was' if skipped == 1 else 'were'} not executed")
    output.result({"steps": data, "path": path}, *parts, f"  [cyan]{path}[/cyan]")
    if not all(step.actions[0].ok for step in steps):
        raise typer.Exit(FAILED)


def _save(frame: Frame, name: str, out: Path | None) -> Path:
    """Write the screenshot; without a file of its own it replaces the desk's last one."""
    from sandbox.desks import screenshot_file
    from store import Home

    path = out.absolute() if out else screenshot_file(Home.default(), name)
    try:
        path.write_bytes(frame.png())
    except OSError as error:  # a failed write, unlike a failed open, does not say which file
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


def _tree_lines(node: A11yNode, depth: int) -> list[str]:
    from rich.markup import escape

    place = f" [cyan]{_bounds(node.bounds)}[/cyan]" if node.bounds else ""
    called = f" {escape(repr(node.name))}" if node.name else ""
    text = f" [green]{escape(repr(node.text))}[/green]" if node.text else ""
    value = f" [green]{node.value:g}[/green]" if node.value is not None else ""
    notable = [state for state in node.states if state not in USUAL_STATES]
    states = f" [dim]{escape(' '.join(notable))}[/dim]" if notable else ""
    own = f"{'  ' * depth}[bold]{escape(node.role)}[/bold]{called}{place}{text}{value}{states}"
    return [own, *[line for child in node.children for line in _tree_lines(child, depth + 1)]]


def _bounds(rect: Rect) -> str:
    return f"{rect.x},{rect.y} {rect.width}×{rect.height}"
