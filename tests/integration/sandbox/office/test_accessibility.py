"""Trees of four toolkits, whole and in time; of a spreadsheet what is seen; where there is none, said so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.actions import Press, TypeText
from sandbox.desktop import A11yNode, Desktop
from sandbox.evidence import AccessibilityRequest
from tests.support.live import wait_for
from tests.support.office import TREES, shown, tree_of

pytestmark = [pytest.mark.desktop, pytest.mark.office]


def _flat(node: A11yNode) -> Iterator[A11yNode]:
    yield node
    for child in node.children:
        yield from _flat(child)


@pytest.mark.parametrize("name", TREES)
async def test_the_tree_is_whole_before_its_deadline(office: Desktop, name: str) -> None:
    app = TREES[name]
    async with shown(office, app):
        nodes = list(_flat(await tree_of(office, app)))
    assert {(node.role, node.name) for node in nodes} >= set(app.has)
    assert all(len(node.children) <= 60 for node in nodes if node.role == "table")
    placed = [node.bounds for node in nodes if node.bounds]
    assert placed
    assert all(0 <= box.x < 1280 and 0 <= box.y < 720 for box in placed if box.width < 1280)


async def test_a_spreadsheet_is_as_usable_after_a_look_as_before(office: Desktop) -> None:
    app = TREES["calc"]

    async def cell() -> bool:
        return any(node.role == "table cell" and node.text == "kept" for node in _flat(await tree_of(office, app)))

    async with shown(office, app):
        assert not await cell()
        await office.step([TypeText(text="kept"), Press(keys=("enter",)), Press(keys=("up",))], want=())
        await wait_for("the cell to have its text", cell, timeout_s=60)


async def test_an_application_without_accessibility_says_so(office: Desktop) -> None:
    pid = await office.spawn(["xmessage", "-name", "mute", "hello"])
    try:

        async def opened() -> bool:
            return any(window.app == "xmessage" for window in (await office.observe(want=["windows"])).windows or ())

        await wait_for("its window", opened, timeout_s=60)
        said = (await office.collect([AccessibilityRequest(name="tree", app="xmessage")])).items["tree"]
        assert (said.status, said.data) == ("missing", None)
        assert said.reason == "no application 'xmessage' is in the accessibility tree"
    finally:
        await office.exec(["kill", str(pid)])
