"""Recording desktops and playing them back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandbox.actions import Action, Click, Point, TypeText
from sandbox.backends.recorded import RecordedBackend, RecordedDesktop, RecordingDesktop
from sandbox.backends.tape import Tape, pack
from sandbox.desktop import Desktop, DesktopSpec, ExecResult, Settle
from sandbox.errors import (
    BadRequest,
    BootFailed,
    DeadlineExceeded,
    DesktopError,
    DesktopLost,
    LeaseExpired,
    Phase,
    ProbeLost,
    RecordingMiss,
    Unavailable,
)
from sandbox.evidence import EvidenceItem, FileRequest, WindowsRequest
from sandbox.hub import Hub
from tests.support.desktop import FakeBackend, FakeDesktop
from tests.support.screen import make_frame, make_node, make_window

SPEC = DesktopSpec(width=160, height=120)
A, B = (TypeText(text="a"),), (TypeText(text="b"),)


class Clock:
    """Goes on by a quarter of a second each time it is read."""

    def __init__(self) -> None:
        self.reading = 1_000.0

    def __call__(self) -> float:
        self.reading += 0.25
        return self.reading


def fake(**options: Any) -> FakeDesktop:
    return FakeDesktop(
        frames=[make_frame(shade) for shade in range(5)],
        windows=[make_window("mousepad", "naïve 😀 \udcff")],
        a11y=[make_node("frame", "top", make_node("entry", "x", text="t", value=0.5, at=None))],
        files={"/a": b"content"},
        evidence={"w": EvidenceItem(status="ok", data=[{"title": "t"}])},
        exec_handler=run,
        **options,
    )


def run(argv: Sequence[str]) -> ExecResult:
    return ExecResult(exit_code=-9, stdout=b"\x00\xff", stderr=b"", truncated=True, timed_out=False, seconds=1.5)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "tape"


@pytest.fixture
def tape(directory: Path) -> Iterator[Tape]:
    with Tape.record(directory) as made:
        yield made


async def play(directory: Path) -> RecordedDesktop:
    with Tape.open(directory) as tape:
        return await RecordedBackend(tape).boot(SPEC)


async def everything(desktop: Desktop) -> list[Any]:
    """One of each call."""
    files = (FileRequest(name="f", path="/a"), FileRequest(name="g", path="/none"))
    await desktop.put_file("/b", b"new", mode=0o600)
    return [
        await desktop.step(A, want=("frame", "windows", "a11y"), request_id="1"),
        await desktop.observe(),
        await desktop.step((Click(point=Point(x=500, y=1)),), settle=Settle(cap_ms=9)),
        await desktop.collect((WindowsRequest(name="w"), *files)),
        await desktop.health(),
        await desktop.exec(["ls"], env={"A": "1"}, stdin=b"in"),
        await desktop.spawn(["mousepad"]),
        await desktop.get_file("/b"),
    ]


async def test_every_call_is_played_as_it_was_recorded(tape: Tape, directory: Path, tmp_path: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    assert isinstance(recorder, Desktop)
    recorded = await everything(recorder)
    pack(directory, tmp_path / "tape.zip")
    for source in (tape, directory, tmp_path / "tape.zip"):
        backend = RecordedBackend(source)
        for _ in range(2):
            player = await backend.boot(SPEC)
            assert isinstance(player, Desktop)
            assert (player.spec, player.image_digest) == (recorder.spec, recorder.image_digest)
            assert await everything(player) == recorded
        await backend.close()
    assert recorded[0].observation.frame.sha256 == recorded[1].frame.sha256


async def test_the_recorder_passes_calls_and_close_on(tape: Tape) -> None:
    inner = fake()
    recorder = RecordingDesktop(inner, tape)
    await recorder.step(A, request_id="r", deadline_s=7)
    assert inner.calls("step")[0]["request_id"] == "r"
    assert inner.calls("step")[0]["deadline_s"] == 7
    await recorder.close()
    assert inner.closed


def keep_log(desktop: FakeDesktop, actions: Sequence[Action]) -> None:
    """Make the desktop's files depend on all that was done to it."""
    desktop.files["/log"] = desktop.files.get("/log", b"") + repr(actions).encode()


async def test_one_tape_answers_every_recorded_branch(tape: Tape, directory: Path) -> None:
    branches = [(A, A, B), (A, B, A), (B, A, A), (A, B, B)]
    answers = []
    for branch in branches:
        inner = fake(on_step=keep_log)
        recorder = RecordingDesktop(inner, tape)
        answers.append([*[await recorder.step(actions) for actions in branch], await recorder.get_file("/log")])
        assert recorder.diverged == 0
    for branch, expected in reversed(list(zip(branches, answers, strict=True))):
        player = await play(directory)
        assert [*[await player.step(actions) for actions in branch], await player.get_file("/log")] == expected
    shared = len([entry for entry in tape.entries.values() if entry.request["call"] == "step"])
    assert shared == 9  # 12 steps, of which A is shared by three branches and A B by two
    assert len(list((directory / "blobs").iterdir())) == 3 + 4  # three frames seen, four logs


