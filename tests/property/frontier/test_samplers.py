"""What every sampler keeps, and what ours promises beyond: budgets, order, restore, starvation, infra errors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontier import (
    Allocation,
    AsksForGates,
    FrontierConfig,
    FrontierSampler,
    RolloutOutcome,
    Sampler,
    TakesGroups,
    TaskInfo,
    Verdict,
)
from tests.support.sampling import MAKERS, outcome, play, pool

VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from(("pass", "fail", "infra_error"))
ALL = pytest.mark.parametrize("kind", list(MAKERS))
LEARNING = pytest.mark.parametrize("kind", ["band", "ema_gaussian", "frontier"])


@ALL
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9), st.integers(0, 99), st.lists(st.integers(0, 60), max_size=8), st.data())
def test_budget_is_never_exceeded(kind: str, size: int, seed: int, budgets: list[int], data: st.DataObject) -> None:
    sampler = MAKERS[kind](pool(size), seed)
    seen: set[str] = set()
    for version, budget in enumerate(budgets):
        plan = sampler.plan(budget, version)
        assert sum(allocation.n for allocation in plan) <= budget
        assert all(allocation.n in (4, 8, 16) for allocation in plan)
        ids = [allocation.group_id for allocation in plan]
        assert len(set(ids)) == len(ids)
        assert seen.isdisjoint(ids)
        seen.update(ids)
        for allocation in plan:
            for k in range(allocation.n):
                sampler.record(outcome(allocation, k, data.draw(VERDICTS), version=version))


@ALL
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 99), st.data())
def test_record_is_idempotent_and_blind_to_order(kind: str, size: int, seed: int, data: st.DataObject) -> None:
    one, other = MAKERS[kind](pool(size), seed), MAKERS[kind](pool(size), seed)
    for version in range(3):
        # Twice, so that small pools have several groups of one task in flight.
        plan = one.plan(24, version) + one.plan(24, version)
        assert other.plan(24, version) + other.plan(24, version) == plan, "what was learned decides the next plan"
        outcomes = [
            outcome(group, k, data.draw(VERDICTS), version=data.draw(st.integers(0, version)))
            for group in plan
            for k in range(group.n)
        ]
        for news in outcomes:
            assert one.record(news)
        for news in data.draw(st.permutations(outcomes)):
            assert other.record(news)
            assert not other.record(news)
        assert one.state() == other.state()


@ALL
@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_a_whole_group_says_the_same_as_its_rollouts(kind: str, data: st.DataObject, seed: int) -> None:
    one, whole = MAKERS[kind](pool(5), seed), MAKERS[kind](pool(5), seed)
    assert isinstance(whole, TakesGroups)
    for version in range(4):
        plan = one.plan(24, version)
        assert whole.plan(24, version) == plan
        for group in plan:
            verdicts = [data.draw(VERDICTS) for _ in range(group.n)]
            for k, verdict in enumerate(verdicts):
                one.record(outcome(group, k, verdict, version=version))
            passes, graded = verdicts.count("pass"), group.n - verdicts.count("infra_error")
            counts = {"version": version, "passes": passes, "graded": graded, "seconds": 1.5}
            assert whole.record_group(group.group_id, **counts)  # type: ignore[arg-type]
            assert not whole.record_group(group.group_id, **counts)  # type: ignore[arg-type]
    assert one.state() == whole.state()


@ALL
@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(0, 7), st.integers(0, 99))
def test_restore_is_exact_at_every_point(kind: str, data: st.DataObject, size: int, seed: int) -> None:
    straight, restored = MAKERS[kind](pool(size), seed), MAKERS[kind](pool(size), seed)
    pending: list[RolloutOutcome] = []
    groups: list[str] = []
    for version in range(data.draw(st.integers(1, 10))):
        fresh = MAKERS[kind](pool(size), seed)
        fresh.restore(json.loads(json.dumps(restored.state())))
        restored = fresh
        call = data.draw(st.sampled_from(["plan", "record", "cancel", "retire"]))
        if call == "plan":
            budget = data.draw(st.integers(0, 20))
            plan = straight.plan(budget, version)
            assert restored.plan(budget, version) == plan
            pending += [outcome(g, k, data.draw(VERDICTS), version=version) for g in plan for k in range(g.n)]
            groups += [allocation.group_id for allocation in plan]
        elif call == "record":
            for news in data.draw(st.lists(st.sampled_from(pending), max_size=20)) if pending else []:
                assert straight.record(news) == restored.record(news)
        elif call == "retire":
            if size:
                task = f"task-{data.draw(st.integers(0, size - 1))}"
                straight.retire(task)
                restored.retire(task)
        elif groups:
            group = data.draw(st.sampled_from(groups))
            straight.cancel(group)
            restored.cancel(group)
    assert straight.state() == restored.state()


@ALL
@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(0, 99))
def test_a_retired_task_is_never_planned_again(kind: str, data: st.DataObject, size: int, seed: int) -> None:
    sampler = MAKERS[kind](pool(size), seed)
    gone: set[str] = set()
    pending: list[RolloutOutcome] = []
    for version in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            task = f"task-{data.draw(st.integers(0, size - 1))}"
            sampler.retire(task)
            gone.add(task)
            state = sampler.state()
            assert task not in {saved[1] for saved in state["open"].values()}, "its groups in flight are cancelled"
            sampler.retire(task)
            assert sampler.state() == state, "retiring twice changes nothing"
        plan = sampler.plan(data.draw(st.integers(0, 30)), version)
        assert gone.isdisjoint(allocation.task for allocation in plan)
        assert not (plan and len(gone) == size)
        pending += [outcome(g, k, data.draw(VERDICTS), version=version) for g in plan for k in range(g.n)]
        for news in data.draw(st.lists(st.sampled_from(pending), max_size=10)) if pending else []:
            sampler.record(news)
    if gone:
        back = min(gone)
        sampler.add([TaskInfo(task=back)])
        with pytest.raises(ValueError, match=f"already: {back}"):
            sampler.add([TaskInfo(task=back)])
        planned = {a.task for version in range(100, 160) for a in _played(sampler, version)}
        assert back in planned
        assert planned.isdisjoint(gone - {back})


def _played(sampler: Sampler, version: int) -> list[Allocation]:
    if isinstance(sampler, AsksForGates):
        for request in sampler.gate_requests():
            sampler.gate_answer(request.task, passed=True, version=version)
    plan = sampler.plan(16, version)
    play(sampler, plan, lambda task, n: n // 2, version=version)
    return plan


@ALL
def test_a_task_that_was_never_there_cannot_be_retired(kind: str) -> None:
    with pytest.raises(ValueError, match="never in the pool"):
        MAKERS[kind](pool(2), 0).retire("task-9")


@ALL
def test_tasks_that_only_the_state_has_are_retired_and_new_ones_join(kind: str) -> None:
    old = MAKERS[kind](pool(6), 0)
    in_flight = old.plan(96, 0)
    assert "task-5" in {allocation.task for allocation in in_flight}
    now = MAKERS[kind]([*pool(5), TaskInfo(task="new")], 0)
    now.restore(json.loads(json.dumps(old.state())))
    state = now.state()
    assert state["retired"] == ["task-5"]
    assert "task-5" not in {saved[1] for saved in state["open"].values()}
    play(now, [group for group in in_flight if group.task != "task-5"], lambda task, n: n // 2)
    planned = {allocation.task for version in range(1, 40) for allocation in _played(now, version)}
    assert planned == {*(f"task-{k}" for k in range(5)), "new"}


@ALL
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(0, 99), st.integers(2, 40))
def test_remembered_rollouts_are_bounded_by_groups_in_flight(kind: str, size: int, seed: int, plans: int) -> None:
    """However long a run is: ids of closed groups are forgotten, and those of cancelled ones after a while."""
    sampler = MAKERS[kind](pool(size), seed)
    for version in range(plans):
        plan = sampler.plan(24, version * 30)
        play(sampler, plan[1:], lambda task, n: n // 2, version=version)
        if plan:
            sampler.record(outcome(plan[0], 0, version=version))
            sampler.cancel(plan[0].group_id)
        state = sampler.state()
        remembered = [saved[-1] for part in ("open", "ended") for saved in state[part].values()]
        assert len(remembered) <= 4, "nothing is in flight, and three plans ago is too late to be news"
        assert sum(map(len, remembered)) <= 4 * 24
        assert len(state["news"]) <= len(plan)


@ALL
def test_a_state_of_another_version_ends_in_one_clear_message(kind: str) -> None:
    sampler = MAKERS[kind](pool(3), 0)
    sampler.plan(16, 0)
    saved = json.loads(json.dumps(sampler.state()))
    places = [("next_group",), ("config", next(iter(saved["config"])))]
    if kind == "frontier":
        places += [("judging", "tasks", "answers"), ("beliefs", "cells", "drift", "data")]
    for place in places:
        old = json.loads(json.dumps(saved))
        inside = old
        for name in place[:-1]:
            inside = inside[name]
        del inside[place[-1]]
        fresh = MAKERS[kind](pool(3), 0)
        before = fresh.state()
        with pytest.raises(ValueError, match=rf"has no {'.'.join(place)}, .*older version; start the run anew"):
            fresh.restore(old)
        assert fresh.state() == before, "a refused state changes nothing"
        if kind == "frontier":
            with pytest.raises(ValueError, match=rf"has no {'.'.join(place)}, "):
                FrontierSampler.from_state(old)
    with pytest.raises(ValueError, match="has surprise, which this version does not know; start the run anew"):
        MAKERS[kind](pool(3), 0).restore(saved | {"surprise": 1})
    MAKERS[kind](pool(3), 0).restore(saved)


@ALL
def test_a_long_run_goes_on_as_if_it_had_not_stopped(kind: str) -> None:
    """Long enough for waits, shares and life cycles to matter."""
    infos = pool(40)
    straight, stopped = MAKERS[kind](infos, 0), MAKERS[kind](infos, 0)
    for version in range(60):
        if version in (20, 33):
            fresh = MAKERS[kind](infos, 0)
            fresh.restore(json.loads(json.dumps(stopped.state())))
            stopped = fresh
        plan = straight.plan(20, version)
        assert stopped.plan(20, version) == plan
        for one in (straight, stopped):
            play(one, plan, lambda task, n: (0, n // 2, n)[int(task[5:]) % 3], version=version)


@ALL
@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_pools_work(kind: str, size: int) -> None:
    sampler = MAKERS[kind](pool(size), 0)
    for version in range(40):
        plan = sampler.plan(16, version)
        assert {allocation.task for allocation in plan} <= {f"task-{k}" for k in range(size)}
        play(sampler, plan, lambda task, n: n if task == "task-0" else 0, version=version)
        assert bool(plan) == bool(size)


@ALL
def test_equal_seeds_give_equal_plans(kind: str) -> None:
    def plans(seed: int) -> list[object]:
        sampler = MAKERS[kind](pool(12), seed)
        made: list[object] = []
        for version in range(5):
            plan = sampler.plan(16, version)
            play(sampler, plan, lambda task, n: n // 2, version=version)
            made.append(plan)
        return made

    assert plans(1) == plans(1)
    assert plans(1) != plans(2)


@LEARNING
def test_all_infra_batches_change_nothing(kind: str) -> None:
    sampler = MAKERS[kind](pool(6), 0)
    plan = sampler.plan(16, 0)
    play(sampler, plan, lambda task, n: n // 2)
    sampler.plan(0, 1)
    before = _learned(sampler)
    for version in range(1, 6):
        for allocation in sampler.plan(16, 1):
            for k in range(allocation.n):
                sampler.record(outcome(allocation, k, "infra_error", version=version))
    sampler.plan(0, 1)
    assert _learned(sampler) == before
    play(sampler, sampler.plan(16, 1), lambda task, n: n)
    sampler.plan(0, 1)
    assert _learned(sampler) != before, "the comparison sees graded outcomes"


def _learned(sampler: Sampler) -> object:
    state = sampler.state()
    if state["kind"] == "frontier":
        judged = {name: state["judging"]["tasks"][name] for name in ("state", "doubt", "ring_passes", "ring_graded")}
        return state["beliefs"], judged
    return state["out_until"] if state["kind"] == "band" else (state["p"], state["tried"])


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 30), st.integers(0, 99), st.integers(4, 24), st.randoms(use_true_random=False))
def test_no_eligible_task_starves(size: int, seed: int, budget: int, random: object) -> None:
    """Within a bounded number of plans every task that is not held is planned, whatever the rates are."""
    sampler = FrontierSampler(pool(size), seed=seed, config=FrontierConfig(quarantine=False))
    rates = {f"task-{k}": (0, 1, 2)[(seed + k) % 3] for k in range(size)}
    last = dict.fromkeys(rates, 0)
    share = min(sampler.config.oldest_share, sampler.config.monitor_share, sampler.config.easy_share)
    bound = round(4 * size / (share * budget)) + 2 * max(sampler.config.monitor_backoff) + 20
    for version in range(1, 2 * bound):
        plan = sampler.plan(budget, version)
        play(sampler, plan, lambda task, n: rates[task] * n // 2, version=version)
        last |= dict.fromkeys((allocation.task for allocation in plan), version)
        assert version - min(last.values()) <= bound


def test_starvation_would_be_noticed() -> None:
    """The negative control: without any share for the longest waiting, a poor task waits beyond the bound."""
    sampler = FrontierSampler(pool(30), seed=0, config=FrontierConfig(oldest_share=1e-9, monitor_share=0, easy_share=0))
    last = dict.fromkeys(sampler.tasks, 0)
    for version in range(1, 500):
        plan = sampler.plan(8, version)
        play(sampler, plan, lambda task, n: n // 2 if int(task[5:]) < 15 else 0, version=version)
        last |= dict.fromkeys((allocation.task for allocation in plan), version)
    assert 500 - min(last.values()) > 200


def test_n_is_fixed_before_outcomes() -> None:
    """Outcomes that come while a group runs change neither its size nor the plan of what runs."""
    sampler = FrontierSampler(pool(10), seed=3)
    plan = sampler.plan(48, 0)
    missing = dict(sampler.in_flight)
    assert missing == {allocation.group_id: allocation.n for allocation in plan}
    first = plan[0]
    sampler.record(outcome(first, 0, "pass"))
    assert sampler.in_flight == missing | {first.group_id: first.n - 1}
    again = sampler.plan(48, 0)
    assert all(allocation.group_id not in missing for allocation in again)


@ALL
def test_new_tasks_join(kind: str) -> None:
    sampler = MAKERS[kind](pool(3), 0)
    sampler.add([TaskInfo(task="late", cell="cell-0")])
    with pytest.raises(ValueError, match="already"):
        sampler.add([TaskInfo(task="late")])
    seen: set[str] = set()
    for version in range(30):
        plan = sampler.plan(8, version)
        play(sampler, plan, lambda task, n: n // 2, version=version)
        seen.update(allocation.task for allocation in plan)
    assert "late" in seen


@ALL
def test_late_outcomes_of_cancelled_groups_count(kind: str) -> None:
    sampler = MAKERS[kind](pool(1), 0)
    (group, *_) = sampler.plan(4, 0)
    sampler.cancel(group.group_id)
    sampler.cancel("never planned")
    assert sampler.record(outcome(group, 0, "pass"))
    assert not sampler.record(outcome(group, 0, "pass"))
    sampler.plan(0, 200)
    assert not sampler.record(outcome(group, 1, "pass", version=0)), "too late to be news"


@ALL
def test_a_state_of_another_configuration_is_refused(kind: str) -> None:
    sampler = MAKERS[kind](pool(2), 0)
    with pytest.raises(ValueError, match="cannot restore"):
        sampler.restore(MAKERS["band" if kind == "uniform" else "uniform"](pool(2), 0).state())
    with pytest.raises(ValueError, match=r"seed is 1 in the saved state and 0 here; keep the run's settings"):
        sampler.restore(MAKERS[kind](pool(2), 1).state())
    other = outcome(sampler.plan(4, 0)[0], 0)
    wrong = "task-1" if other.task == "task-0" else "task-0"
    with pytest.raises(ValueError, match=f"of {other.task}"):
        sampler.record(RolloutOutcome(**{name: getattr(other, name) for name in other.__slots__} | {"task": wrong}))
