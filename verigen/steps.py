"""How each declarative step is carried out on a desktop: one small function per type, one table.

A step that does not reach what it says raises `StepFailed` with what was expected and what was there. A step that does
not come back at all is cut off: `DeadlineExceeded`, an infrastructure failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sandbox.actions import Press
from sandbox.desktop import Desktop, ExecResult, Settle, Window
from sandbox.errors import BadRequest, DeadlineExceeded
from sandbox.evidence import ProcessRequest
from verigen.assets import Assets
from verigen.errors import AssetMissing
from verigen.task import (
    AssetStep,
    ExecStep,
    LaunchStep,
    PlaceWindowStep,
    PressStep,
    SetupStep,
    SleepStep,
    TerminateStep,
    TextFileStep,
    WaitWindowStep,
    WriteSettingStep,
)

__all__ = ["HOME", "QUIET", "StepFailed", "in_home", "run_step"]

HOME = "/home/user"
"""Home of the desktop's user; relative paths start here."""
QUIET = Settle(first_ms=150, quiet_ms=150, cap_ms=2000)
"""When a screen counts as drawn."""
POLL_S = 0.1
STEP_S = 30.0  # for steps that have no limit of their own
GRACE_S = 15.0  # a step keeps its own limit; only one that fails to is cut off from outside
PLACE_S = 3.0
PLACE_PX = 64  # a frame and its title bar lie between where a window is put and where its content is


class StepFailed(Exception):
    """A step did not do what it says."""

    def __init__(self, *, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}; found {found}")


def in_home(path: str) -> str:
    """The absolute form of a path of a step."""
    return path if path.startswith("/") else f"{HOME}/{path}"


async def run_step(desktop: Desktop, step: SetupStep, assets: Assets) -> None:
    """Carry out one step.

    Raises:
        StepFailed: it could not be done, or did not do what it says.
        DeadlineExceeded: it did not come back.
        DesktopError: the desktop failed.
    """
    limit = getattr(step, "timeout_s", STEP_S) + GRACE_S
    try:
        async with asyncio.timeout(limit):
            await _STEPS[step.type](desktop, step, assets)
    except TimeoutError as error:
        raise DeadlineExceeded(f"the step {step.type} did not come back in {limit:g} s", phase="setup") from error
    except BadRequest as error:
        raise StepFailed(expected=f"a {step.type} step that can be done", found=str(error)) from error


async def _text_file(desktop: Desktop, step: TextFileStep, assets: Assets) -> None:
    await desktop.put_file(in_home(step.path), step.text.encode(), user=step.as_user)


async def _asset(desktop: Desktop, step: AssetStep, assets: Assets) -> None:
    try:
        data = assets.get(step.sha256)
    except AssetMissing as error:
        raise StepFailed(expected=f"the asset for {step.path}", found=str(error)) from error
    await desktop.put_file(in_home(step.path), data, user=step.as_user)


async def _write_setting(desktop: Desktop, step: WriteSettingStep, assets: Assets) -> None:
    argv = ["gsettings", "set", step.schema_id, step.key, step.value]
    _demand_success(argv, await desktop.exec(argv, deadline_s=STEP_S))


async def _exec(desktop: Desktop, step: ExecStep, assets: Assets) -> None:
    # The home is closed to every other account, root's included.
    cwd = HOME if step.as_user == "user" else "/"
    result = await desktop.exec(step.argv, user=step.as_user, cwd=cwd, deadline_s=step.timeout_s)
    _demand_success(step.argv, result)


async def _launch(desktop: Desktop, step: LaunchStep, assets: Assets) -> None:
    await desktop.spawn(step.argv, cwd=HOME)


async def _wait_window(desktop: Desktop, step: WaitWindowStep, assets: Assets) -> None:
    def matching(windows: tuple[Window, ...]) -> bool:
        return any(window.app == step.app and step.title_contains in window.title for window in windows)

    await _await_windows(
        desktop, matching, step.timeout_s, f"a window of {step.app} with {step.title_contains!r} in its title"
    )
    await desktop.step((), settle=QUIET, want=())


