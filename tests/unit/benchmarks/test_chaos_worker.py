"""A worker of a storm knows what it did to each call, over all attempts that the call took."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.chaos_worker import Journal, StormLink
from sandbox.hub import Hub, HubAddress, HubServer, RemoteHub
from tests.support.desktop import FakeBackend

TOKEN = "a token of the tests"
PEACE, KEPT, SLOW, CUT, TWICE = 0.9, 0.4, 0.3, 0.2, 0.1


class Draws(random.Random):
    """Draws what it is told, and never lets anybody wait."""

    def __init__(self, draws: Sequence[float]) -> None:
        super().__init__(0)
        self.left = list(draws)

    def random(self) -> float:
        return self.left.pop(0)

    def uniform(self, a: float, b: float) -> float:
        return a


@pytest.mark.parametrize(
    ("draws", "troubles"),
    [
        ([PEACE], [set()]),
        ([TWICE], [{"twice"}]),
        ([SLOW], [{"slow"}]),
        ([CUT, PEACE], [{"cut"}]),
        ([CUT, CUT, SLOW, PEACE], [{"cut", "slow"}, set()]),
        ([KEPT, PEACE, PEACE], [set(), {"late"}, set()]),
    ],
)
async def test_troubles_are_kept_over_a_calls_attempts_and_not_longer(
    draws: list[float], troubles: list[set[str]], tmp_path: Path
) -> None:
    async with Hub(FakeBackend(), capacity=1) as hub, HubServer(hub, token=TOKEN) as server:
        rng = Draws(draws)
        link = StormLink(HubAddress.parse(server.address, TOKEN), rng, Journal(tmp_path / "journal"))
        async with RemoteHub(link.address, link=link) as client, client.lease() as lease:
            seen = []
            for _ in troubles:
                await lease.desktop.exec(["true"])
                await lease.desktop.health()  # has no effect, so nothing befalls it
                seen.append(link.troubles)
    assert (seen, rng.left) == (troubles, [])
