"""Every kind of step on a real desktop: what it says is what is there afterwards, and what cannot be done is said."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from agent.errors import SetupFailed
from sandbox.backends.local import LocalBackend, LocalDesktop
from sandbox.desktop import DesktopSpec
from sandbox.evidence import FileRequest, ProcessRequest, SettingRequest
from verigen.assets import MemoryAssets
from verigen.checks.model import ProcessCheck, SettingCheck, TextCheck
from verigen.gates.fingerprint import difference, take_fingerprint
from verigen.settle import run_settle
from verigen.setup import run_setup
from verigen.steps import StepFailed, run_step
from verigen.task import (
    AssertStep,
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

pytestmark = pytest.mark.desktop

PICTURE = b"\x89PNG not really"
ASSETS = MemoryAssets(PICTURE)
ODD = "Documents/Résumé (final) – copy #2 $HOME 'x'.txt"


async def carry_out(desktop: LocalDesktop, steps: Sequence[SetupStep]) -> None:
    for step in steps:
        await run_step(desktop, step, ASSETS)


async def test_files_settings_and_commands(desktop: LocalDesktop) -> None:
    await carry_out(
        desktop,
        [
            TextFileStep(path=ODD, text="a\nb"),
            TextFileStep(path="/etc/motto", text="by root\n", as_user="root"),
            AssetStep(path="Pictures/new/a.png", sha256=hashlib.sha256(PICTURE).hexdigest()),
            WriteSettingStep(schema_id="org.xfce.mousepad.preferences.view", key="show-line-numbers", value="true"),
            ExecStep(argv=("/bin/sh", "-c", 'printf %s "$0" > "$HOME/made by exec"', "a  $b")),
            ExecStep(argv=("/bin/sh", "-c", "printf root > /etc/made"), as_user="root"),
        ],
    )
    assert await desktop.get_file(f"/home/user/{ODD}") == b"a\nb"
    assert await desktop.get_file("/home/user/Pictures/new/a.png") == PICTURE
    assert await desktop.get_file("/home/user/made by exec") == b"a  $b"
    assert await desktop.get_file("/etc/made") == b"root"
    owners = await desktop.exec(["stat", "-c", "%U", f"/home/user/{ODD}", "/etc/motto"])
    assert owners.stdout.split() == [b"user", b"root"]
    request = SettingRequest(name="it", schema_id="org.xfce.mousepad.preferences.view", key="show-line-numbers")
    assert (await desktop.collect((request,))).items["it"].data == "true"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (ExecStep(argv=("/bin/sh", "-c", "echo broken >&2; exit 3")), "exit code 3: broken"),
        (ExecStep(argv=("sleep", "30"), timeout_s=0.3), "ended at its deadline"),
        (ExecStep(argv=("no-such-program",)), "no-such-program"),
        (LaunchStep(argv=("no-such-program",)), "no-such-program"),
        (WriteSettingStep(schema_id="org.nobody", key="x", value="1"), "org.nobody"),
        (WriteSettingStep(schema_id="org.xfce.mousepad.preferences.view", key="tab-width", value="'x'"), "exit code 1"),
        (AssetStep(path="x", sha256="0" * 64), "cannot be used"),
        (WaitWindowStep(app="mousepad", timeout_s=0.3), "no window at all"),
        (PlaceWindowStep(app="mousepad", x=1, y=1), "no window at all"),
        (TextFileStep(path="/etc/motto", text="x"), "motto"),
    ],
)
async def test_what_cannot_be_done_is_said(
    desktop: LocalDesktop, step: SetupStep, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verigen.steps.PLACE_S", 0.3)
    with pytest.raises(StepFailed) as failed:
        await run_step(desktop, step, ASSETS)
    assert message in str(failed.value)


async def test_windows_are_waited_for_placed_and_typed_into(desktop: LocalDesktop) -> None:
    await carry_out(
        desktop,
        [
            TextFileStep(path="a.txt", text="one\n"),
            LaunchStep(argv=("mousepad", "a.txt")),
            WaitWindowStep(app="mousepad", title_contains="a.txt"),
            PlaceWindowStep(app="mousepad", x=120, y=90, width=500, height=320),
        ],
    )
    windows = (await desktop.observe(("windows",))).windows
    assert windows is not None
    (window,) = windows
    assert abs(window.bounds.x - 120) <= 16
    assert 90 <= window.bounds.y <= 130
    assert (window.bounds.width, window.bounds.height) == (500, 320)
    # The application itself knows it too: its widgets are where accessibility says.
    (root,) = (await desktop.observe(("a11y",))).a11y or ()
    frame = root.children[0].bounds
    assert frame is not None
    assert frame.x <= window.bounds.x <= frame.x + 16
    assert frame.y <= window.bounds.y <= frame.y + 40
    await carry_out(
        desktop, [PressStep(keys=("ctrl", "a")), PressStep(keys=("delete",)), PressStep(keys=("ctrl", "s"))]
    )
    assert await desktop.get_file("/home/user/a.txt") == b""


async def test_terminate_ends_a_program_and_waits_for_it(desktop: LocalDesktop) -> None:
    running = (ProcessRequest(name="it", process="mousepad"),)
    await carry_out(desktop, [LaunchStep(argv=("mousepad",)), WaitWindowStep(app="mousepad")])
    assert (await desktop.collect(running)).items["it"].data
    await carry_out(desktop, [TerminateStep(process="mousepad"), TerminateStep(process="mousepad")])
    assert (await desktop.collect(running)).items["it"].data == []


async def test_a_program_that_will_not_end_fails_a_setup_but_not_a_grading(desktop: LocalDesktop) -> None:
    deaf = "trap '' TERM; while :; do sleep 0.2; done"
    await carry_out(
        desktop,
        [LaunchStep(argv=("/bin/sh", "-c", f"cp /bin/sh ~/deaf; exec ~/deaf -c {deaf!r}")), SleepStep(seconds=0.5)],
    )
    stubborn = TerminateStep(process="deaf", timeout_s=0.4)
    with pytest.raises(StepFailed, match="still runs"):
        await run_step(desktop, stubborn, ASSETS)
    await run_settle(desktop, (stubborn,), ASSETS)
    with pytest.raises(SetupFailed, match=r"setup step 2 of 2 \(terminate\)"):
        await run_setup(desktop, (SleepStep(seconds=0.01), stubborn), (), ASSETS)


async def test_assertions_wait_for_the_state_and_name_what_differs(
    desktop: LocalDesktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = FileRequest(name="notes", path="notes.txt")
    late = LaunchStep(argv=("/bin/sh", "-c", "sleep 0.7; echo ready > notes.txt"))
    await run_setup(
        desktop, (late,), (AssertStep(evidence=(notes,), check=TextCheck(item="notes", expected="ready")),), ASSETS
    )
    monkeypatch.setattr("verigen.setup.ASSERT_S", 0.3)
    gone = AssertStep(evidence=(ProcessRequest(name="it", process="mousepad"),), check=ProcessCheck(item="it"))
    with pytest.raises(SetupFailed, match="assertion 1 of 1 does not hold: process:it: it does not run"):
        await run_setup(desktop, (), (gone,), ASSETS)
    unknown = AssertStep(
        evidence=(SettingRequest(name="it", schema_id="org.nobody", key="x"),),
        check=SettingCheck(item="it", expected="1"),
    )
    with pytest.raises(SetupFailed, match=r"org\.nobody"):
        await run_setup(desktop, (), (unknown,), ASSETS)


async def test_fingerprints_see_files_modes_windows_and_evidence(backend: LocalBackend) -> None:
    request = (FileRequest(name="notes", path="notes.txt"),)
    spec = DesktopSpec(width=640, height=480)
    one, other = await backend.boot(spec), await backend.boot(spec)
    try:
        for desktop in (one, other):
            await carry_out(desktop, [TextFileStep(path="Documents/a b.txt", text="x")])
        before = await take_fingerprint(one, request)
        assert any("./Documents/a b.txt" in line for line in before)
        assert difference(before, await take_fingerprint(other, request)) == ""
        for change, trace in (
            (ExecStep(argv=("/bin/sh", "-c", "echo y > 'Documents/a b.txt'")), "a b.txt"),
            (ExecStep(argv=("chmod", "700", "Documents")), "d 700 ./Documents"),
            (ExecStep(argv=("ln", "-s", "/etc", "link")), "link"),
            (TextFileStep(path="notes.txt", text="x"), "notes"),
            (LaunchStep(argv=("mousepad",)), "mousepad"),
        ):
            now = await take_fingerprint(one, request)
            await carry_out(one, [change, SleepStep(seconds=1.0 if change.type == "launch" else 0.01)])
            assert trace in difference(now, await take_fingerprint(one, request))
    finally:
        await one.close()
        await other.close()
