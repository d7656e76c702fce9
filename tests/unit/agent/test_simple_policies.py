"""Chance and nothing."""

from __future__ import annotations

from collections import Counter

from agent.policies import AlwaysInfeasiblePolicy, NoopPolicy, RandomPolicy
from sandbox.actions import Done, Infeasible
from sandbox.dialects import DIALECTS, View, get_dialect
from tests.support.requests import make_request


async def test_noop_policies_end_at_once_in_every_dialect() -> None:
    for name, dialect in DIALECTS.items():
        done = await NoopPolicy().reply(make_request(dialect=name))
        assert dialect.parse(done.text, View.unscaled(160, 120)).actions == (Done(),)
        infeasible = await AlwaysInfeasiblePolicy().reply(make_request(dialect=name))
        (action,) = dialect.parse(infeasible.text, View.unscaled(160, 120)).actions
        assert isinstance(action, Infeasible)


async def test_random_actions_are_valid_varied_and_repeatable() -> None:
    policy = RandomPolicy()
    kinds: Counter[str] = Counter()
    texts = set()
    for seed in range(300):
        reply = await policy.reply(make_request(seed=seed))
        assert reply == await policy.reply(make_request(seed=seed))
        parsed = get_dialect("compact").parse(reply.text, View.unscaled(160, 120))
        assert parsed.error is None
        kinds.update(action.kind for action in parsed.actions)
        texts.add(reply.text)
    assert {"click", "press", "type", "scroll", "done"} == set(kinds)
    assert kinds["done"] < 40
    assert len(texts) > 150


async def test_random_actions_are_valid_in_every_dialect() -> None:
    for name, dialect in DIALECTS.items():
        for seed in range(60):
            if name == "anthropic-20241022" and await _scrolls(seed):
                continue  # that tool cannot
            reply = await RandomPolicy().reply(make_request(dialect=name, seed=seed))
            assert dialect.parse(reply.text, View.unscaled(160, 120)).error is None


async def _scrolls(seed: int) -> bool:
    reply = await RandomPolicy().reply(make_request(seed=seed))
    return reply.text.startswith("scroll")
