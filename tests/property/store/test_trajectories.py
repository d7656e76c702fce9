"""Whatever a trajectory holds, it is either refused with a reason or read back as it was."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.blobs import BlobStore
from store.catalog import Catalog
from store.errors import Unstorable
from store.trajectories import TrajectoryStore
from store.trajectory import ErrorInfo, TokenTrace, Trajectory, Turn

NUMBERS = itertools.count()
WORDS = st.text(max_size=30)
FLOATS = st.floats(width=64)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
FACTS = st.dictionaries(WORDS, JSON, max_size=3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrajectoryStore]:
    root = tmp_path_factory.mktemp("store")
    with Catalog.open(f"sqlite:///{root / 'catalog.sqlite'}") as catalog:
        yield TrajectoryStore(root / "trajectories", BlobStore(root / "blobs"), catalog)


@st.composite
def traces(draw: st.DrawFn) -> TokenTrace:
    length = draw(st.integers(0, 5))
    flags = st.lists(st.booleans(), min_size=length, max_size=length)
    tokens = st.lists(st.integers(0, 2**31), min_size=length, max_size=length)
    return TokenTrace(
        sent_ids=tuple(draw(tokens)),
        prompt_ids=tuple(draw(tokens)),
        sampled_ids=tuple(draw(tokens)),
        logprobs=tuple(draw(st.lists(FLOATS, min_size=length, max_size=length))),
        sampled_mask=tuple(draw(flags)),
        action_mask=tuple(draw(flags)),
        version_span=(draw(st.integers(0, 9)), draw(st.integers(0, 9))),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    turns = tuple(
        Turn(
            index=index,
            frame=None,
            cursor=(draw(st.integers()), draw(st.integers())),
            visible=(index,),
            raw=draw(WORDS),
            actions=(draw(FACTS),),
            timings_ms={"policy": draw(FLOATS)},
            facts=draw(FACTS),
            tokens=draw(st.none() | traces()),
        )
        for index in range(draw(st.integers(0, 2)))
    )
    outcome: Any = draw(st.sampled_from(["pass", "fail", "infra_error"]))
    ended_in_error = outcome == "infra_error"
    return Trajectory(
        id=f"{next(NUMBERS)}-{draw(WORDS)}",
        task_id=draw(WORDS),
        instruction=draw(WORDS),
        group_id=draw(st.none() | WORDS),
        actor=draw(WORDS),
        harness_hash="h",
        image_digest="i",
        policy_hash="p",
        seed_env=draw(st.integers(-(2**64), 2**64)),
        seed_sampling=draw(st.integers(-(2**63), 2**63 - 1)),
        turns=turns,
        final_action=draw(st.none() | FACTS),
        stop_reason="done",
        outcome=outcome,
        reward=None if ended_in_error else draw(st.floats(0, 1)),
        error=ErrorInfo(type="E", phase="infra", message=draw(WORDS)) if ended_in_error else None,
        started_at=draw(FLOATS),
        seconds=draw(st.floats(0, 1e9)),
    )


@settings(max_examples=150, deadline=None)
@given(trajectory=trajectories())
def test_commit_then_load_is_the_identity(store: TrajectoryStore, trajectory: Trajectory) -> None:
    try:
        row = store.commit(trajectory)
    except Unstorable:
        return
    loaded = store.load(trajectory.id)
    assert repr(loaded) == repr(trajectory)  # unlike ==, it takes NaN for NaN and tells 0.0 from -0.0
    assert (row.outcome == "infra_error") == (row.reward is None)
    assert store.commit(loaded).model_dump() == row.model_dump()


def test_the_ordinary_is_not_refused(store: TrajectoryStore) -> None:
    """The property above would hold for a store that refuses everything."""
    trajectory = Trajectory(
        id="-ordinary/../é %2F",
        task_id="t",
        instruction="Say \u2603 \U0001f600 and \\ \" '",
        actor="a",
        harness_hash="h",
        image_digest="i",
        policy_hash="p",
        seed_env=2**63 - 1,
        seed_sampling=0,
        turns=(
            Turn(
                index=0,
                frame=None,
                cursor=(1, 2),
                visible=(0,),
                raw="\0\n",
                facts={"score": float("inf")},
                tokens=TokenTrace(
                    sent_ids=(1,),
                    prompt_ids=(1, 1),
                    sampled_ids=(2,),
                    logprobs=(float("-inf"),),
                    sampled_mask=(True,),
                    action_mask=(False,),
                    version_span=(0, 0),
                ),
            ),
        ),
        stop_reason="max_steps",
        outcome="fail",
        reward=0.25,
        started_at=1.5,
        seconds=0.0,
    )
    store.commit(trajectory)
    assert store.load(trajectory.id) == trajectory
