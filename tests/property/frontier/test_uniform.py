"""The uniform sampler: budgets, idempotence, exact restore, no starvation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier import Allocation, RolloutOutcome, Sampler, UniformSampler, Verdict

POOLS = st.integers(0, 7).map(lambda size: [f"task-{k}" for k in range(size)])


def outcome(allocation: Allocation, k: int, verdict: Verdict = "pass", *, version: int = 0) -> RolloutOutcome:
    reward = None if verdict == "infra_error" else float(verdict == "pass")
    return RolloutOutcome(
        rollout_id=f"{allocation.group_id}/{k}",
        group_id=allocation.group_id,
        task=allocation.task,
        version=version,
        verdict=verdict,
        reward=reward,
    )


def outcomes(allocations: Iterable[Allocation]) -> list[RolloutOutcome]:
    return [outcome(allocation, k) for allocation in allocations for k in range(allocation.n)]


@given(POOLS, st.integers(0, 2**32), st.integers(1, 8), st.lists(st.integers(0, 50), max_size=6))
def test_budget_is_kept_and_used(tasks: list[str], seed: int, group_size: int, budgets: list[int]) -> None:
    sampler: Sampler = UniformSampler(tasks, seed=seed, group_size=group_size)
    seen: set[str] = set()
    for version, budget in enumerate(budgets):
        plan = sampler.plan(budget, version)
        spent = sum(allocation.n for allocation in plan)
        assert spent <= budget
        assert not tasks or budget - spent < group_size
        assert {allocation.task for allocation in plan} <= set(tasks)
        ids = [allocation.group_id for allocation in plan]
        assert len(set(ids)) == len(ids)
        assert seen.isdisjoint(ids)
        seen.update(ids)


@given(POOLS.filter(bool), st.integers(0, 99), st.lists(st.integers(0, 20), min_size=1, max_size=20))
def test_no_task_starves(tasks: list[str], seed: int, budgets: list[int]) -> None:
    sampler = UniformSampler(tasks, seed=seed, group_size=2)
    groups: Counter[str] = Counter(dict.fromkeys(tasks, 0))
    for budget in budgets:
        groups.update(allocation.task for allocation in sampler.plan(budget, 0))
        assert max(groups.values()) - min(groups.values()) <= 1


@given(st.data(), POOLS, st.integers(0, 99))
def test_restore_is_exact_at_every_point(data: st.DataObject, tasks: list[str], seed: int) -> None:
    """Two samplers do the same things; one of them is saved as JSON and restored between any two calls."""
    straight = UniformSampler(tasks, seed=seed, group_size=2)
    restored = UniformSampler(tasks, seed=seed, group_size=2)
    pending: list[RolloutOutcome] = []
    groups: list[str] = []
    for _ in range(data.draw(st.integers(1, 12))):
        fresh = UniformSampler(tasks, seed=seed, group_size=2)
        fresh.restore(json.loads(json.dumps(restored.state())))
        restored = fresh
        call = data.draw(st.sampled_from(["plan", "record", "cancel"]))
        if call == "plan":
            budget = data.draw(st.integers(0, 9))
            plan = straight.plan(budget, 0)
            assert restored.plan(budget, 0) == plan
            pending += outcomes(plan)
            groups += [allocation.group_id for allocation in plan]
        elif call == "record" and pending:
            one = data.draw(st.sampled_from(pending))
            assert straight.record(one) == restored.record(one)
        elif call == "cancel" and groups:
            group = data.draw(st.sampled_from(groups))
            straight.cancel(group)
            restored.cancel(group)
    assert straight.state() == restored.state()


@given(POOLS.filter(bool), st.permutations(range(8)), st.integers(1, 4))
def test_record_is_idempotent_and_blind_to_order(tasks: list[str], order: list[int], times: int) -> None:
    sampler = UniformSampler(tasks, seed=1, group_size=4)
    all_outcomes = outcomes(sampler.plan(8, 0))
    reference = UniformSampler(tasks, seed=1, group_size=4)
    for one in outcomes(reference.plan(8, 0)):
        assert reference.record(one)
    for position in order:
        assert sampler.record(all_outcomes[position])
        for _ in range(times):
            assert not sampler.record(all_outcomes[position])
    assert sampler.state() == reference.state()
    assert sampler.in_flight == {}


def test_seeds_decide_the_order() -> None:
    tasks = [f"task-{k}" for k in range(20)]
    orders = {
        tuple(allocation.task for allocation in UniformSampler(tasks, seed=seed, group_size=1).plan(20, 0))
        for seed in (1, 1, 2, 3)
    }
    assert len(orders) == 3
    two_rounds = UniformSampler(tasks, seed=1, group_size=1).plan(40, 0)
    names = [allocation.task for allocation in two_rounds]
    assert names[:20] != names[20:], "each round has its own order"


def test_order_of_the_pool_does_not_matter() -> None:
    forward = UniformSampler(["a", "b", "c"], seed=5).plan(64, 0)
    backward = UniformSampler(["c", "b", "a"], seed=5).plan(64, 0)
    assert forward == backward


def test_small_pools() -> None:
    assert UniformSampler([], seed=0).plan(100, 0) == []
    one = UniformSampler(["only"], seed=0, group_size=4).plan(14, 0)
    assert [(allocation.task, allocation.n) for allocation in one] == [("only", 4)] * 3
    two = UniformSampler(["a", "b"], seed=0, group_size=4).plan(16, 0)
    assert Counter(allocation.task for allocation in two) == {"a": 2, "b": 2}


def test_groups_in_flight_count_and_cancelled_ones_do_not() -> None:
    sampler = UniformSampler(["a", "b"], seed=0, group_size=2)
    first, second = sampler.plan(4, 0)
    assert {first.task, second.task} == {"a", "b"}
    sampler.cancel(first.group_id)
    (again,) = sampler.plan(2, 0)
    assert again.task == first.task
    # Partly recorded groups were practice; cancelling them gives nothing back.
    sampler.record(outcome(second, 0))
    sampler.cancel(second.group_id)
    sampler.cancel(second.group_id)
    sampler.cancel("never planned")
    assert sampler.in_flight == {again.group_id: 2}
    assert sampler.state()["rounds"] == {"a": 1, "b": 1}


def test_late_and_partial_outcomes_are_taken() -> None:
    sampler = UniformSampler(["a"], seed=0, group_size=2)
    (group,) = sampler.plan(2, 5)
    assert sampler.record(outcome(group, 0, "infra_error", version=1))
    assert sampler.in_flight == {group.group_id: 1}
    sampler.cancel(group.group_id)
    assert sampler.record(outcome(group, 1, version=3)), "an outcome after the cancellation is still news"
    assert not sampler.record(outcome(group, 1, version=3))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        UniformSampler(["a", "a"], seed=0)
    with pytest.raises(ValueError, match="group_size"):
        UniformSampler(["a"], seed=0, group_size=0)
    sampler = UniformSampler(["a", "b"], seed=0, group_size=1)
    (group,) = sampler.plan(1, 0)
    other = Allocation(group_id=group.group_id, task="a" if group.task == "b" else "b", n=1)
    with pytest.raises(ValueError, match=f"of {group.task}"):
        sampler.record(outcome(other, 0))
    with pytest.raises(ValueError, match="keep the run's settings"):
        UniformSampler(["a", "b"], seed=1, group_size=1).restore(sampler.state())
    with pytest.raises(ValueError, match="reward"):
        RolloutOutcome(rollout_id="r", group_id="g", task="a", version=0, verdict="infra_error", reward=0.0)


def test_new_tasks_join_without_starving_the_old_ones() -> None:
    old = UniformSampler(["a", "b"], seed=0, group_size=1)
    old.plan(20, 0)
    grown = UniformSampler(["a", "b", "c"], seed=0, group_size=1)
    grown.restore(old.state())
    assert Counter(allocation.task for allocation in grown.plan(6, 0)) == {"a": 2, "b": 2, "c": 2}
