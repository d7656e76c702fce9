"""Groups between plan and update: slots, the bound on staleness, and what an update is made of."""

from __future__ import annotations

import random

import pytest

from tests.support.trajectories import make_trajectory
from trainer.groups import Group, Groups, weigh


def group(name: str, version: int, rewards: tuple[float, ...] = (0.0, 1.0)) -> Group:
    return Group(
        id=name,
        task="t",
        n=len(rewards),
        version=version,
        trajectories=[make_trajectory(f"{name}-{number}") for number in range(len(rewards))],
        rewards=list(rewards),
    )


def test_slots_are_charged_until_a_group_is_trained_or_says_nothing() -> None:
    groups = Groups(per_update=1, max_staleness=1)
    first, second = group("a", 0), group("b", 0, (1.0, 1.0))
    groups.admit(first)
    groups.admit(second)
    assert not groups.room
    assert not groups.finish(second), "equal rewards say nothing"
    assert groups.room
    assert groups.finish(first)
    groups.admit(group("c", 0))
    assert not groups.room, "a ready group keeps its slot"
    assert groups.take(0) == [first]
    assert groups.room


def test_an_update_waits_for_a_group_that_would_grow_too_old() -> None:
    groups = Groups(per_update=1, max_staleness=1)
    slow, quick = group("slow", 0), group("quick", 0)
    groups.admit(slow)
    groups.admit(quick)
    groups.finish(quick)
    assert groups.take(0) == [quick]
    later = group("later", 1)
    groups.admit(later)
    groups.finish(later)
    assert groups.take(1) == [], "after this update the slow group would be two versions old"
    groups.finish(slow)
    assert groups.take(1) == [slow], "the oldest first"
    assert groups.take(2) == [later]


def test_an_update_takes_all_that_would_grow_too_old() -> None:
    groups = Groups(per_update=1, max_staleness=2)
    three = [group(name, 0) for name in "abc"]
    for each in three:
        groups.admit(each)
        groups.finish(each)
    assert groups.take(2) == three


def test_shuffling_deals_rewards_out_across_groups() -> None:
    groups = [group("a", 0, (1.0, 1.0, 0.0, 0.0)), group("b", 0, (1.0, 0.0, 0.0, 0.0))]
    plain = weigh(groups)
    assert [each.advantage > 0 for each in plain] == [True, True, False, False, True, False, False, False]
    dealt = [tuple(each.advantage > 0 for each in weigh(groups, shuffle=random.Random(seed))) for seed in range(5)]
    assert len(set(dealt)) > 1
    assert weigh(groups, shuffle=random.Random(3)) == weigh(groups, shuffle=random.Random(3))
    assert groups[0].rewards == [1.0, 1.0, 0.0, 0.0], "the record keeps what was earned"


@pytest.mark.parametrize("rewards", [(), (1.0,)])
def test_a_group_with_less_than_two_rewards_says_nothing(rewards: tuple[float, ...]) -> None:
    assert not group("a", 0, rewards).informative
