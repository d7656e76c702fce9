"""Answers of unusual size and content: the desktop decides what is in them, and none may cost more than itself."""

from __future__ import annotations

import hashlib

import pytest

from sandbox import errors
from sandbox.backends.local import LocalDesktop
from sandbox.evidence import EvidenceRequest, FileRequest, GlobRequest, ProcessRequest, WindowsRequest
from tests.support.live import python, sh, wait_for

pytestmark = pytest.mark.desktop


async def test_files_of_many_megabytes_come_whole(shared: LocalDesktop) -> None:
    await sh(shared, "head -c 12000000 /dev/urandom > one; head -c 9000000 /dev/urandom > two")
    requests: list[EvidenceRequest] = [
        FileRequest(name="one", path="one", max_bytes=20 << 20),
        WindowsRequest(name="between"),
        FileRequest(name="two", path="two", max_bytes=20 << 20),
    ]
    evidence = await shared.collect(requests)
    for name in ("one", "two"):
        digest = hashlib.sha256(evidence.items[name].file_bytes()).hexdigest()
        assert (await sh(shared, f"sha256sum {name}; rm {name}")).split()[0] == digest
    assert evidence.items["between"].status == "ok"


async def test_two_requests_of_one_name_are_refused(shared: LocalDesktop) -> None:
    with pytest.raises(errors.BadRequest, match="same name"):
        await shared.collect([WindowsRequest(name="x"), WindowsRequest(name="x")])


async def test_names_that_are_no_text_are_told_as_text(shared: LocalDesktop) -> None:
    await sh(shared, r"mkdir -p odd; touch $'odd/bad\xff' odd/中😀")
    evidence = await shared.collect([GlobRequest(name="g", pattern="odd/*")])
    assert [item["path"] for item in evidence.items["g"].data] == ["/home/user/odd/bad?", "/home/user/odd/中😀"]
    # So evidence can be kept as JSON, whatever files the desktop has.
    assert evidence.model_validate_json(evidence.model_dump_json()) == evidence


async def test_a_list_beyond_all_measure_is_too_large(shared: LocalDesktop) -> None:
    make = (
        "import os\n"
        "folder = '/tmp/deep' + ('/' + 'd' * 200) * 16\n"
        "os.makedirs(folder)\n"
        "for n in range(5500): open(f'{folder}/{n}', 'w').close()\n"
    )
    await python(shared, make)
    requests: list[EvidenceRequest] = [
        GlobRequest(name="g", pattern="/tmp/deep/**/[0-9]*", max_items=10_000),
        WindowsRequest(name="w"),
    ]
    evidence = await shared.collect(requests)
    assert {name: item.status for name, item in evidence.items.items()} == {"g": "too_large", "w": "ok"}


async def test_long_arguments_are_cut_off(shared: LocalDesktop) -> None:
    command = "['bash', '-c', 'sleep 60; true', *['a' * 100_000] * 15]"  # a dozen are more than an answer may have
    await python(shared, f"import subprocess; [subprocess.Popen({command}) for _ in range(12)]")
    evidence = await shared.collect([ProcessRequest(name="p", process="bash")])
    assert evidence.items["p"].status == "ok"
    assert len(evidence.items["p"].data) >= 12
    await sh(shared, "pkill -f 'sleep 6[0]' || true")


LONG_TITLE = """
from Xlib import display, X
import time
d = display.Display()
root, name, utf8 = d.screen().root, d.intern_atom("_NET_WM_NAME"), d.intern_atom("UTF8_STRING")
w = root.create_window(50, 50, 100, 100, 0, X.CopyFromParent)
for _ in range(100):
    w.change_property(name, utf8, 8, "中".encode() * 60000, mode=X.PropModeAppend)
w.map()
d.sync()
time.sleep(60)
"""


async def test_a_title_of_many_megabytes_is_cut_off(shared: LocalDesktop) -> None:
    await shared.spawn(["python3", "-c", LONG_TITLE])

    async def managed() -> bool:
        windows = (await shared.observe(want=["windows"])).windows or ()
        return bool(windows) and windows[0].title.startswith("中中") and len(windows[0].title) < 1000

    await wait_for("the window", managed)
    assert (await shared.collect([WindowsRequest(name="w")])).items["w"].status == "ok"
