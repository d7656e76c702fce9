"""The accessibility tree: every application's in time; a helper that was killed, stopped or forged does no harm."""

from __future__ import annotations

import time

import pytest

from sandbox import errors
from sandbox.backends.local import LocalDesktop
from sandbox.desktop import A11yNode
from tests.support.live import act, sh, start, wait_for

pytestmark = pytest.mark.desktop

APPS = {
    "mousepad": (["mousepad"], "mousepad", "File"),
    "galculator": (["galculator"], "galculator", "File"),
    "thunar": (["thunar", "/home/user"], "thunar", "File"),
    "ristretto": (["ristretto"], "ristretto", "File"),
    "xfce4-terminal": (["xfce4-terminal"], "xfce4-terminal", "File"),
}


def _flat(nodes: tuple[A11yNode, ...]) -> list[A11yNode]:
    return [item for node in nodes for item in (node, *_flat(node.children))]


@pytest.mark.parametrize("name", APPS)
async def test_every_application_gives_its_tree(shared: LocalDesktop, name: str) -> None:
    argv, app, menu = APPS[name]
    await start(shared, argv, app)
    start_s = time.monotonic()
    tree = (await shared.observe(want=["a11y"], deadline_s=10)).a11y
    took = time.monotonic() - start_s
    assert tree is not None
    root = next(node for node in tree if node.name.lower() == name)
    nodes = _flat((root,))
    assert any(node.role == "menu" and node.name == menu for node in nodes)
    screen = [node.bounds for node in nodes if node.bounds]
    assert screen
    assert took < 5  # a walk that hangs takes the whole deadline
    (window,) = [node for node in root.children if node.bounds]
    assert window.bounds is not None
    assert 0 <= window.bounds.x < 800
    assert 0 <= window.bounds.y < 600
    await act(shared, {"kind": "press", "keys": ["alt", "f4"]})

    async def gone() -> bool:
        return not (await shared.observe(want=["windows"])).windows

    await wait_for(f"{name} to close", gone)


async def _names(desktop: LocalDesktop, *, deadline_s: float = 10.0) -> set[str]:
    tree = (await desktop.observe(want=["a11y"], deadline_s=deadline_s)).a11y
    assert tree is not None
    return {node.name for node in tree}


async def test_a_helper_that_was_killed_is_started_again(desktop: LocalDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    for _ in range(3):
        assert "mousepad" in await _names(desktop)
        await sh(desktop, "pkill -KILL -f a11y_helpe[r]")
    assert "mousepad" in await _names(desktop)


async def test_a_helper_that_is_stopped_costs_its_deadline_only(desktop: LocalDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    assert "mousepad" in await _names(desktop)
    await sh(desktop, "pkill -STOP -f a11y_helpe[r]")
    start_s = time.monotonic()
    with pytest.raises(errors.Unavailable, match="deadline"):
        await desktop.observe(want=["a11y"], deadline_s=1.0)
    assert time.monotonic() - start_s < 3
    # The desktop still works, and the next look starts a new helper.
    assert (await desktop.observe()).frame is not None
    await act(desktop, {"kind": "type", "text": "still"})
    assert "mousepad" in await _names(desktop)


FORGERIES = {
    "nothing": "",
    "no JSON": "apps",
    "no object": "[1, 2]",
    "no list": '{"apps": {}}',
    "nodes that are none": '{"apps": [5]}',
    "a child that is none": '{"apps": [{"role": "a", "name": "b", "states": [], "children": [null]}]}',
    "states of the wrong type": '{"apps": [{"role": "a", "name": "b", "states": [1], "children": []}]}',
    "bounds of three": '{"apps": [{"role": "a", "name": "b", "states": [], "children": [], "bounds": [1, 2, 3]}]}',
    "a number beyond numbers": '{"apps": [{"role": "a", "name": "b", "states": [], "children": [], "value": 1e999}]}',
    "an unknown key": '{"apps": [{"role": "a", "name": "b", "states": [], "children": [], "more": 1}]}',
    "a deep tree": '{"apps": [' + '{"role":"a","name":"b","states":[],"children":[' * 300 + "]}" * 300 + "]}",
    "deep JSON": "[" * 200_000,
    "too many nodes": '{"apps": [' + ",".join(['{"role":"","name":"","states":[],"children":[]}'] * 6000) + "]}",
    "much": "x" * (17 << 20),
}
HONEST = '{"apps": [{"role": "application", "name": "forged", "states": [], "children": [], "bounds": [1, 2, 3, 4]}]}'
FAKE_GI = """
# Stands in for the accessibility library: says what a file says, whatever is asked.
import sys
for line in sys.stdin:
    sys.stdout.write(open("/tmp/forgery").read() + "\\n")
    sys.stdout.flush()
sys.exit()
"""


async def test_forged_trees_are_refused_and_harm_nothing(desktop: LocalDesktop) -> None:
    # Root shadows the library in the helper's way; an agent would have to trace the helper to say these things.
    await desktop.put_file("/usr/local/lib/python3.11/dist-packages/gi/__init__.py", FAKE_GI.encode(), user="root")
    await desktop.put_file("/tmp/forgery", HONEST.encode())
    assert await _names(desktop) == {"forged"}
    for what, forgery in FORGERIES.items():
        await desktop.put_file("/tmp/forgery", forgery.encode())
        with pytest.raises(errors.Unavailable):
            pytest.fail(f"{what}: {await _names(desktop, deadline_s=2.0)}")
    await desktop.put_file("/tmp/forgery", HONEST.encode())
    assert await _names(desktop) == {"forged"}
