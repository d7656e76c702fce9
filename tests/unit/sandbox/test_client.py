"""The host's side of the probe, against a probe that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox import errors
from sandbox.actions import Done, Press
from sandbox.client import ProbeAddress, ProbeClient
from sandbox.desktop import DesktopSpec
from sandbox.frame import Frame
from sandbox.probe import wire
from sandbox.probe_desktop import ProbeDesktop

Answer = dict[str, Any]
Reply = tuple[Answer, bytes] | None


class Probe:
    """A server that speaks the protocol; what it answers is up to the test. None hangs up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.answer: Callable[[dict[str, Any]], Awaitable[Reply]] = self._ok
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def _ok(self, request: dict[str, Any]) -> Reply:
        return {"result": {"echo": request["args"]}}, b""

    async def start(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))

    async def stop(self) -> None:
        """End as a killed process does: the socket's file stays."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                json_length, body_length = wire.decode_header(await reader.readexactly(wire.HEADER.size))
                request = json.loads(await reader.readexactly(json_length))
                request["body"] = await reader.readexactly(body_length)
                self.requests.append(request)
                reply = await self.answer(request)
                if reply is None:
                    return
                writer.write(wire.encode({"id": request["id"], **reply[0]}, len(reply[1])) + reply[1])
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.transport.abort()


@pytest.fixture
async def probe(tmp_path: Path) -> AsyncIterator[Probe]:
    made = Probe(tmp_path / "ctl" / "probe.sock")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client(probe: Probe) -> AsyncIterator[ProbeClient]:
    made = ProbeClient(ProbeAddress(socket=probe.path, token="secret", epoch=3))
    yield made
    await made.close()


def _says(*replies: Reply) -> Callable[[dict[str, Any]], Awaitable[Reply]]:
    left = list(replies)

    async def answer(request: dict[str, Any]) -> Reply:
        return left.pop(0)

    return answer


GOOD: Reply = ({"result": {"fine": True}}, b"data")


async def test_a_call_carries_what_the_protocol_asks_for(probe: Probe, client: ProbeClient) -> None:
    result, _ = await client.call("op", {"a": 1}, body=b"body", deadline_s=2.5, request_id="mine")
    assert result == {"echo": {"a": 1}}
    (request,) = probe.requests
    assert request == {
        "v": wire.VERSION,
        "token": "secret",
        "epoch": 3,
        "id": "mine",
        "op": "op",
        "deadline_ms": 2500.0,
        "args": {"a": 1},
        "body": b"body",
    }


async def test_connections_are_kept_and_used_side_by_side(probe: Probe, client: ProbeClient) -> None:
    for _ in range(3):
        await client.call("op", {}, deadline_s=1)
    assert probe.connections == 1
    await asyncio.gather(*(client.call("op", {"n": n}, deadline_s=1) for n in range(4)))
    assert probe.connections == 4
    assert len({request["id"] for request in probe.requests}) == 7


async def test_a_kept_connection_that_broke_is_replaced_unseen(probe: Probe, client: ProbeClient) -> None:
    await asyncio.gather(*(client.call("op", {}, deadline_s=1) for _ in range(3)))
    await probe.stop()
    await probe.start()
    result, _ = await client.call("op", {"n": 1}, deadline_s=1, effect=True)
    assert result == {"echo": {"n": 1}}
    assert len(probe.requests) == 4


async def test_a_probe_that_is_being_started_again_is_awaited(probe: Probe, client: ProbeClient) -> None:
    await probe.stop()

    async def later() -> None:
        await asyncio.sleep(0.2)
        await probe.start()

    starting = asyncio.create_task(later())
    result, _ = await client.call("op", {}, deadline_s=5, effect=True)
    assert result == {"echo": {}}
    await starting


async def test_without_a_probe_nothing_was_done(
    probe: Probe, client: ProbeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.client.CONNECT_S", 0.1)
    await probe.stop()
    with pytest.raises(errors.ProbeLost, match="nothing was done") as caught:
        await client.call("op", {}, deadline_s=5, effect=True)
    assert caught.value.phase == "infra"
    probe.path.unlink()
    with pytest.raises(errors.ProbeLost, match="nothing was done"):
        await client.call("op", {}, deadline_s=5)


async def test_a_call_with_an_effect_is_made_once_and_its_fate_is_unknown(probe: Probe, client: ProbeClient) -> None:
    probe.answer = _says(None, GOOD)
    with pytest.raises(errors.ProbeLost) as caught:
        await client.call("op", {}, deadline_s=1, effect=True)
    assert caught.value.phase == "unknown"
    assert len(probe.requests) == 1


async def test_a_call_without_an_effect_is_made_again_once(probe: Probe, client: ProbeClient) -> None:
    probe.answer = _says(None, GOOD)
    assert await client.call("op", {}, deadline_s=1) == ({"fine": True}, b"data")
    probe.answer = _says(None, None, GOOD)
    with pytest.raises(errors.ProbeLost) as caught:
        await client.call("op", {}, deadline_s=1)
    assert caught.value.phase == "infra"
    assert len(probe.requests) == 4


@pytest.mark.parametrize(("effect", "phase"), [(True, "unknown"), (False, "infra")])
async def test_a_call_ends_shortly_after_its_deadline(
    probe: Probe, client: ProbeClient, monkeypatch: pytest.MonkeyPatch, effect: bool, phase: str
) -> None:
    monkeypatch.setattr("sandbox.client.GRACE_S", 0.05)

    async def never(request: dict[str, Any]) -> Reply:
        await asyncio.sleep(60)
        return GOOD

    probe.answer = never
    with pytest.raises(errors.DeadlineExceeded, match=r"op did not end within 0\.1 s") as caught:
        await client.call("op", {}, deadline_s=0.1, effect=effect)
    assert caught.value.phase == phase
    probe.answer = _says(GOOD)
    assert await client.call("op", {}, deadline_s=1) == ({"fine": True}, b"data")  # by another connection
    assert probe.connections == 2


async def test_a_cancelled_call_does_not_spoil_the_next(probe: Probe, client: ProbeClient) -> None:
    async def slow(request: dict[str, Any]) -> Reply:
        await asyncio.sleep(0.2)
        return {"result": {"late": True}}, b""

    probe.answer = slow
    call = asyncio.create_task(client.call("op", {}, deadline_s=5))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    probe.answer = _says(GOOD)
    assert await client.call("op", {}, deadline_s=1) == ({"fine": True}, b"data")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BadRequest", errors.BadRequest),
        ("DesktopLost", errors.DesktopLost),
        ("LeaseExpired", errors.LeaseExpired),
        ("Unavailable", errors.Unavailable),
        ("BootFailed", errors.BootFailed),
        ("ProbeLost", errors.ProbeLost),
        ("FileNotFound", FileNotFoundError),
        ("SomethingNew", errors.DesktopError),
    ],
)
async def test_errors_arrive_as_their_types(
    probe: Probe, client: ProbeClient, kind: str, expected: type[Exception]
) -> None:
    probe.answer = _says(({"error": {"type": kind, "message": "why", "state": {"x": "gone"}}}, b""), GOOD)
    with pytest.raises(expected, match="why") as caught:
        await client.call("op", {}, deadline_s=1)
    if isinstance(caught.value, errors.DesktopError):
        assert caught.value.state == {"x": "gone"}
    assert await client.call("op", {}, deadline_s=1) == ({"fine": True}, b"data")
    assert probe.connections == 1


async def test_a_socket_with_a_long_path_is_reached(tmp_path: Path) -> None:
    far = Probe(tmp_path / "short.sock")
    await far.start()
    folder = tmp_path.joinpath(*["long" * 40] * 3)
    folder.mkdir(parents=True)
    far.path.rename(folder / "probe.sock")
    client = ProbeClient(ProbeAddress(socket=folder / "probe.sock", token=""))
    assert (await client.call("op", {"far": 1}, deadline_s=1))[0] == {"echo": {"far": 1}}
    await client.close()
    await far.stop()


# -- a desktop made of such calls --------------------------------------------------------------------------------------


def _observed(frame: list[Any] | None, changes: dict[str, Any] | None = None) -> Answer:
    observation: Answer = {"frame": frame, "changes": changes, "windows": None, "a11y": None, "version": 1}
    observation |= {"cursor": [1, 2], "clock_s": 3.0}
    settle = {"changed": False, "settled": True, "waited_ms": 0.0}
    return {"result": {"actions": [], "settle": settle, "observation": observation}}


@pytest.fixture
def desktop(client: ProbeClient) -> ProbeDesktop:
    return ProbeDesktop("id", DesktopSpec(), "digest", client)


async def test_a_frame_is_sent_once(probe: Probe, desktop: ProbeDesktop) -> None:
    frame = Frame.from_pixels(2, 1, b"\1\2\3\4\5\6")
    described = [2, 1, frame.sha256]
    probe.answer = _says((_observed(described), frame.pixels), (_observed(described), b""))
    assert (await desktop.observe()).frame == frame
    assert (await desktop.observe()).frame == frame
    assert probe.requests[0]["args"]["have"] == []
    assert probe.requests[1]["args"]["have"] == [frame.sha256]


async def test_a_frame_that_is_not_what_its_hash_says_is_refused(probe: Probe, desktop: ProbeDesktop) -> None:
    frame = Frame.from_pixels(2, 1, b"\1\2\3\4\5\6")
    probe.answer = _says((_observed([2, 1, frame.sha256]), b"\1\2\3\4\5\7"))
    with pytest.raises(errors.ProbeLost, match="damaged"):
        await desktop.observe()


async def test_changes_are_laid_over_the_frame_that_they_name(probe: Probe, desktop: ProbeDesktop) -> None:
    first = Frame.from_pixels(1, 3, b"aaabbbccc")
    second, third = Frame.from_pixels(1, 3, b"aaaBBBccc"), Frame.from_pixels(1, 3, b"AAAbbbCCC")
    probe.answer = _says(
        (_observed([1, 3, first.sha256]), first.pixels),
        (_observed([1, 3, second.sha256], {"base": first.sha256, "rows": [[1, 1]]}), b"BBB"),
        (_observed([1, 3, third.sha256], {"base": first.sha256, "rows": [[0, 1], [2, 1]]}), b"AAACCC"),
        (_observed([1, 3, "0" * 64], {"base": first.sha256, "rows": [[0, 1]]}), b"XXX"),
    )
    for frame in (first, second, third):
        assert (await desktop.observe()).frame == frame
    with pytest.raises(errors.ProbeLost, match="damaged"):
        await desktop.observe()


async def test_a_first_answer_of_long_ago_has_no_screenshot_any_more(probe: Probe, desktop: ProbeDesktop) -> None:
    gone = "0" * 64
    probe.answer = _says((_observed([1, 1, gone]), b""), (_observed([1, 1, gone], {"base": gone, "rows": []}), b""))
    for _ in range(2):
        with pytest.raises(errors.BadRequest, match="no longer kept"):
            await desktop.step([Press(keys=("a",))], request_id="old")


async def test_only_some_frames_are_kept(probe: Probe, desktop: ProbeDesktop) -> None:
    frames = [Frame.from_pixels(1, 1, bytes([n, n, n])) for n in range(6)]
    probe.answer = _says(*((_observed([1, 1, frame.sha256]), frame.pixels) for frame in frames), (_observed(None), b""))
    for frame in frames:
        assert (await desktop.observe()).frame == frame
    await desktop.observe(want=())
    assert probe.requests[-1]["args"]["have"] == [frame.sha256 for frame in frames[-4:]]


async def test_an_episodes_last_action_never_reaches_the_probe(probe: Probe, desktop: ProbeDesktop) -> None:
    with pytest.raises(errors.BadRequest, match="'done' ends an episode"):
        await desktop.step([Press(keys=("a",)), Done()])
    with pytest.raises(errors.BadRequest, match="an empty command"):
        await desktop.exec([])
    assert probe.requests == []


async def test_looking_has_no_effect_and_acting_has(probe: Probe, desktop: ProbeDesktop) -> None:
    probe.answer = _says(None, (_observed(None), b""), None)
    await desktop.observe(want=())
    with pytest.raises(errors.ProbeLost) as caught:
        await desktop.step([Press(keys=("a",))], want=())
    assert caught.value.phase == "unknown"
    assert probe.requests[0]["args"]["settle"] is None
    assert probe.requests[2]["args"]["settle"] == {"first_ms": 100, "quiet_ms": 50, "cap_ms": 2000}