async def _place_window(desktop: Desktop, step: PlaceWindowStep, assets: Assets) -> None:
    def there(windows: tuple[Window, ...]) -> bool:
        return any(window.app == step.app for window in windows)

    windows = await _await_windows(desktop, there, PLACE_S, f"a window of {step.app}")
    window = next(window for window in windows if window.app == step.app and (not window.dialog or len(windows) == 1))
    argv = ["xdotool"]
    if step.width is not None and step.height is not None:
        argv += ["windowsize", str(window.id), str(step.width), str(step.height)]
    argv += ["windowmove", str(window.id), str(step.x), str(step.y)]
    _demand_success(argv, await desktop.exec(argv, deadline_s=STEP_S))

    def placed(windows: tuple[Window, ...]) -> bool:
        return any(found.id == window.id and _is_placed(found, step) for found in windows)

    size = "" if step.width is None else f" of {step.width}x{step.height}"
    await _await_windows(desktop, placed, PLACE_S, f"the window of {step.app}{size} at ({step.x}, {step.y})")
    await desktop.step((), settle=QUIET, want=())


def _is_placed(window: Window, step: PlaceWindowStep) -> bool:
    bounds = window.bounds
    near = 0 <= bounds.x - step.x <= PLACE_PX and 0 <= bounds.y - step.y <= PLACE_PX
    sized = step.width is None or (abs(bounds.width - step.width) <= PLACE_PX)
    return near and sized and (step.height is None or abs(bounds.height - step.height) <= PLACE_PX)


async def _press(desktop: Desktop, step: PressStep, assets: Assets) -> None:
    result = await desktop.step((Press(keys=step.keys),), settle=QUIET, want=())
    refused = [action.error for action in result.actions if not action.ok]
    if refused:
        raise StepFailed(expected=f"{'+'.join(step.keys)} to be pressed", found=str(refused[0]))


async def _terminate(desktop: Desktop, step: TerminateStep, assets: Assets) -> None:
    pids = await _pids(desktop, step.process)
    if pids:
        # A process may end by itself between the two calls; then kill has nothing to do, and that is right.
        await desktop.exec(["/bin/sh", "-c", 'kill -TERM "$@" || true', "sh", *pids], deadline_s=STEP_S)
    ends = time.monotonic() + step.timeout_s
    while pids := await _pids(desktop, step.process):
        if time.monotonic() >= ends:
            raise StepFailed(expected=f"{step.process} to end by SIGTERM", found=f"it still runs as {', '.join(pids)}")
        await asyncio.sleep(POLL_S)


async def _sleep(desktop: Desktop, step: SleepStep, assets: Assets) -> None:
    await asyncio.sleep(step.seconds)


_STEPS: dict[str, Callable[[Desktop, Any, Assets], Awaitable[None]]] = {
    "text_file": _text_file,
    "asset": _asset,
    "write_setting": _write_setting,
    "exec": _exec,
    "launch": _launch,
    "wait_window": _wait_window,
    "place_window": _place_window,
    "press": _press,
    "terminate": _terminate,
    "sleep": _sleep,
}


def _demand_success(argv: list[str] | tuple[str, ...], result: ExecResult) -> None:
    if result.ok:
        return
    said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-300:]
    end = "it was ended at its deadline" if result.timed_out else f"exit code {result.exit_code}"
    raise StepFailed(expected=f"{' '.join(argv)} to succeed", found=f"{end}{f': {said}' if said else ''}")


async def _await_windows(
    desktop: Desktop, condition: Callable[[tuple[Window, ...]], bool], timeout_s: float, expected: str
) -> tuple[Window, ...]:
    """Wait until the windows fulfil a condition, and return them.

    Raises:
        StepFailed: they do not in time.
    """
    ends = time.monotonic() + timeout_s
    while True:
        windows = (await desktop.observe(("windows",))).windows or ()
        if condition(windows):
            return windows
        if time.monotonic() >= ends:
            shown = ", ".join(
                f"{window.app} {window.title!r} {window.bounds.width}x{window.bounds.height}"
                f" at ({window.bounds.x}, {window.bounds.y})"
                for window in windows
            )
            raise StepFailed(expected=f"{expected} within {timeout_s:g} s", found=shown or "no window at all")
        await asyncio.sleep(POLL_S)


async def _pids(desktop: Desktop, process: str) -> list[str]:
    evidence = await desktop.collect((ProcessRequest(name="it", process=process),))
    if evidence.errors:
        raise StepFailed(expected=f"to know whether {process} runs", found=evidence.errors["it"])
    return [str(entry["pid"]) for entry in evidence.items["it"].data or ()]
