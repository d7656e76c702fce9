"""A hub behind a socket: the same leases, whatever happens to the connections in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox import errors
from sandbox.actions import TypeText
from sandbox.desktop import Desktop, DesktopSpec
from sandbox.evidence import CommandRequest, FileRequest
from sandbox.forward import Forward
from sandbox.hub import Hub, HubAddress, HubServer, Lender, RemoteHub, link, server
from sandbox.hub.lease import Holding
from sandbox.hub.link import Link
from sandbox.hub.messages import Message, decode_error, encode_error
from sandbox.hub.remote import RemoteLease
from tests.support.desktop import FakeBackend, FakeDesktop
from tests.support.screen import make_frame

TOKEN = "a token of the tests"
SPEC = DesktopSpec(width=160, height=120)
HI = (TypeText(text="hi"),)

CALLS: dict[str, Callable[[Desktop], Awaitable[Any]]] = {
    "step": lambda desktop: desktop.step(HI, want=("a11y", "frame", "windows")),
    "observe": lambda desktop: desktop.observe(),
    "collect": lambda desktop: desktop.collect([FileRequest(name="a", path="a"), FileRequest(name="b", path="b")]),
    "health": lambda desktop: desktop.health(),
    "exec": lambda desktop: desktop.exec(["true"], env={"A": "1"}, stdin=b"\0in"),
    "spawn": lambda desktop: desktop.spawn(["true"], env={"A": "1"}),
    "put_file": lambda desktop: desktop.put_file("/caf\udce9", b"x\0y"),
    "get_file": lambda desktop: desktop.get_file("a"),
}


class Cut:
    """A relay between client and hub that can be told to break a connection when the next answer comes."""

    def __init__(self, to: str) -> None:
        self._host, self._port = to.rsplit(":", 1)
        self.cut_answers = 0
        self.writers: set[asyncio.StreamWriter] = set()
        self.relayed = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(self._host, int(self._port))
        self.writers |= {writer, up_writer}
        greeted = 0

        async def down() -> None:
            nonlocal greeted
            while data := await up_reader.read(1 << 16):
                greeted += 1
                if self.cut_answers and greeted > 2:  # the greeting and its answer pass
                    self.cut_answers -= 1
                    break
                self.relayed += len(data)
                writer.write(data)
            writer.transport.abort()
            up_writer.transport.abort()

        async def up() -> None:
            while data := await reader.read(1 << 16):
                up_writer.write(data)
            up_writer.transport.abort()

        await asyncio.gather(down(), up(), return_exceptions=True)

    def cut_all(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Bench:
    """A hub over a fake backend, served on a free port."""

    def __init__(self, backend: FakeBackend, hub: Hub, served: HubServer) -> None:
        self.backend = backend
        self.hub = hub
        self.address = HubAddress.parse(served.address, TOKEN)

    def desktop(self, lease: RemoteLease) -> FakeDesktop:
        return next(desktop for desktop in self.backend.booted if desktop.id == lease.id)

    def holding(self, lease: RemoteLease) -> Holding:
        found = next(slot.holding for slot in self.hub._pool.slots.all if slot.holding and slot.desktop)
        assert found.desktop.id == lease.id
        return found

    def client(self, **options: Any) -> RemoteHub:
        return RemoteHub(self.address, **options)


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Bench]:
    backend = options.pop("backend", None) or FakeBackend()
    async with (
        Hub(backend, **{"capacity": 2, "boots_at_once": 2, **options}) as hub,
        HubServer(hub, token=TOKEN) as served,
    ):
        yield Bench(backend, hub, served)
    assert backend.open_desktops == []


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with serving() as made:
        yield made


@asynccontextmanager
async def relay(bench: Bench) -> AsyncIterator[tuple[Cut, RemoteHub]]:
    cut = Cut(f"{bench.address.host}:{bench.address.port}")
    listener = await asyncio.start_server(cut.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        async with RemoteHub(HubAddress(host="127.0.0.1", port=port, token=TOKEN)) as hub:
            yield cut, hub
    finally:
        listener.close()
        cut.cut_all()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not done():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_answers_as_in_one_process(call: str, bench: Bench) -> None:
    fakes = [FakeDesktop(spec=SPEC, files={"a": b"data \xff"}) for _ in range(2)]
    bench.backend.make = lambda spec: fakes.pop()
    async with bench.hub.lease(SPEC) as here:
        expected = await CALLS[call](here.desktop)
        if call == "spawn":
            expected = None  # a process id of its own
    async with bench.client() as hub, hub.lease(SPEC) as there:
        assert isinstance(there.desktop, Desktop)
        answer = await CALLS[call](there.desktop)
        assert (None if call == "spawn" else answer) == expected
        near, far = bench.backend.booted
        asked = [
            {key: value for key, value in each.calls(call)[0].items() if key != "deadline_s"} for each in (near, far)
        ]
        assert asked[0] == asked[1]
        assert (there.desktop.spec, there.desktop.image_digest) == (SPEC, far.image_digest)


async def test_files_and_ports_pass_through_a_hub(bench: Bench, tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read() + b"<end>")
        writer.close()

    async def say(forward: Forward) -> bytes:
        reader, writer = await asyncio.open_connection(forward.host, forward.port)
        try:
            writer.write(b"x" * 100_000)
            writer.write_eof()
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"data \0")
    async with bench.client() as hub, hub.lease(SPEC) as lease:
        assert await lease.desktop.upload(source, "a") == 6
        assert await lease.desktop.download("a", target) == 6
        assert target.read_bytes() == b"data \0"
        with pytest.raises(errors.FileRefused) as refused:
            await lease.desktop.download("a", target, max_bytes=5)
        assert refused.value.kind == "too_large"
        async with lease.desktop.forward(port) as forward:
            assert await say(forward) == b"x" * 100_000 + b"<end>"
            # What the desktop refuses is told with its type.
            async with lease.desktop.forward(port) as other:
                listener.close()
                await listener.wait_closed()
                assert await say(other) == b""
                assert isinstance(other.last_error, errors.SandboxError)
            await lease.desktop.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(forward.host, forward.port)
            with pytest.raises(errors.LeaseExpired):
                async with lease.desktop.forward(port):
                    pass


async def test_both_hubs_are_lenders(bench: Bench) -> None:
    async def borrow(lender: Lender) -> str:
        async with lender.lease(SPEC) as loan:
            assert loan.over is None
            assert loan.expires_in_s > 0
            await loan.desktop.step(HI)
        assert loan.over == "released"
        with pytest.raises(errors.LeaseExpired):
            await loan.desktop.observe()
        return loan.id

    async with bench.client() as far:
        assert await borrow(bench.hub) != await borrow(far)


@pytest.mark.parametrize(
    "error",
    [
        errors.DesktopLost("gone", state={"x": "1"}),
        errors.ProbeLost("died", phase="unknown"),
        errors.Unavailable("no accessibility"),
        errors.BadRequest("no such thing"),
        errors.DeadlineExceeded("late", phase="infra"),
        FileNotFoundError("there is none"),
    ],
)
async def test_an_error_keeps_its_type_phase_and_words(error: Exception, bench: Bench) -> None:
    async with bench.client() as hub, hub.lease(SPEC) as lease:
        bench.desktop(lease).fail("get_file", error)
        with pytest.raises(type(error)) as caught:
            await lease.desktop.get_file("a")
        assert str(caught.value) == str(error)
        if isinstance(error, errors.DesktopError):
            assert isinstance(caught.value, errors.DesktopError)
            assert (caught.value.phase, caught.value.state) == (error.phase, error.state)


def test_every_error_of_ours_survives_the_wire() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if not isinstance(kind, type):
            continue
        options: dict[Any, dict[str, Any]] = {
            errors.MissingRequirement: {"fix": "this"},
            errors.FileRefused: {"kind": "changed"},
        }
        made = kind("what", **options.get(kind, {}))
        back = decode_error(encode_error(made))
        assert type(back) is kind
        assert str(back) == str(made)


def test_an_errors_cause_goes_along_in_words() -> None:
    try:
        raise errors.BootFailed("no desktop") from OSError("disk full")
    except errors.BootFailed as error:
        back = decode_error(encode_error(error))
    assert isinstance(back, errors.BootFailed)
    assert back.state["cause"] == "OSError: disk full"


async def test_a_frame_is_sent_once_to_a_client(bench: Bench) -> None:
    frames = [make_frame(number, width=160, height=120) for number in range(2)]
    bench.backend.make = lambda spec: FakeDesktop(spec=spec, frames=frames)
    size = len(frames[0].pixels)
    async with relay(bench) as (cut, hub):
        for number in range(2):
            async with hub.lease(SPEC) as lease:
                before = cut.relayed
                for frame in (frames[0], frames[0]):
                    assert (await lease.desktop.observe()).frame == frame
                    assert (await lease.desktop.observe()).frame == frame
                assert (await lease.desktop.step(HI)).observation.frame == frames[1]
                sent = cut.relayed - before
                assert sent // size == (2 if number == 0 else 0), sent  # the second desktop shows the same


async def test_a_frame_goes_compressed_to_another_machine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HubAddress, "is_local", property(lambda self: False))
    frame = make_frame(3, width=160, height=120)
    bench.backend.make = lambda spec: FakeDesktop(spec=spec, frames=[frame])
    async with relay(bench) as (cut, hub), hub.lease(SPEC) as lease:
        before = cut.relayed
        assert (await lease.desktop.observe()).frame == frame
        assert cut.relayed - before < len(frame.pixels)


@pytest.mark.parametrize("call", ["step", "exec", "spawn", "put_file"])
async def test_a_call_whose_answer_is_lost_is_answered_again_and_made_once(call: str, bench: Bench) -> None:
    async with relay(bench) as (cut, hub), hub.lease(SPEC) as lease:
        cut.cut_answers = 2
        await CALLS[call](lease.desktop)
        assert cut.cut_answers == 0
        assert len(bench.desktop(lease).calls(call)) == 1
        assert lease.over is None


async def test_a_broken_connection_is_made_again_at_once_and_with_pauses_if_it_keeps_breaking(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "FIRST_RETRY_S", 60.0)
    async with relay(bench) as (cut, hub), hub.lease(SPEC) as lease:
        cut.cut_answers = 1
        async with asyncio.timeout(10):
            await lease.desktop.exec(["true"])
        cut.cut_answers = 2
        again = asyncio.create_task(lease.desktop.exec(["true"]))
        await until(lambda: cut.cut_answers == 0)
        await asyncio.wait({again}, timeout=0.2)
        assert not again.done()
        again.cancel()


async def test_a_request_for_a_desktop_whose_answer_is_lost_lends_one_desktop(bench: Bench) -> None:
    async with relay(bench) as (cut, hub):
        cut.cut_answers = 2
        async with hub.lease(SPEC):
            assert cut.cut_answers == 0
            assert bench.hub.stats().leased == 1
            assert len(bench.backend.booted) == 1


def call_message(lease: RemoteLease, number: int, text: str) -> Message:
    request = {"call": "step", "actions": [{"kind": "type", "text": text}], "settle": None, "want": []}
    about = {"op": "call", "lease": lease.id, "epoch": lease.epoch, "have": [], "compress": False}
    return about | {"number": number, "request": request, "request_id": None, "deadline_s": 5}


async def test_repeated_and_late_requests_act_once(bench: Bench) -> None:
    frames = [make_frame(number) for number in range(5)]
    bench.backend.make = lambda spec: FakeDesktop(spec=spec, frames=frames)
    link = Link(bench.address)
    async with bench.client() as hub, hub.lease(SPEC) as lease:

        async def ask(number: int, text: str) -> Any:
            return (await link.ask(call_message(lease, number, text), deadline_s=5))[0]["answer"]

        first = await asyncio.gather(*(ask(1, "a") for _ in range(5)))
        assert all(answer == first[0] for answer in first)
        assert await ask(4, "d") != first[0]
        assert await ask(1, "a") == first[0]
        for number in (2, 3):  # sent before 4, come after it
            with pytest.raises(errors.BadRequest, match="too late to be made"):
                await ask(number, "late")
        with pytest.raises(errors.BadRequest, match="already used for another call"):
            await ask(4, "something else")
        assert bench.desktop(lease).acted == [TypeText(text="a"), TypeText(text="d")]
        assert lease.over is None
    assert await ask(4, "d")  # the lease is over, but what was answered stays so
    async with bench.client() as hub, hub.lease(SPEC):  # answers go when others come
        with pytest.raises(errors.LeaseExpired) as caught:
            await ask(4, "d")
        assert caught.value.phase == "unknown"
    link.close()


async def test_an_older_epoch_is_refused(bench: Bench) -> None:
    link = Link(bench.address)
    async with bench.client() as hub, hub.lease(SPEC) as lease:
        about = {"op": "renew", "lease": lease.id, "epoch": lease.epoch, "ttl_s": 10, "fence": True}
        newer = (await link.ask(about, deadline_s=5))[0]["epoch"]
        assert newer > lease.epoch
        with pytest.raises(errors.LeaseExpired, match="newer epoch"):
            await lease.desktop.step(HI)
        assert bench.desktop(lease).acted == []
        await link.ask({"op": "release", "lease": lease.id, "epoch": newer}, deadline_s=5)
    link.close()


async def test_a_lost_workers_lease_ends_by_its_time(bench: Bench) -> None:
    async with Vanishing(bench.client(alive_s=2)) as hub:
        lease = await hub.acquire(SPEC, ttl_s=600)
        holding = bench.holding(lease)
        granted_until = holding.expires_at
        assert (
            granted_until < holding.latest_at - 600
        )  # for as long as the worker is heard of, not for all that it asked
        await until(lambda: holding.expires_at > granted_until)
        assert lease.beats is not None
        lease.beats.cancel()  # the worker is gone, without a word
        await until(lambda: bench.backend.open_desktops == [])
        assert bench.hub.stats().retired == {"expired": 1}


async def test_a_lease_ends_when_the_time_it_asked_for_is_over(bench: Bench) -> None:
    async with bench.client() as hub:
        lease = await hub.acquire(SPEC, ttl_s=0.3)
        await until(lambda: bench.backend.open_desktops == [])
        with pytest.raises(errors.LeaseExpired):
            await lease.desktop.step(HI)


async def test_a_lost_waiter_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ABANDON_S", 0.05)
    async with serving(capacity=1) as bench, bench.client() as hub, bench.client() as other, hub.lease(SPEC):
        waiting = asyncio.create_task(other.acquire(SPEC))
        await until(lambda: bench.hub.stats().waiting == 1)
        waiting.cancel()
        await until(lambda: bench.hub.stats().waiting == 0)
        assert bench.hub.stats().leased == 1


async def test_a_cancelled_effect_ends_the_lease_and_a_cancelled_look_does_not(bench: Bench) -> None:
    async with bench.client() as hub, hub.lease(SPEC) as lease:
        bench.desktop(lease).hang("observe")
        look = asyncio.create_task(lease.desktop.observe())
        await until(lambda: bool(bench.desktop(lease).calls("observe")))
        look.cancel()
        with pytest.raises(asyncio.CancelledError):
            await look
        assert (await lease.desktop.observe()).frame is not None
        bench.desktop(lease).hang("step")
        step = asyncio.create_task(lease.desktop.step(HI))
        await until(lambda: bool(bench.desktop(lease).calls("step")))
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        with pytest.raises(errors.LeaseExpired, match="cancelled"):
            await lease.desktop.observe()
    await until(lambda: bench.backend.open_desktops == [])


async def test_a_missed_deadline_of_an_effect_is_of_unknown_fate(bench: Bench) -> None:
    async with bench.client() as hub, hub.lease(SPEC) as lease:
        bench.desktop(lease).fail("step", errors.DeadlineExceeded("late"))
        with pytest.raises(errors.DeadlineExceeded) as caught:
            await lease.desktop.step(HI, deadline_s=3)
        assert caught.value.phase == "unknown"
        assert lease.over is not None
        assert bench.desktop(lease).calls("step")[0]["deadline_s"] <= 3  # one deadline, from here to the desktop


async def test_a_wrong_token_is_refused_and_the_right_one_is_not_sent(bench: Bench) -> None:
    with pytest.raises(errors.BadRequest, match="token"):
        async with RemoteHub(HubAddress(host=bench.address.host, port=bench.address.port, token="another token")):
            raise AssertionError
    reader, writer = await asyncio.open_connection(bench.address.host, bench.address.port)
    writer.write(b"GET / HTTP/1.1\r\n" * 1000)
    assert b"error" not in await reader.read()  # the nonce at most, then the hub hangs up
    writer.close()


async def test_a_hub_that_is_not_there_is_named() -> None:
    with pytest.raises(errors.HubLost, match="frontdesk hub serve"):
        async with RemoteHub(HubAddress(host="127.0.0.1", port=1, token=TOKEN)):
            raise AssertionError


async def test_a_hub_that_goes_away_is_a_typed_loss() -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with serving() as bench:
            hub = await stack.enter_async_context(Vanishing(bench.client(link=Link(bench.address, patience_s=0.2))))
            lease = await hub.acquire(SPEC)
            bench.desktop(lease).hang("step")
            step = asyncio.create_task(lease.desktop.step(HI))
            await until(lambda: bool(bench.desktop(lease).calls("step")))
        with pytest.raises(errors.DesktopError) as caught:
            await step
        assert caught.value.phase == "unknown"
        with pytest.raises(errors.HubLost) as lost:
            await hub.acquire(SPEC)
        assert lost.value.phase == "infra"
        assert "hub" in lost.value.state


class Vanishing:
    """A client that ends without a word to the hub, as a killed process does."""

    def __init__(self, hub: RemoteHub) -> None:
        self._hub = hub

    async def __aenter__(self) -> RemoteHub:
        return await self._hub.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        self._hub._link.close()


@pytest.mark.parametrize("text", ["", "host", "host:", ":7411", "host:0", "host:70000", "host:x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match="HOST:PORT"):
        HubAddress.parse(text, TOKEN)


def test_addresses_are_read_as_people_write_them() -> None:
    for text in ("desk.example:7411", "tcp://desk.example:7411", "tcp://desk.example:7411/"):
        assert str(HubAddress.parse(text, TOKEN)) == "desk.example:7411"
    assert HubAddress.parse("[::1]:7411", TOKEN).host == "::1"


async def test_a_short_token_is_refused() -> None:
    with pytest.raises(errors.BadRequest, match="16 characters"):
        HubServer(Hub(FakeBackend(), capacity=1), token="short")


async def test_commands_inside_a_collection_count_as_effects(bench: Bench) -> None:
    async with relay(bench) as (cut, hub), hub.lease(SPEC) as lease:
        cut.cut_answers = 1
        await lease.desktop.collect([CommandRequest(name="c", argv=("true",))])
        assert len(bench.desktop(lease).calls("collect")) == 1
