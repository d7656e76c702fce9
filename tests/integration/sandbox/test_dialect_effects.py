"""An action that is written in a dialect and read back does to a real desktop what it does when it is done as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sandbox.actions import TypeText
from sandbox.backends.local import LocalBackend
from sandbox.desktop import DesktopSpec
from sandbox.dialects import DIALECTS
from sandbox.keys import keysym
from tests.support.effects import ACTIONS, CASES, SCREEN, Effects, measure

pytestmark = pytest.mark.desktop


@pytest.fixture(scope="module")
async def effects(backend: LocalBackend) -> AsyncIterator[Effects]:
    """Everything is executed once, on one desktop."""
    desktop = await backend.boot(DesktopSpec(width=SCREEN[0], height=SCREEN[1]))
    try:
        yield await measure(desktop)
    finally:
        await desktop.close()


@pytest.mark.parametrize(("label", "name"), CASES, ids=[f"{label} in {name}" for label, name in CASES])
async def test_the_effect_is_the_same_in_every_dialect(effects: Effects, label: str, name: str) -> None:
    assert effects.spoken[label, name] == effects.direct[label]


async def test_effects_tell_actions_apart(effects: Effects) -> None:
    assert all(effects.direct.values())
    assert len({str(effect) for effect in effects.direct.values()}) == len(ACTIONS)


async def test_what_is_typed_arrives(effects: Effects) -> None:
    (action,) = ACTIONS["type"]
    assert isinstance(action, TypeText)
    shift = keysym("shift")
    symbols = [event[1] for event in effects.direct["type"] if event[0] == "key down" and event[1] != shift]
    assert symbols == [keysym(char) for char in action.text]


def test_enough_is_compared() -> None:
    assert len(CASES) >= 80
    assert {name for _, name in CASES} == set(DIALECTS)
    assert {label for label, _ in CASES} == set(ACTIONS)
