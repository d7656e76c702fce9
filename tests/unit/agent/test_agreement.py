"""A policy that is given accessibility does not look before accessibility agrees with the windows."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from agent.agreement import await_agreement
from agent.episode import run_episode
from agent.harness import Harness
from sandbox.desktop import A11yNode, Observation, Rect, Want, Window
from tests.support.blobs import FakeBlobs
from tests.support.desktop import FakeDesktop
from tests.support.policy import FakePolicy
from tests.support.task import FakeTask

CONTENT = Rect(x=40, y=50, width=100, height=60)
FRAME = Rect(x=36, y=26, width=108, height=88)
WINDOW = Window(id=1, title="Notes", app="mousepad", bounds=CONTENT, active=True, dialog=False)


def application(*frames: Rect | None) -> A11yNode:
    def node(role: str, bounds: Rect | None, children: tuple[A11yNode, ...] = ()) -> A11yNode:
        return A11yNode(role=role, name="", states=(), bounds=bounds, text=None, value=None, children=children)

    return node("application", None, tuple(node("frame", bounds) for bounds in frames))


class LateDesktop(FakeDesktop):
    """Its application learns with the third look where its window is."""

    def __init__(self) -> None:
        super().__init__(windows=(WINDOW,), a11y=(application(Rect(x=0, y=0, width=108, height=88)),))
        self.looks = 0

    async def observe(self, want: Sequence[Want] = ("frame",), *, deadline_s: float = 10.0) -> Observation:
        self.looks += 1
        if self.looks == 3:
            self.a11y = (application(FRAME),)
        return await super().observe(want, deadline_s=deadline_s)


async def test_a_late_application_is_waited_for() -> None:
    desktop = LateDesktop()
    await await_agreement(desktop)
    assert desktop.looks == 3


@pytest.mark.parametrize("frames", [(), (None,), (FRAME,), (CONTENT,)])
async def test_what_agrees_or_shows_no_frame_is_not_waited_for(frames: tuple[Rect | None, ...]) -> None:
    desktop = FakeDesktop(windows=(WINDOW,), a11y=(application(*frames),))
    await await_agreement(desktop, limit_s=60)
    assert len(desktop.calls("observe")) == 1


async def test_one_that_never_agrees_is_given_up() -> None:
    desktop = FakeDesktop(windows=(WINDOW,), a11y=(application(FRAME, Rect(x=0, y=0, width=20, height=20)),))
    begun = time.monotonic()
    await await_agreement(desktop, limit_s=0.15)
    assert time.monotonic() - begun >= 0.15


@pytest.mark.parametrize(("wants", "looks"), [((), 0), (("a11y",), 3)])
async def test_only_policies_that_are_given_accessibility_wait(wants: tuple[Want, ...], looks: int) -> None:
    desktop = LateDesktop()
    policy = FakePolicy(["done"], name="actor", hash="h", wants=wants)
    await run_episode(desktop, FakeTask(), Harness(), policy, blobs=FakeBlobs(), seed_env=0, seed_sampling=0)
    assert desktop.looks == looks
    assert not wants or policy.requests[0].observation.a11y == (application(FRAME),)
