"""The fakes keep the contracts that they stand in for, and fail when they are told to."""

from __future__ import annotations

import asyncio

import pytest

from agent.policy import Policy
from agent.task import EpisodeTask
from agent.turns import BlobSink
from sandbox.actions import Click, Done, Point, Wait
from sandbox.desktop import Backend, Desktop, DesktopSpec
from sandbox.errors import BootFailed, DesktopLost, ProbeLost
from sandbox.evidence import FileRequest, WindowsRequest
from tests.support.blobs import FakeBlobs
from tests.support.desktop import FakeBackend, FakeDesktop
from tests.support.policy import FakePolicy
from tests.support.requests import make_request
from tests.support.screen import make_frame, make_window
from tests.support.task import FakeTask

CLICK = Click(point=Point(x=1, y=1))


def test_fakes_are_what_they_stand_for() -> None:
    desktop: Desktop = FakeDesktop()
    backend: Backend = FakeBackend()
    policy: Policy = FakePolicy([])
    task: EpisodeTask = FakeTask()
    blobs: BlobSink = FakeBlobs()
    assert isinstance(desktop, Desktop)
    assert (backend.name, policy.name, task.split) == ("fake", "fake", "train")
    assert blobs.put(make_frame().encode()) == make_frame().sha256


async def test_steps_move_through_the_frames_and_repeat_no_request() -> None:
    desktop = FakeDesktop(frames=[make_frame(0), make_frame(1)])
    first = await desktop.step([CLICK], request_id="r")
    again = await desktop.step([CLICK], request_id="r")
    assert first == again
    assert first.observation.frame == make_frame(1)
    assert first.settle.changed
    assert desktop.acted == [CLICK]
    idle = await desktop.step([Wait()])
    assert not idle.settle.changed
    assert (await desktop.observe()).frame == make_frame(1)


async def test_refusals_stop_a_batch() -> None:
    desktop = FakeDesktop()
    step = await desktop.step([CLICK, Click(point=Point(x=160, y=0)), CLICK])
    assert [result.ok for result in step.actions] == [True, False]
    assert "outside the 160x120 screen" in (step.actions[1].error or "")
    assert "ends an episode" in ((await desktop.step([Done()])).actions[0].error or "")


async def test_only_what_is_wanted_is_observed() -> None:
    desktop = FakeDesktop(windows=[make_window("mousepad")])
    assert (await desktop.observe()).windows is None
    seen = await desktop.observe(["windows"])
    assert seen.windows == (make_window("mousepad"),)
    assert seen.frame is None


async def test_evidence_comes_item_by_item() -> None:
    desktop = FakeDesktop(files={"notes.txt": b"milk"})
    evidence = await desktop.collect([FileRequest(name="notes", path="notes.txt"), WindowsRequest(name="windows")])
    assert evidence.items["notes"].file_bytes() == b"milk"
    assert evidence.items["windows"].status == "missing"
    with pytest.raises(FileNotFoundError):
        await desktop.get_file("nowhere")


async def test_planned_failures_happen_once_and_on_time() -> None:
    desktop = FakeDesktop()
    desktop.fail("step", ProbeLost("gone"), nth=2)
    desktop.hang("observe")
    await desktop.step([])
    with pytest.raises(ProbeLost):
        await desktop.step([])
    await desktop.step([])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await desktop.observe()
    await desktop.observe()
    assert len(desktop.calls("step")) == 3


async def test_closed_desktops_are_lost_and_backends_know_the_open_ones() -> None:
    backend = FakeBackend()
    backend.fail("boot", BootFailed("no"), nth=2)
    spec = DesktopSpec(width=200, height=150)
    desktop = await backend.boot(spec)
    frame = (await desktop.observe()).frame
    assert frame is not None
    assert (frame.width, frame.height) == (200, 150)
    with pytest.raises(BootFailed):
        await backend.boot(spec)
    assert backend.open_desktops == [desktop]
    await desktop.close()
    await desktop.close()
    assert backend.open_desktops == []
    with pytest.raises(DesktopLost):
        await desktop.step([])


async def test_policies_fail_the_test_that_scripts_too_little() -> None:
    policy = FakePolicy([lambda request: f"seed {request.seed}"])
    assert (await policy.reply(make_request(seed=9))).text == "seed 9"
    with pytest.raises(AssertionError, match="turn 0 was not scripted"):
        await policy.reply(make_request())
