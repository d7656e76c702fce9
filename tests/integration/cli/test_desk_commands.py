"""A desktop by hand, on a real one."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from PIL import Image

from tests.support.command_line import CommandLine
from tests.support.machine_state import remains, wait_until_gone

pytestmark = pytest.mark.desktop

SIZE = "--size 800x600"


def holder(frontdesk: CommandLine, name: str = "desk") -> int:
    """The process that holds a desk."""
    pid: int = json.loads((frontdesk.home / "run" / "desks" / f"{name}.json").read_text())["holder_pid"]
    return pid


def wait_for_window(frontdesk: CommandLine, app: str) -> dict[str, object]:
    """Wait until an app shows a window and has the keyboard."""
    for _ in range(200):
        for window in frontdesk("desk windows --json").json["windows"]:
            if window["app"] == app and window["active"]:
                return dict(window)
        time.sleep(0.05)
    raise AssertionError(f"{app} showed no window")


def test_open_look_act_and_close(frontdesk: CommandLine, tmp_path: Path) -> None:
    opened = frontdesk(f"desk open {SIZE} --json")
    assert (opened.code, opened.json["width"], opened.json["height"]) == (0, 800, 600)

    shot = frontdesk(f"desk shot -o {tmp_path}/first.png --json").json
    with Image.open(shot["path"]) as picture:
        assert (picture.format, picture.size) == ("PNG", (800, 600))
        assert len(set(picture.get_flattened_data())) > 10

    assert frontdesk("desk exec --detach mousepad").code == 0
    assert wait_for_window(frontdesk, "mousepad")["title"] == "Untitled 1 - Mousepad"
    typed = frontdesk("desk type 'Grüße, 世界 😀' --json").json
    assert typed["steps"][0]["changed"]
    tree = frontdesk("desk tree --app mousepad")
    assert "'Grüße, 世界 😀'" in tree.out
    assert "menu 'File'" in tree.out

    steps = frontdesk("desk do 'press ctrl+a' 'press BackSpace' 'type x' --json").json["steps"]
    assert [step["ok"] for step in steps] == [True, True, True]
    assert "text" in frontdesk("desk tree --json").out
    assert "'x'" in frontdesk("desk tree").out

    said = frontdesk("desk do 'move 5 5' shot")
    assert "✓ move 5 5" in said.out
    assert str(frontdesk.home / "run" / "desks" / "desk.png") in said.out

    assert frontdesk("desk close").code == 0
    assert wait_until_gone(frontdesk.home) == []
    assert list((frontdesk.home / "run" / "desks").iterdir()) == []


def test_commands_inside_end_as_they_end(frontdesk: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    frontdesk(f"desk open {SIZE}")
    ran = frontdesk("desk exec --json sh -c 'echo out; echo err >&2; exit 3'")
    assert ran.code == 1
    assert (ran.json["exit_code"], ran.json["stdout"], ran.json["stderr"]) == (3, "out\n", "err\n")
    assert frontdesk("desk exec id -un").out == "user\n"
    assert frontdesk("desk exec --root id -un").out == "root\n"
    killed = frontdesk("desk exec --timeout 0.3 sleep 30")
    assert (killed.code, "sleep was killed after 0.3 s" in killed.err) == (1, True)
    absent = frontdesk("desk exec no-such-program")
    assert (absent.code, "no-such-program" in absent.err) == (2, True)

    reader, writer = os.pipe()
    os.write(writer, b"from outside")
    os.close(writer)
    with os.fdopen(reader) as given:
        monkeypatch.setattr("sys.stdin", given)
        assert frontdesk("desk exec --stdin cat").out == "from outside"


def test_wrong_actions_change_nothing(frontdesk: CommandLine) -> None:
    frontdesk(f"desk open {SIZE}")
    before = frontdesk("desk shot --json").json["sha256"]
    for line, message in (
        ("desk do 'click 10 10' 'clik 20 20'", "did you mean"),
        ("desk do 'click 900 10'", "outside the screen"),
        ("desk do done", "ends an episode"),
        ("desk do 'move 1 1\nmove 2 2'", "more than one action"),
        ("desk tree --app no-such-app", "no application named no-such-app"),
    ):
        ran = frontdesk(line)
        assert (ran.code, message in ran.err) == (2, True), ran.err
    assert frontdesk("desk shot --json").json["sha256"] == before


def test_two_desks_and_their_names(frontdesk: CommandLine) -> None:
    assert frontdesk(f"desk open {SIZE}").code == 0
    assert frontdesk("desk open --name big --size 1024x768 --font-scale 1.5").code == 0
    again = frontdesk("desk open")
    assert (again.code, "is open already" in again.err) == (2, True)
    assert frontdesk("desk shot -n big --json").json["width"] == 1024
    assert [desk["name"] for desk in frontdesk("desk list --json").json["desks"]] == ["big", "desk"]
    assert frontdesk("desk close --all --json").json == {"closed": ["big", "desk"]}
    assert "No desk is open" in frontdesk("desk list").out


def test_a_killed_holder_leaves_nothing_and_the_next_command_says_so(frontdesk: CommandLine) -> None:
    frontdesk(f"desk open {SIZE}")
    pid = holder(frontdesk)
    assert remains(frontdesk.home) != []
    os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(frontdesk.home) == []
    told = frontdesk("desk shot")
    assert told.code == 1
    assert f"its holder (process {pid}) was killed. Nothing is left of it" in told.err
    assert frontdesk("desk shot").code == 2
    assert frontdesk(f"desk open {SIZE}").code == 0


def test_an_idle_desk_closes_itself_and_says_why(frontdesk: CommandLine) -> None:
    frontdesk(f"desk open {SIZE} --idle-min 0.02")
    assert wait_until_gone(frontdesk.home) == []
    told = frontdesk("desk list")
    assert "nobody used it" in told.out
    assert "No desk is open" in frontdesk("desk list").out


def test_a_dead_desktop_is_reported_not_waited_for(frontdesk: CommandLine) -> None:
    frontdesk(f"desk open {SIZE}")
    frontdesk("desk exec --root -- sh -c 'kill -9 -1'")
    told = frontdesk("desk shot")
    assert told.code == 1
    assert "desk 'desk' is" in told.err
    assert wait_until_gone(frontdesk.home) == []
