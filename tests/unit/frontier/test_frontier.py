"""Our sampler from outside: following the policy, doubting broken tasks, the life cycle, caps and costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from frontier import Event, FrontierConfig, FrontierSampler, TaskInfo
from frontier.view import frontier_map
from tests.support.sampling import outcome, play, pool

CELLS = 4


class Policy:
    """Tasks with true success rates, practised through a sampler."""

    def __init__(self, rates: list[float], *, seed: int = 0, config: FrontierConfig | None = None) -> None:
        self.rates = dict(zip([info.task for info in pool(len(rates), cells=CELLS)], rates, strict=True))
        self.sampler = FrontierSampler(
            [replace(info, seed_state="", turns=10.0) for info in pool(len(rates), cells=CELLS)],
            seed=seed,
            config=config,
        )
        self.rng = np.random.default_rng(seed)
        self.version = 0
        self.events: list[Event] = []

    def batches(self, number: int, *, budget: int = 256) -> None:
        for _ in range(number):
            plan = self.sampler.plan(budget, self.version)
            play(self.sampler, plan, lambda task, n: self.rng.binomial(n, self.rates[task]), version=self.version)
            self.version += 1
            for request in self.sampler.gate_requests():
                self.sampler.gate_answer(request.task, passed=True, version=self.version)
        self.sampler.plan(0, self.version)
        self.events += self.sampler.take_events()

    def error(self) -> float:
        """Mean absolute error of the believed success."""
        return float(np.mean([abs(self.sampler.success(task)[0] - rate) for task, rate in self.rates.items()]))

    def move(self, logits: float) -> None:
        self.rates = {t: float(1 / (1 + np.exp(-(np.log(p / (1 - p)) + logits)))) for t, p in self.rates.items()}


def mixed(number: int = 240) -> list[float]:
    return [float(p) for p in np.random.default_rng(5).uniform(0.1, 0.9, number)]


@pytest.mark.parametrize("logits", [1.5, -1.5])
def test_the_map_follows_a_jump_within_three_batches(logits: float) -> None:
    policy = Policy(mixed())
    policy.batches(30)
    settled = policy.error()
    policy.events.clear()
    policy.move(logits)
    assert policy.error() > settled + 0.1
    policy.batches(3)
    assert policy.error() < settled + 0.05
    jump = next(event for event in policy.events if event.kind == "jump")
    assert ("rose" if logits > 0 else "fell") in jump.reason


def test_without_drift_the_jump_is_followed_late() -> None:
    """The negative control of the drift."""
    policy = Policy(mixed(), config=FrontierConfig(drift=False))
    policy.batches(30)
    settled = policy.error()
    policy.move(1.5)
    policy.batches(3)
    assert policy.error() > settled + 0.08


def test_rollouts_go_where_groups_are_live() -> None:
    """A third of the tasks can give live groups; once that is known they get more than half of the rollouts."""
    policy = Policy([0.5 if k % 3 == 0 else 0.02 if k % 3 == 1 else 0.95 for k in range(240)])
    policy.batches(40, budget=96)
    spent: Counter[float] = Counter()
    for _ in range(15):
        plan = policy.sampler.plan(96, policy.version)
        for request in policy.sampler.gate_requests():
            policy.sampler.gate_answer(request.task, passed=True, version=policy.version)
        for allocation in plan:
            spent[policy.rates[allocation.task]] += allocation.n
        play(policy.sampler, plan, lambda t, n: policy.rng.binomial(n, policy.rates[t]), version=policy.version)
        policy.version += 1
    assert spent[0.5] > 0.5 * spent.total()


def test_a_regression_on_easy_tasks_raises_an_alarm() -> None:
    policy = Policy([0.99] * 40 + [0.5] * 40, config=FrontierConfig(easy_share=0.1))
    policy.batches(40)
    easy = [task for task in policy.rates if policy.sampler.life(task) == "EASY"]
    assert len(easy) > 30
    assert not [event for event in policy.events if event.kind == "regression"]
    at = policy.version
    policy.rates |= dict.fromkeys(easy, 0.3)
    policy.batches(25)
    alarms = [event for event in policy.events if event.kind == "regression"]
    assert alarms
    back = [event for event in policy.events if event.before == "EASY" and event.version > at]
    assert back
    assert "regression" in back[0].reason
    assert back[0].after == "FRONTIER"


def test_out_of_reach_tasks_are_watched_with_growing_waits_and_return_at_the_first_pass() -> None:
    policy = Policy([0.0] * 8 + [0.5] * 72)
    policy.batches(60)
    poor = [task for task in policy.rates if policy.rates[task] == 0]
    watched = [task for task in poor if policy.sampler.life(task) == "MONITOR"]
    assert len(watched) >= 6
    policy.rates |= dict.fromkeys(watched, 0.9)
    policy.batches(80)
    assert all(policy.sampler.life(task) != "MONITOR" for task in watched)
    assert any("within reach" in event.reason for event in policy.events)


def test_coin_flips_are_doubted_and_the_gates_decide() -> None:
    """Half of the tasks rise with their cells, the others pay at random for ever."""
    policy = Policy([0.3] * 40 + [0.5] * 4)
    coins = [f"task-{k}" for k in range(40, 44)]
    broken_at: dict[str, int] = {}
    groups: Counter[str] = Counter()
    for _ in range(60):
        policy.move(0.04)
        policy.rates |= dict.fromkeys(coins, 0.5)
        plan = policy.sampler.plan(96, policy.version)
        groups.update(allocation.task for allocation in plan)
        play(policy.sampler, plan, lambda t, n: policy.rng.binomial(n, policy.rates[t]), version=policy.version)
        for request in policy.sampler.gate_requests():
            assert request.reason.endswith(".")
            policy.sampler.gate_answer(request.task, passed=request.task not in coins, version=policy.version)
            if request.task in coins:
                broken_at.setdefault(request.task, groups[request.task])
        policy.version += 1
    assert len(broken_at) >= 3
    assert max(broken_at.values()) <= 16
    assert all(groups[coin] < 16 for coin in coins if coin not in broken_at)
    assert policy.sampler.held() == dict.fromkeys(broken_at, "BROKEN")


def test_held_tasks_get_no_rollouts_and_wrongly_held_ones_come_back() -> None:
    config = FrontierConfig(recheck_after=5)
    sampler = FrontierSampler(pool(12), seed=0, config=config)
    version = 0
    while not sampler.held():
        play(sampler, sampler.plan(48, version), lambda task, n: n // 2, version=version)
        version += 1
        sampler.plan(0, version)
    task, state = next(iter(sampler.held().items()))
    assert state == "QUARANTINE"
    assert task in [request.task for request in sampler.gate_requests()]
    sampler.gate_answer(task, passed=False, version=version)
    assert sampler.held()[task] == "BROKEN"
    for _ in range(4):
        plan = sampler.plan(48, version)
        assert task not in {allocation.task for allocation in plan}
        play(sampler, plan, lambda task, n: n // 2, version=version)
        assert task not in [request.task for request in sampler.gate_requests()]
        version += 1
    version += 5
    sampler.plan(0, version)
    assert task in [request.task for request in sampler.gate_requests()], "the gates of a BROKEN task run again"
    sampler.gate_answer(task, passed=True, version=version)
    assert sampler.life(task) == "FRONTIER"
    reasons = [event.reason for event in sampler.take_events() if event.task == task]
    assert all(reason.count(".") >= 1 and reason[0].isupper() for reason in reasons)
    with pytest.raises(ValueError, match="nobody asked"):
        sampler.gate_answer(task, passed=True, version=version)


def doubted(config: FrontierConfig) -> tuple[FrontierSampler, str, int]:
    """A sampler with a task in QUARANTINE, and the version then."""
    sampler = FrontierSampler(pool(12), seed=0, config=config)
    version = 0
    while not sampler.held():
        play(sampler, sampler.plan(48, version), lambda task, n: n // 2, version=version)
        version += 1
        sampler.plan(0, version)
    return sampler, next(iter(sampler.held())), version


@pytest.mark.parametrize(("base", "passes_needed"), [((1.0, 25.0), 1), ((15.0, 25.0), 3)])
def test_where_broken_tasks_are_common_a_pass_must_be_confirmed(base: tuple[float, float], passes_needed: int) -> None:
    """After one failure of the gates: how many passes free the task, and each is asked for at once."""
    sampler, task, version = doubted(FrontierConfig(doubt_base=base, doubt_threshold=0.9))
    sampler.gate_answer(task, passed=False, version=version)
    assert sampler.held()[task] == "BROKEN"
    version += sampler.config.recheck_after
    sampler.plan(0, version)
    before = sampler.success(task)[1]
    for k in range(passes_needed):
        assert sampler.held()[task] == "BROKEN", f"freed after {k} passes"
        assert task in [request.task for request in sampler.gate_requests()]
        sampler.gate_answer(task, passed=True, version=version)
    assert sampler.life(task) == "FRONTIER"
    assert sampler.success(task)[1] < before, "what is known of it counts for less"
    for later in range(version, version + 3):
        play(sampler, sampler.plan(96, later), lambda task, n: n // 2, version=later)
    assert sampler.life(task) == "FRONTIER", "it must show more groups before it is doubted again"


def test_the_gates_of_broken_tasks_run_again_after_waits_that_double() -> None:
    sampler, task, version = doubted(FrontierConfig(recheck_after=4))
    asked = []
    for now in range(version, version + 70):
        sampler.plan(0, now)
        if task in [request.task for request in sampler.gate_requests()]:
            asked.append(now - version)
            sampler.gate_answer(task, passed=False, version=now)
    assert asked == [0, 4, 12, 28, 60]


def test_a_task_with_many_groups_has_its_check_looked_at_once() -> None:
    """A coin that happens to rise is neither improbable nor stagnant; without the audit nobody would ask."""
    asked = {}
    for groups in (12, 10_000):
        config = FrontierConfig(
            audit_groups=groups, stagnant_groups=10_000, stagnant_rollouts=10_000, doubt_threshold=1
        )
        sampler, asked[groups] = FrontierSampler(pool(1), seed=0, config=config), list[int]()
        for version in range(150):
            play(sampler, sampler.plan(8, version), lambda task, n: n // 2, version=version)
            for request in sampler.gate_requests():
                asked[groups].append(version)
                assert "worth a look" in request.reason
                sampler.gate_answer(request.task, passed=True, version=version)
    assert len(asked[12]) == 1
    assert not asked[10_000], "the negative control"


def test_a_retired_task_leaves_the_map_and_its_gates_need_no_answer() -> None:
    sampler, task, version = doubted(FrontierConfig())
    sampler.retire(task)
    assert sampler.life(task) == "RETIRED"
    assert task not in sampler.held()
    assert task not in [request.task for request in sampler.gate_requests()]
    sampler.gate_answer(task, passed=False, version=version)
    assert sampler.life(task) == "RETIRED"
    shown = frontier_map(sampler)
    assert task not in {row["task"] for row in shown["tasks"]}
    assert sum(shown["states"].values()) == sum(map(sum, shown["grid"])) == 11
    sampler.add([TaskInfo(task=task, cell="cell-0")])
    assert sampler.life(task) == "FRONTIER"
    reasons = [event.reason for event in sampler.take_events() if event.task == task]
    assert reasons[-2:] == ["It was taken out of the pool.", "It was put into the pool again."]


def test_without_quarantine_coin_flips_are_never_held() -> None:
    sampler = FrontierSampler(pool(6), seed=0, config=FrontierConfig(quarantine=False))
    for version in range(60):
        play(sampler, sampler.plan(48, version), lambda task, n: n // 2, version=version)
    assert sampler.held() == {}
    assert sampler.gate_requests() == []


def test_caps_spread_a_plan_over_cells_seed_states_and_templates() -> None:
    infos = [
        TaskInfo(task=f"t{k:03d}", cell=f"c{k % 20}", seed_state=f"s{k // 10}", template=f"r{k % 30}")
        for k in range(200)
    ]
    sampler = FrontierSampler(infos, seed=0)
    plan = sampler.plan(80, 0)
    by_task = {info.task: info for info in infos}
    states = Counter(by_task[a.task].seed_state for a in plan)
    templates = Counter(by_task[a.task].template for a in plan)
    cells = Counter(by_task[a.task].cell for a in plan)
    assert max(states.values()) == 1
    assert max(templates.values()) <= 2
    assert max(cells.values()) <= 1
    no_caps = FrontierConfig(seed_state_cap=99, template_cap=99, cell_cap=99)
    loose = FrontierSampler(infos, seed=0, config=no_caps).plan(80, 0)
    assert max(Counter(by_task[a.task].seed_state for a in loose).values()) > 1, "the caps did it"


def test_caps_hold_over_many_small_plans() -> None:
    """An online loop plans one group at a time, and a cap on one plan would cap nothing."""

    def shares(config: FrontierConfig) -> Counter[str]:
        infos = [
            TaskInfo(task=f"t{k:02d}", cell=f"c{k % 8}", template=f"c{k % 8}", turns=3.0 + 2 * (k % 8))
            for k in range(96)
        ]
        sampler, rng, cells = FrontierSampler(infos, seed=0, config=config), np.random.default_rng(0), Counter[str]()
        by_task = {info.task: info.cell for info in infos}
        for version in range(160):
            plan = sampler.plan(8, version // 8)
            assert len(plan) == 1
            cells[by_task[plan[0].task]] += 1
            play(sampler, plan, lambda _, n: rng.binomial(n, 0.5), version=version // 8)
        return cells

    sizes = FrontierConfig(group_sizes=(8,))
    capped = shares(sizes)
    assert max(capped.values()) <= 5 * 8, "five windows of 32 groups, twice an equal share of 4 in each"
    loose = shares(replace(sizes, cap_groups=1))
    assert max(loose.values()) > 40, "the caps did it: short tasks are cheap and take most"


def test_dear_tasks_come_later_and_measured_seconds_count() -> None:
    infos = [TaskInfo(task=f"t{k}", cell=f"c{k % 20}", turns=10) for k in range(40)]
    sampler = FrontierSampler(infos, seed=0)
    dear = {f"t{k}" for k in range(20)}
    count: Counter[bool] = Counter()
    for version in range(40):
        plan = sampler.plan(32, version)
        if version > 20:
            count.update(allocation.task in dear for allocation in plan)
        for allocation in plan:
            for k in range(allocation.n):
                one = outcome(allocation, k, "pass" if k % 2 else "fail", version=version)
                sampler.record(replace(one, seconds=100.0 if allocation.task in dear else 10.0))
    assert count[False] > 3 * count[True]


def test_a_wrong_guess_of_all_seconds_does_not_keep_untried_tasks_out() -> None:
    """Rollouts take a fiftieth of what was expected; what was tried must not look cheap beside what was not."""
    infos = [TaskInfo(task=f"t{k}", cell=f"c{k}", turns=75.0) for k in range(60)]
    sampler, tried = FrontierSampler(infos, seed=0), set()
    for version in range(20):
        plan = sampler.plan(64, version)
        tried |= {allocation.task for allocation in plan}
        play(sampler, plan, lambda task, n: n // 2, version=version)
    assert len(tried) == 60


def test_priors_come_from_the_cell_the_pilot_and_the_length() -> None:
    sampler = FrontierSampler([TaskInfo(task=f"t{k}", cell="easy" if k % 2 else "hard") for k in range(20)], seed=0)
    for version in range(12):
        play(sampler, sampler.plan(64, version), lambda task, n: n if int(task[1:]) % 2 else 0, version=version)
    sampler.plan(0, 12)
    sampler.add(
        [
            TaskInfo(task="new easy", cell="easy"),
            TaskInfo(task="new hard", cell="hard"),
            TaskInfo(task="new hard long", cell="hard", turns=60),
            TaskInfo(task="new hard piloted", cell="hard", pilot_passes=5, pilot_rollouts=5),
        ]
    )
    easy, hard, long, piloted = (
        sampler.success(f"new {name}")[0] for name in ("easy", "hard", "hard long", "hard piloted")
    )
    assert easy > 0.6 > 0.3 > hard > long
    assert piloted > hard + 0.1


def test_known_verifier_errors_are_taken_out() -> None:
    """A verifier that fails 15 % of good attempts hides that a task is mastered; knowing the rate shows it."""
    for config, expected in ((FrontierConfig(false_negative=0.15), "EASY"), (FrontierConfig(), "FRONTIER")):
        sampler = FrontierSampler(pool(1), seed=0, config=replace(config, quarantine=False))
        for version in range(30):
            play(sampler, sampler.plan(16, version), lambda task, n: n - (n * 2) // 16, version=version)
        assert sampler.life("task-0") == expected


def test_a_dry_frontier_asks_for_tasks() -> None:
    sampler = FrontierSampler(pool(200), seed=0)
    play(sampler, sampler.plan(64, 0), lambda task, n: n // 2)
    assert sampler.refill is None
    for version in range(1, 90):
        play(sampler, sampler.plan(128, version), lambda task, n: n, version=version)
    assert sampler.refill is not None
    assert "compose harder tasks" in sampler.refill


@pytest.mark.parametrize(
    "change",
    [
        {"group_sizes": (1, 4)},
        {"discount": 0.0},
        {"oldest_share": 0.0},
        {"false_positive": 0.6, "false_negative": 0.5},
        {"cell_cap": 0},
        {"gate_miss": 0.995},
    ],
)
def test_bad_settings_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|need"):
        replace(FrontierConfig(), **change)  # type: ignore[arg-type]
