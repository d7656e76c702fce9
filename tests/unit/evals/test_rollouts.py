from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evals.rollouts import Rollout, run_rollouts
from sandbox.desktop import DesktopSpec
from sandbox.errors import BootFailed, ImageError
from sandbox.hub import Hub, HubAddress, HubServer, Lender, RemoteHub
from store import BlobStore, Catalog, Home, Trajectory, TrajectoryStore
from store.errors import CatalogError
from store.tables import EpisodeRow
from tests.support.desktop import FakeBackend
from tests.support.policy import FakePolicy
from tests.support.task import FakeTask

TOKEN = "a token of the tests"


class Place:
    """A store and a hub on fake desktops."""

    def __init__(self, home: Home, backend: FakeBackend, hub: Lender) -> None:
        self.backend = backend
        self.hub = hub
        self.blobs = BlobStore(home.blobs)
        self.catalog = Catalog.open(home.catalog_url)
        self.store = TrajectoryStore(home.trajectories, self.blobs, self.catalog)
        self.policy = FakePolicy(itertools.repeat("done"))
        self.ended: list[tuple[str, str, bool]] = []

    def rollouts(self, *ids: str) -> list[Rollout]:
        return [
            Rollout(
                id=rollout_id,
                task=FakeTask(),
                spec=DesktopSpec(),
                policy=self.policy,
                group_id="g",
                seed_env=1,
                seed_sampling=number,
            )
            for number, rollout_id in enumerate(ids)
        ]

    async def run(self, *ids: str, limit: int = 2) -> list[Trajectory]:
        return await run_rollouts(
            self.rollouts(*ids),
            self.hub,
            self.store,
            self.blobs,
            limit=limit,
            on_end=lambda rollout, trajectory, kept: self.ended.append((rollout.id, trajectory.outcome, kept)),
        )


@pytest.fixture(params=["hub in this process", "hub behind a socket"])
async def place(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    backend = FakeBackend()
    async with Hub(backend, capacity=2, boots_at_once=2) as hub, contextlib.AsyncExitStack() as stack:
        lender: Lender = hub
        if request.param == "hub behind a socket":
            server = await stack.enter_async_context(HubServer(hub, token=TOKEN))
            lender = await stack.enter_async_context(RemoteHub(HubAddress.parse(server.address, TOKEN)))
        made = Place(Home(tmp_path).ensure(), backend, lender)
        yield made
        made.catalog.close()


async def test_attempts_come_back_in_order_and_are_kept(place: Place) -> None:
    done = await place.run("a", "b", "c", "d", "e")
    assert [trajectory.id for trajectory in done] == ["a", "b", "c", "d", "e"]
    assert {trajectory.outcome for trajectory in done} == {"pass"}
    assert place.store.load("c") == done[2]
    assert sorted(row.id for row in place.catalog.episodes(group_id="g")) == ["a", "b", "c", "d", "e"]
    assert len(place.backend.calls("boot")) == 5


async def test_an_attempt_that_was_kept_is_not_made_again(place: Place) -> None:
    first = await place.run("a", "b")
    place.ended.clear()
    again = await place.run("a", "b", "c")
    assert again[:2] == first
    assert sorted(place.ended) == [("a", "pass", True), ("b", "pass", True), ("c", "pass", False)]
    assert len(place.backend.calls("boot")) == 3


async def test_an_attempt_killed_before_its_row_was_written_is_not_made_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(row: EpisodeRow) -> bool:
        raise CatalogError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(place.catalog, "add_episode", killed)
        with pytest.raises(CatalogError):
            await place.run("a")
    assert not place.catalog.episodes()
    await place.run("a", "b")
    assert sorted(place.ended) == [("a", "pass", True), ("b", "pass", False)]


async def test_what_is_interrupted_keeps_what_had_ended(place: Place) -> None:
    started = asyncio.Event()

    class Slow(FakePolicy):
        async def reply(self, request):  # type: ignore[no-untyped-def]
            if request.trajectory_id == "b":
                started.set()
                await asyncio.sleep(60)
            return await super().reply(request)

    place.policy = Slow(itertools.repeat("done"))
    work = asyncio.create_task(place.run("a", "b", limit=1))
    await started.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert [row.id for row in place.catalog.episodes()] == ["a"]


async def test_no_desktop_is_an_infra_error_and_never_a_gap(place: Place) -> None:
    for nth in range(1, 10):
        place.backend.fail("boot", BootFailed("no start", state={"oom_kills": "2"}), nth=nth)
    (lost,) = await place.run("a")
    assert (lost.outcome, lost.reward, lost.turns) == ("infra_error", None, ())
    assert lost.error is not None
    assert (lost.error.type, lost.error.phase) == ("BootFailed", "setup")
    assert place.catalog.episode("a").outcome == "infra_error"


async def test_a_machine_without_the_image_is_an_error_not_an_outcome(place: Place) -> None:
    place.backend.fail("boot", ImageError("not built"))
    with pytest.raises(ImageError, match="not built"):
        await place.run("a", "b")
    assert place.catalog.episodes() == []
