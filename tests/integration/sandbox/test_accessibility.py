"""The accessibility tree: every application's in time; a helper that was killed, stopped or forged does no harm."""

from __future__ import annotations

import time

import pytest

from sandbox import errors
from sandbox.backends.local import LocalDesktop
from tests.support.live import act, root_names, sh, start

pytestmark = pytest.mark.desktop


async def test_a_helper_that_is_stopped_costs_its_deadline_only(desktop: LocalDesktop) -> None:
    await start(desktop, ["mousepad"], "mousepad")
    assert "mousepad" in await root_names(desktop)
    await sh(desktop, "pkill -STOP -f a11y_helpe[r]")
    start_s = time.monotonic()
    with pytest.raises(errors.Unavailable, match="deadline"):
        await desktop.observe(want=["a11y"], deadline_s=1.0)
    assert time.monotonic() - start_s < 3
    # The desktop still works, and the next look starts a new helper.
    assert (await desktop.observe()).frame is not None
    await act(desktop, {"kind": "type", "text": "still"})
    assert "mousepad" in await root_names(desktop)


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
    assert await root_names(desktop) == {"forged"}
    for what, forgery in FORGERIES.items():
        await desktop.put_file("/tmp/forgery", forgery.encode())
        with pytest.raises(errors.Unavailable):
            pytest.fail(f"{what}: {await root_names(desktop, deadline_s=2.0)}")
    await desktop.put_file("/tmp/forgery", HONEST.encode())
    assert await root_names(desktop) == {"forged"}
