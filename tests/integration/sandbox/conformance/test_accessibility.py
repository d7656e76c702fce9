"""The accessibility tree: every application's in time, and a helper that was killed does no harm."""

from __future__ import annotations

import time

import pytest

from sandbox.backends.owned import OwnedDesktop
from sandbox.desktop import A11yNode
from tests.support.live import act, root_names, sh, start, wait_for

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
async def test_every_application_gives_its_tree(shared: OwnedDesktop, name: str) -> None:
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


async def test_a_helper_that_was_killed_is_started_again(desktop: OwnedDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    for _ in range(3):
        assert "mousepad" in await root_names(desktop)
        await sh(desktop, "pkill -KILL -f a11y_helpe[r]")
    assert "mousepad" in await root_names(desktop)