async def test_the_state_depends_on_the_whole_past(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    await recorder.step(A)
    await recorder.step(B)
    player = await play(directory)
    with pytest.raises(RecordingMiss):
        await player.step(B)
    await player.step(A)
    await player.step(B)


async def test_a_miss_names_what_was_recorded_here(tape: Tape, directory: Path) -> None:
    for actions in (A, B):
        await RecordingDesktop(fake(), tape).step(actions)
    await RecordingDesktop(fake(), tape).exec(["ls", "-l"])
    player = await play(directory)
    with pytest.raises(RecordingMiss) as caught:
        await player.step((TypeText(text="c"),))
    message = str(caught.value)
    for part in ("'c'", "'a'", "'b'", "exec(argv=['ls', '-l']", str(directory)):
        assert part in message
    await player.step(A)  # a miss changed nothing
    with pytest.raises(RecordingMiss, match="Recorded here: nothing"):
        await player.step(A)


async def test_deadlines_and_request_ids_do_not_matter_but_everything_else_does(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    await recorder.step(A, want=("windows", "frame"), request_id="x", deadline_s=3)
    await recorder.exec(["ls"], stdin=b"1")
    player = await play(directory)
    for wrong in (
        player.step(A),
        player.step(A, want=("frame", "windows"), settle=Settle()),
        player.step(A, want=("a11y",)),
    ):
        with pytest.raises(RecordingMiss):
            await wrong
    await player.step(A, want=("frame", "windows"), request_id="y", deadline_s=30)
    for wrong_exec in (player.exec(["ls"], stdin=b"2"), player.exec(["ls"], stdin=b"1", user="root")):
        with pytest.raises(RecordingMiss):
            await wrong_exec
    await player.exec(["ls"], stdin=b"1", deadline_s=1)


async def test_a_repeated_request_id_is_one_step_in_recording_and_in_playing(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    first = await recorder.step(A, request_id="r")
    assert await recorder.step(A, request_id="r") == first
    await recorder.step(B)
    assert len(tape.entries) == 2
    player = await play(directory)
    assert await player.step(A, request_id="r") == first
    now = player.now()
    assert await player.step(A, request_id="r") == first
    assert player.now() == now
    await player.step(B)


@pytest.mark.parametrize("kind", [BootFailed, DesktopLost, ProbeLost, DeadlineExceeded, Unavailable, DesktopError])
@pytest.mark.parametrize("phase", ["unknown", "grader"])
async def test_a_failure_is_played_with_its_type_phase_and_state(
    tape: Tape, directory: Path, kind: type[DesktopError], phase: Phase
) -> None:
    class Special(kind):  # type: ignore[misc, valid-type]
        """A backend's own kind of the failure."""

    inner = fake()
    inner.fail("observe", Special("boom", phase=phase, state={"oom": "1"}))
    recorder = RecordingDesktop(inner, tape)
    with pytest.raises(kind):
        await recorder.observe()
    after = await recorder.step(A)
    player = await play(directory)
    with pytest.raises(DesktopError, match="boom") as caught:
        await player.observe()
    assert type(caught.value) is kind
    assert (caught.value.phase, caught.value.state) == (phase, {"oom": "1"})
    assert await player.step(A) == after


async def test_refusals_are_played_too(tape: Tape, directory: Path) -> None:
    async def refused(desktop: Desktop) -> list[str]:
        with pytest.raises(FileNotFoundError) as absent:
            await desktop.get_file("/nothing")
        with pytest.raises(BadRequest) as large:
            await desktop.get_file("/a", max_bytes=1)
        return [str(absent.value), str(large.value)]

    assert await refused(RecordingDesktop(fake(), tape)) == await refused(await play(directory))


async def test_files_are_the_same_from_memory_and_from_disk(tape: Tape, directory: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"new")
    recorder = RecordingDesktop(fake(), tape)
    await recorder.put_file("/b", b"new")
    assert await recorder.download("/b", target) == 3
    player = await play(directory)
    assert await player.upload(source, "/b") == 3
    assert await player.get_file("/b", max_bytes=16 << 30) == target.read_bytes() == b"new"
    target.unlink()
    player = await play(directory)
    await player.put_file("/b", b"new")
    assert await player.download("/b", target) == 3
    assert target.read_bytes() == b"new"
    source.write_bytes(b"other")
    with pytest.raises(RecordingMiss):
        await (await play(directory)).upload(source, "/b")


async def test_a_recording_has_no_port_to_forward_and_a_forward_ends_one(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    await recorder.step(A)
    async with recorder.forward(9) as forward:
        assert forward.port > 0
    await recorder.step(B)  # goes through, unrecorded
    player = await play(directory)
    with pytest.raises(RecordingMiss, match="nothing listens on its port 9; use a live desktop"):
        async with player.forward(9):
            pass
    await player.step(A)
    with pytest.raises(RecordingMiss):
        await player.step(B)


@pytest.mark.parametrize("how", ["cancelled", "lease over", "bug"])
async def test_the_recording_ends_where_the_answer_is_not_known(tape: Tape, directory: Path, how: str) -> None:
    inner = fake()
    recorder = RecordingDesktop(inner, tape)
    await recorder.step(A)
    if how == "cancelled":
        inner.hang("step", nth=2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await recorder.step(B)
    else:
        error = LeaseExpired("over") if how == "lease over" else RuntimeError("bug")
        inner.fail("step", error, nth=2)
        with pytest.raises(type(error)):
            await recorder.step(B)
    await recorder.step(A)  # goes through, unrecorded
    assert len(inner.calls("step")) == 3
    assert len(tape.entries) == 1
    player = await play(directory)
    await player.step(A)
    with pytest.raises(RecordingMiss):
        await player.step(B)


async def test_health_leaves_the_state_and_needs_no_recording(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    await recorder.step(A)
    recorded = await recorder.health()
    await recorder.step(B)
    player = await play(directory)
    assert (await player.health()).alive
    await player.step(A)
    assert await player.health() == recorded
    assert await player.health() == recorded
    await player.step(B)
    assert (await player.health()).alive
    await player.close()
    assert not (await player.health()).alive


async def test_time_is_played_as_data(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape, clock=Clock())
    await recorder.step(A)
    await recorder.observe()
    player = await play(directory)
    assert player.now() == 1000.25
    await player.step(A)
    assert player.now() == 1000.5
    await player.observe()
    assert player.now() == 1000.75


async def test_an_answer_that_differs_from_the_tape_is_counted_and_the_first_stays(tape: Tape, directory: Path) -> None:
    first_recorder = RecordingDesktop(fake(), tape)
    first = await first_recorder.step(A)
    await first_recorder.exec(["ls"])
    slower = fake()
    slower.exec_handler = lambda argv: dataclasses.replace(run(argv), seconds=99)
    same = RecordingDesktop(slower, tape, clock=Clock())
    await same.step(A)
    await same.exec(["ls"])
    assert same.diverged == 0
    other = fake()
    other.frames = [make_frame(99)]
    differing = RecordingDesktop(other, tape)
    await differing.step(A)
    assert differing.diverged == 1
    assert await (await play(directory)).step(A) == first


async def test_calls_side_by_side_are_recorded_one_after_the_other(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    recorded: object = await asyncio.gather(recorder.step(A), recorder.step(B), recorder.observe())
    player = await play(directory)
    assert await asyncio.gather(player.step(A), player.step(B), player.observe()) == recorded


async def test_ids_repeat_and_differ_and_what_was_not_recorded_does_not_boot(tape: Tape) -> None:
    RecordingDesktop(fake(), tape)
    ids = [
        [(await backend.boot(SPEC)).id for _ in range(3)] for backend in (RecordedBackend(tape), RecordedBackend(tape))
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 3
    with pytest.raises(RecordingMiss, match=r"width=999.*Recorded: .*width=160"):
        await RecordedBackend(tape).boot(DesktopSpec(width=999))


async def test_closing_the_backend_ends_its_desktops_and_the_tape_it_opened(
    tape: Tape, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Tape] = []
    plain = Tape.close

    def close(self: Tape) -> None:
        closed.append(self)
        plain(self)

    monkeypatch.setattr(Tape, "close", close)
    await RecordedBackend(tape).close()
    assert closed == []
    await RecordingDesktop(fake(), tape).step(A)
    backend = RecordedBackend(directory)
    player = await backend.boot(SPEC)
    assert await backend.reap() == []
    await backend.close()
    await backend.close()
    assert len(closed) == 2
    with pytest.raises(DesktopLost):
        await player.step(A)


async def test_a_lost_or_damaged_answer_is_a_miss(tape: Tape, directory: Path) -> None:
    recorder = RecordingDesktop(fake(), tape)
    await recorder.get_file("/a")
    await recorder.spawn(["a"])
    for path in (directory / "blobs").iterdir():
        path.unlink()
    index = directory / "index.jsonl"
    index.write_text(index.read_text().replace('"answer":100', '"answer":"x"'))
    player = await play(directory)
    with pytest.raises(RecordingMiss, match="lost a part"):
        await player.get_file("/a")
    with pytest.raises(RecordingMiss, match="damaged"):
        await player.spawn(["a"])


async def test_the_hub_lends_recorded_desktops_as_any_other(tape: Tape, directory: Path) -> None:
    recorded = await RecordingDesktop(fake(), tape).step(A)
    async with Hub(RecordedBackend(directory), capacity=2, warm=1, specs=[SPEC]) as hub:
        for _ in range(3):
            async with hub.lease(SPEC) as lease:
                assert await lease.desktop.step(A, request_id="r") == recorded
        assert hub.stats().retired == {"released": 3}


async def test_a_leased_desktop_can_be_recorded(tape: Tape, directory: Path) -> None:
    async with Hub(FakeBackend(), capacity=1) as hub, hub.lease(SPEC) as lease:
        recorder = RecordingDesktop(lease.desktop, tape)
        recorded = await recorder.step(A)
    with pytest.raises(LeaseExpired):
        await recorder.step(B)
    assert await (await play(directory)).step(A) == recorded
