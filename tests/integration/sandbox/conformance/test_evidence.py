"""Evidence from real programs: every kind of request, and each of its answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import DesktopSpec
from sandbox.evidence import (
    AccessibilityRequest,
    CommandRequest,
    EvidenceItem,
    EvidenceRequest,
    FileRequest,
    GlobRequest,
    ProcessRequest,
    SettingRequest,
    WindowsRequest,
)
from tests.support.backends import DesktopBackend
from tests.support.live import act, sh, start

pytestmark = pytest.mark.desktop


@pytest.fixture(scope="module")
async def apps(backend: DesktopBackend) -> AsyncIterator[OwnedDesktop]:
    """A desktop on which an editor and a calculator run."""
    desktop = await backend.boot(DesktopSpec(width=800, height=600))
    try:
        await desktop.put_file("note.txt", b"a note\n")
        await start(desktop, ["mousepad", "note.txt"], "mousepad")
        await start(desktop, ["galculator"], "galculator")
        await act(desktop, {"kind": "type", "text": "12.5*4\n"})
        yield desktop
    finally:
        await desktop.close()


async def _ask(desktop: OwnedDesktop, request: EvidenceRequest) -> EvidenceItem:
    evidence = await desktop.collect([request])
    return evidence.items[request.name]


async def _data(desktop: OwnedDesktop, request: EvidenceRequest) -> Any:
    item = await _ask(desktop, request)
    assert (item.status, item.reason) == ("ok", "")
    return item.data


async def _refusal(desktop: OwnedDesktop, request: EvidenceRequest) -> tuple[str, str]:
    item = await _ask(desktop, request)
    assert item.data is None
    return item.status, item.reason


# -- files ------------------------------------------------------------------------------------------------------------


async def test_a_file_gives_its_bytes(apps: OwnedDesktop) -> None:
    for path in ("note.txt", "/home/user/note.txt"):
        assert (await _ask(apps, FileRequest(name="f", path=path))).file_bytes() == b"a note\n"
    assert b"root" in (await _ask(apps, FileRequest(name="f", path="/etc/passwd"))).file_bytes()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nothing.txt", "there is no file"),
        ("Documents", "not a regular file"),
        ("/etc/shadow", "Permission denied"),
        ("fifo", "not a regular file"),
    ],
)
async def test_a_file_that_is_not_there_is_missing(apps: OwnedDesktop, path: str, reason: str) -> None:
    await sh(apps, "[ -p fifo ] || mkfifo fifo")
    status, why = await _refusal(apps, FileRequest(name="f", path=path))
    assert status == "missing"
    assert reason in why


async def test_a_file_over_the_limit_is_too_large(apps: OwnedDesktop) -> None:
    status, reason = await _refusal(apps, FileRequest(name="f", path="note.txt", max_bytes=6))
    assert (status, reason) == ("too_large", "/home/user/note.txt has 7 bytes; the limit is 6")


async def test_links_are_followed_inside_the_home_only(apps: OwnedDesktop) -> None:
    await sh(apps, "ln -sf note.txt inside; ln -sf /etc/passwd outside; ln -sfn /etc way; ln -sfn Documents docs")
    await sh(apps, "echo deep > Documents/deep.txt; ln -sf nowhere broken; ln -sf loop loop")
    assert (await _ask(apps, FileRequest(name="f", path="inside"))).file_bytes() == b"a note\n"
    assert (await _ask(apps, FileRequest(name="f", path="docs/deep.txt"))).file_bytes() == b"deep\n"
    for path in ("outside", "way/passwd", "/home/user/way/passwd", "Documents/../way/passwd", "broken", "loop"):
        assert (await _ask(apps, FileRequest(name="f", path=path))).status == "missing", path
    # The same file under its own name is no link.
    assert (await _ask(apps, FileRequest(name="f", path="/etc/passwd"))).status == "ok"


async def test_a_glob_lists_what_matches(apps: OwnedDesktop) -> None:
    await sh(apps, "mkdir -p tree/sub; echo 12345 > tree/b.txt; touch tree/a.txt tree/.hidden tree/sub/c.txt tree/d.md")
    await sh(apps, "chmod 640 tree/b.txt; ln -sf b.txt tree/link.txt")
    listed = await _data(apps, GlobRequest(name="g", pattern="tree/*.txt"))
    assert [(item["path"], item["type"], item["size"]) for item in listed] == [
        ("/home/user/tree/a.txt", "file", 0),
        ("/home/user/tree/b.txt", "file", 6),
        ("/home/user/tree/link.txt", "link", 0),
    ]
    assert listed[1]["mode"] == 0o640
    deep = await _data(apps, GlobRequest(name="g", pattern="/home/user/tree/**/*.txt"))
    assert [item["path"].rsplit("/", 1)[1] for item in deep] == ["a.txt", "b.txt", "link.txt", "c.txt"]
    assert await _data(apps, GlobRequest(name="g", pattern="tree/*.none")) == []
    status, reason = await _refusal(apps, GlobRequest(name="g", pattern="tree/*", max_items=2))
    assert (status, reason) == ("too_large", "more than 2 paths match /home/user/tree/*")


# -- commands and settings --------------------------------------------------------------------------------------------


async def test_a_command_gives_its_end_and_outputs(apps: OwnedDesktop) -> None:
    argv = ("bash", "-c", "echo out; echo é >&2; id -un; exit 3")
    assert await _data(apps, CommandRequest(name="c", argv=argv)) == {
        "exit_code": 3,
        "stdout": "out\nuser\n",
        "stderr": "é\n",
    }
    assert (await _data(apps, CommandRequest(name="c", argv=("id", "-u"), user="root")))["stdout"] == "0\n"


async def test_a_command_that_fails_to_run_is_an_error(apps: OwnedDesktop) -> None:
    status, reason = await _refusal(apps, CommandRequest(name="c", argv=("no-such-program",)))
    assert (status, reason) == ("error", "no-such-program: No such file or directory")
    status, reason = await _refusal(apps, CommandRequest(name="c", argv=("sleep", "60"), timeout_s=0.2))
    assert (status, reason) == ("error", "sleep did not end in time")
    status, _ = await _refusal(apps, CommandRequest(name="c", argv=("head", "-c", "300000", "/dev/zero")))
    assert status == "too_large"


async def test_settings_are_those_that_programs_use(apps: OwnedDesktop) -> None:
    view, key = "org.xfce.mousepad.preferences.view", "show-line-numbers"
    request = SettingRequest(name="s", schema_id=view, key=key)
    assert await _data(apps, request) == "false"
    await sh(apps, f"gsettings set {view} {key} true")
    assert await _data(apps, request) == "true"
    every = await _data(apps, SettingRequest(name="s", schema_id=view))
    assert every[key] == "true"
    assert len(every) > 5
    for missing in (
        SettingRequest(name="s", schema_id=view, key="nothing"),
        SettingRequest(name="s", schema_id="no.such"),
    ):
        status, reason = await _refusal(apps, missing)
        assert status == "missing"
        assert "No such" in reason


# -- what runs and what shows -----------------------------------------------------------------------------------------


async def test_the_calculator_shows_its_result(apps: OwnedDesktop) -> None:
    nodes = await _data(apps, AccessibilityRequest(name="a", app="galculator", role="text"))
    assert any((node["text"] or "").strip() == "50" for node in nodes), nodes


async def test_nodes_are_found_by_role_and_name(apps: OwnedDesktop) -> None:
    (menu,) = await _data(apps, AccessibilityRequest(name="a", app="mousepad", role="menu", name_is="Search"))
    assert menu["bounds"][2] > 0
    assert "showing" in menu["states"]
    assert "children" not in menu
    assert len(await _data(apps, AccessibilityRequest(name="a", app="mousepad"))) > 10
    assert await _refusal(apps, AccessibilityRequest(name="a", app="mousepad", role="menu", name_is="Nothing")) == (
        "missing",
        "mousepad has no node of that role and name",
    )
    assert await _refusal(apps, AccessibilityRequest(name="a", app="gimp")) == (
        "missing",
        "no application 'gimp' is in the accessibility tree",
    )


async def test_an_application_that_hangs_is_an_error_not_missing(apps: OwnedDesktop) -> None:
    await sh(apps, "pkill -STOP mousepad")
    try:
        status, reason = await _refusal(apps, AccessibilityRequest(name="a", app="mousepad"))
        assert (status, reason) == ("error", "mousepad does not answer accessibility requests")
        assert (await _ask(apps, AccessibilityRequest(name="a", app="galculator"))).status == "ok"
    finally:
        await sh(apps, "pkill -CONT mousepad")
    assert (await _ask(apps, AccessibilityRequest(name="a", app="mousepad"))).status == "ok"


async def test_windows_are_listed(apps: OwnedDesktop) -> None:
    windows = {window["app"]: window for window in await _data(apps, WindowsRequest(name="w"))}
    assert set(windows) == {"mousepad", "galculator"}
    assert windows["mousepad"]["title"] == "~/note.txt - Mousepad"
    assert (windows["mousepad"]["active"], windows["galculator"]["active"]) == (False, True)
    assert not windows["mousepad"]["dialog"]


async def test_processes_are_found_by_name(apps: OwnedDesktop) -> None:
    (editor,) = await _data(apps, ProcessRequest(name="p", process="mousepad"))
    assert editor["argv"] == ["mousepad", "note.txt"]
    assert await _data(apps, ProcessRequest(name="p", process="gimp")) == []
    # Only the user's own count: the probe is python3 too.
    assert await _data(apps, ProcessRequest(name="p", process="python3")) == []
    assert await _data(apps, ProcessRequest(name="p", process="Xvfb")) == []


async def test_one_bad_item_spoils_no_other(apps: OwnedDesktop) -> None:
    evidence = await apps.collect(
        [
            CommandRequest(name="bad", argv=("no-such-program",)),
            FileRequest(name="gone", path="nothing"),
            FileRequest(name="good", path="note.txt"),
        ]
    )
    assert {name: item.status for name, item in evidence.items.items()} == {
        "bad": "error",
        "gone": "missing",
        "good": "ok",
    }
    assert list(evidence.errors) == ["bad"]
    clock = float(await sh(apps, "date +%s.%N"))
    assert abs(clock - evidence.clock_s) < 5
