"""Which sampler makes simulated learners learn most from equal budgets, with and without broken tasks.

Each sampler is tuned on development seeds, then compared on reported seeds that nothing was tuned on. Every learner
family, noise level and seed is one world that all samplers meet. The priors are in frontier/priors.py.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import Bench, Result, ResultTable
from evals.stats import sign_flip_test
from frontier import (
    BandSampler,
    EmaGaussianConfig,
    EmaGaussianSampler,
    FrontierConfig,
    FrontierSampler,
    RolloutOutcome,
    Sampler,
    TaskInfo,
    UniformSampler,
)
from frontier.oracle import OracleSampler
from frontier.priors import DEVELOPMENT_SEEDS, FAMILIES, REPORTED_SEEDS
from frontier.simulate import SimulationResult, simulate

PARTS_ON = ("norm", "forgetful", "hard", "jumpy")
"""Families on which ours is run without a part."""
LEVELS = {"noise5": 0.05, "clean": 0.0, "noise10": 0.10, "noise1": 0.01}
"""Share of coin-flip tasks."""
ORACLE_LEVELS = ("noise5", "clean")
"""Where the bound is measured: what a sampler that need not find anything out would reach."""
BASELINES = ("uniform", "band", "ema_gaussian")
TUNING_SEEDS = DEVELOPMENT_SEEDS[4:5]
TUNING_LEVELS = (0.0, 0.05)
SIZES = (4, 8, 16)
UNIFORM_SIZES = (4, 6, 8, 10, 12, 16, 24)
"""Uniform has one knob; it gets as many settings of it as the others have of theirs."""
BY_ROLLOUTS = FrontierConfig(cost_power=0.0)
"""The budget here is in rollouts, so seconds must not count."""

Maker = Callable[[int, list[TaskInfo]], Sampler]


def _uniform(n: int, seed: int, infos: list[TaskInfo]) -> Sampler:
    return UniformSampler([info.task for info in infos], seed=seed, group_size=n)


def _band(n: int, low: float, cooldown: int, seed: int, infos: list[TaskInfo]) -> Sampler:
    return BandSampler(infos, seed=seed, group_size=n, low=low, high=1 - low, cooldown=cooldown)


def _ema(config: EmaGaussianConfig, seed: int, infos: list[TaskInfo]) -> Sampler:
    return EmaGaussianSampler(infos, seed=seed, config=config)


def _frontier(config: FrontierConfig, seed: int, infos: list[TaskInfo]) -> Sampler:
    return FrontierSampler(infos, seed=seed, config=config)


def _oracle(seed: int, infos: list[TaskInfo]) -> Sampler:
    return OracleSampler(infos, seed=seed, config=BY_ROLLOUTS)


def _candidates() -> dict[str, dict[str, Maker]]:
    """What each sampler is tuned over."""
    ema = {
        f"n={n} gamma={gamma}, no sweep": EmaGaussianConfig(group_size=n, gamma=gamma, initial_sweep=False)
        for n in SIZES
        for gamma in (0.2, 0.4)
    }
    ours = {
        "default": BY_ROLLOUTS,
        "size_power=0.65": replace(BY_ROLLOUTS, size_power=0.65),
        "draw_sharpness=3": replace(BY_ROLLOUTS, draw_sharpness=3.0),
        "draw_sharpness=10": replace(BY_ROLLOUTS, draw_sharpness=10.0),
        "rest=0": replace(BY_ROLLOUTS, rest=0),
        "doubt_threshold=0.15": replace(BY_ROLLOUTS, doubt_threshold=0.15),
        "audit_groups=14": replace(BY_ROLLOUTS, audit_groups=14),
    }
    band: dict[str, Maker] = {
        f"n={n} cooldown={cooldown}": partial(_band, n, 0.0, cooldown) for n in SIZES for cooldown in (10, 30)
    }
    return {
        "uniform": {f"n={n}": partial(_uniform, n) for n in UNIFORM_SIZES},
        "band": band | {"n=8 band=(0.1, 0.9) cooldown=20": partial(_band, 8, 0.1, 20)},
        "ema_gaussian": {
            "the paper's": partial(_ema, EmaGaussianConfig()),
            **{name: partial(_ema, config) for name, config in ema.items()},
        },
        "frontier": {name: partial(_frontier, config) for name, config in ours.items()},
    }


def run(bench: Bench) -> Result:
    """Tune, compare, take parts away, and measure plans over 100 000 tasks."""
    chosen: dict[str, Maker] = {}
    tuning_rows = []
    for sampler, options in _candidates().items():
        scores = bench.arm(f"tune {sampler}", partial(_tune, options, bench.seed))
        best = max(options, key=lambda name: scores[name])
        chosen[sampler] = options[best]
        tuning_rows += [(sampler, name, scores[name], "chosen" if name == best else "") for name in options]
    runs: dict[tuple[str, str, str], dict[str, float]] = {}
    for level, share in LEVELS.items():
        for family in FAMILIES:
            for sampler, maker in chosen.items():
                runs[level, family, sampler] = bench.arm(
                    f"{level} {family} {sampler}", partial(_measure, maker, family, share, bench.seed)
                )
    for level in ORACLE_LEVELS:
        for family in FAMILIES:
            runs[level, family, "oracle"] = bench.arm(
                f"{level} {family} oracle", partial(_measure, _oracle, family, LEVELS[level], bench.seed)
            )
    without = {
        "no quarantine": ("noise10", partial(_frontier, replace(BY_ROLLOUTS, quarantine=False))),
        "no drift": ("clean", partial(_frontier, replace(BY_ROLLOUTS, drift=False))),
        "by seconds": ("noise5", partial(_frontier, FrontierConfig())),
    }
    for name, (level, maker) in without.items():
        for family in PARTS_ON:
            runs[level, family, name] = bench.arm(
                f"{level} {family} {name}", partial(_measure, maker, family, LEVELS[level], bench.seed)
            )
    scale = {size: bench.arm(f"plan {size} tasks", partial(_plan_cost, size)) for size in (25_000, 50_000, 100_000)}
    figures, tables = _summary(runs)
    figures |= {"plan_ms_100k": scale[100_000]["ms"], "memory_mb_100k": scale[100_000]["memory_mb"]}
    tuning = ResultTable(
        title=f"Tuning on development seeds {TUNING_SEEDS}: mean AUC over families, clean and noise5",
        columns=("sampler", "setting", "AUC", ""),
        rows=tuple(tuning_rows),
    )
    cost = ResultTable(
        title="Plan and record of a batch of 64 groups",
        columns=("tasks", "wall ms", "CPU ms", "memory MB"),
        rows=tuple((str(size), row["ms"], row["cpu_ms"], row["memory_mb"]) for size, row in scale.items()),
    )
    return Result(figures=figures, tables=(*tables, tuning, cost))


def _tune(options: Mapping[str, Maker], offset: int) -> dict[str, float]:
    return {
        name: round(
            float(
                np.mean(
                    [
                        simulate(partial(maker, seed + offset), family, seed, coin_share=share).auc
                        for family in FAMILIES
                        for share in TUNING_LEVELS
                        for seed in TUNING_SEEDS
                    ]
                )
            ),
            5,
        )
        for name, maker in options.items()
    }


def _measure(maker: Maker, family: str, share: float, offset: int) -> dict[str, float]:
    """One arm: all reported seeds, what is kept of each, and the mean curves."""
    results = [simulate(partial(maker, seed + offset), family, seed, coin_share=share) for seed in REPORTED_SEEDS]
    kept = {f"auc {seed}": round(result.auc, 5) for seed, result in zip(REPORTED_SEEDS, results, strict=True)}
    for name in ("coin_share", "live_share", "gate_share", "good_held_share", "final"):
        kept[name] = float(np.mean([getattr(result, name) for result in results]))
    for name in ("broken_found", "broken_due", "good_broken", "good_returned"):
        kept[name] = float(sum(getattr(result, name) for result in results))
    kept |= _curve("held", results, lambda result: result.held_out)
    kept |= _curve("seconds", results, lambda result: result.seconds)
    return kept


def _curve(
    name: str, results: Sequence[SimulationResult], read: Callable[[SimulationResult], NDArray[np.float64]]
) -> dict[str, float]:
    mean = np.mean([read(result) for result in results], axis=0)
    return {f"{name} {k}": round(float(value), 5) for k, value in enumerate(mean)}


def _read(arm: Mapping[str, float], name: str) -> NDArray[np.float64]:
    """A curve, or the values per seed, of an arm."""
    return np.array([value for key, value in arm.items() if key.startswith(f"{name} ")])


def _summary(runs: Mapping[tuple[str, str, str], dict[str, float]]) -> tuple[dict[str, float], list[ResultTable]]:
    figures: dict[str, float] = {"families": len(FAMILIES), "seeds": len(REPORTED_SEEDS)}
    rows: list[tuple[str | float, ...]] = []
    part_rows: list[tuple[str | float, ...]] = []
    for level in ("clean", "noise1", "noise5", "noise10"):
        wins = dict.fromkeys((*BASELINES, "best"), 0)
        ratios = []
        for family in FAMILIES:
            auc = {name: _read(runs[level, family, name], "auc") for name in (*BASELINES, "frontier")}
            best = max(BASELINES, key=lambda name: float(auc[name].mean()))
            p = {name: sign_flip_test([float(d) for d in auc["frontier"] - auc[name]]) for name in BASELINES}
            won = {name: bool(auc["frontier"].mean() > auc[name].mean() and p[name] < 0.05) for name in BASELINES}
            for name in BASELINES:
                wins[name] += won[name]
            wins["best"] += won[best]
            ratio = _to_80(runs, level, family, "frontier")
            ratios.append(ratio)
            means = [round(float(auc[name].mean()), 4) for name in (*BASELINES, "frontier")]
            verdict = "won" if won[best] else "lost" if p[best] < 0.05 else "even"
            rows.append((f"{level} {family}", *means, best, round(p[best], 4), verdict, round(ratio, 3)))
        for name in (*BASELINES, "frontier"):
            over = [float(_read(runs[level, family, name], "auc").mean()) for family in FAMILIES]
            figures[f"auc_{name}_{level}"] = round(float(np.mean(over)), 4)
        figures[f"families_won_{level}"] = wins["best"]
        figures |= {f"families_won_{level}_{name}": wins[name] for name in BASELINES}
        figures[f"rollouts_to_80_ratio_{level}"] = round(float(np.exp(np.mean(np.log(ratios)))), 3)
    for level in ORACLE_LEVELS:
        bound = [_to_80(runs, level, family, "oracle") for family in FAMILIES]
        over = [float(_read(runs[level, family, "oracle"], "auc").mean()) for family in FAMILIES]
        figures[f"auc_oracle_{level}"] = round(float(np.mean(over)), 4)
        figures[f"rollouts_to_80_ratio_{level}_oracle"] = round(float(np.exp(np.mean(np.log(bound)))), 3)
    for level in ("noise1", "noise5", "noise10"):
        arms = [runs[level, family, "frontier"] for family in FAMILIES]
        figures[f"broken_recall_{level}"] = round(_total(arms, "broken_found") / max(1, _total(arms, "broken_due")), 4)
    noisy = [runs[level, family, "frontier"] for level in LEVELS if level != "clean" for family in FAMILIES]
    ours = [runs[level, family, "frontier"] for level in LEVELS for family in FAMILIES]
    figures["broken_recall"] = round(_total(noisy, "broken_found") / max(1, _total(noisy, "broken_due")), 4)
    figures["good_held_share"] = round(float(np.mean([arm["good_held_share"] for arm in ours])), 5)
    figures["good_returned_share"] = round(_total(ours, "good_returned") / max(1, _total(ours, "good_broken")), 3)
    figures["gate_share"] = round(float(np.mean([arm["gate_share"] for arm in ours])), 4)
    for name, level in (("no quarantine", "noise10"), ("no drift", "clean")):
        gain = []
        for family in PARTS_ON:
            whole, part = runs[level, family, "frontier"], runs[level, family, name]
            difference = _read(whole, "auc") - _read(part, "auc")
            gain.append(float(difference.mean()))
            p_value = sign_flip_test([float(d) for d in difference])
            coins = (round(whole["coin_share"], 3), round(part["coin_share"], 3))
            part_rows.append((f"{name}, {level} {family}", round(gain[-1], 4), round(p_value, 4), *coins))
        figures[f"auc_lost_with_{name.replace(' ', '_')}"] = round(float(np.mean(gain)), 4)
    tables = [
        ResultTable(
            title="Held-out AUC by family; against the best baseline: sign-flip p, and rollouts to 80 % of its final",
            columns=("world", *BASELINES, "frontier", "best baseline", "p", "", "to 80 %"),
            rows=tuple(rows),
        ),
        ResultTable(
            title="Ours minus ours without a part",
            columns=("without", "AUC", "p", "coin share", "without it"),
            rows=tuple(part_rows),
        ),
        _by_seconds(runs),
        _spending(runs),
    ]
    return figures, tables


def _total(arms: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(arm[name] for arm in arms)


def _to_80(runs: Mapping[tuple[str, str, str], Mapping[str, float]], level: str, family: str, sampler: str) -> float:
    """Rollouts until 80 % of the best baseline's final success: a sampler's over those of the quickest baseline.

    On curves averaged over seeds. A curve that never gets there counts as the whole budget.
    """
    curves = {name: _read(runs[level, family, name], "held") for name in (*BASELINES, sampler)}
    target = 0.8 * max(curves[name][-1] for name in BASELINES)
    reached = {name: _first_crossing(curve, float(target)) for name, curve in curves.items()}
    return max(reached[sampler], 1.0) / max(min(reached[name] for name in BASELINES), 1.0)


def _first_crossing(curve: NDArray[np.float64], level: float) -> float:
    above = np.flatnonzero(curve >= level)
    if not above.size:
        return float(curve.size - 1)
    k = int(above[0])
    if k == 0:
        return 0.0
    return k - 1 + (level - float(curve[k - 1])) / (float(curve[k]) - float(curve[k - 1]))


def _by_seconds(runs: Mapping[tuple[str, str, str], Mapping[str, float]]) -> ResultTable:
    """The same with the budget in desktop seconds, where ours may weigh by cost."""
    rows: list[tuple[str | float, ...]] = []
    names = (*BASELINES, "frontier", "by seconds")
    for family in PARTS_ON:
        arms = {name: runs["noise5", family, name] for name in names}
        limit = min(float(_read(arm, "seconds")[-1]) for arm in arms.values())
        grid = np.linspace(0, limit, 201)
        area = [float(np.interp(grid, _read(arm, "seconds"), _read(arm, "held")).mean()) for arm in arms.values()]
        rows.append((family, *[round(value, 4) for value in area]))
    return ResultTable(
        title="noise5, AUC over equal desktop seconds (the last one with cost_power 1)",
        columns=("family", *names),
        rows=tuple(rows),
    )


def _spending(runs: Mapping[tuple[str, str, str], Mapping[str, float]]) -> ResultTable:
    rows = []
    for level in ("clean", "noise1", "noise5", "noise10"):
        for name in (*BASELINES, "frontier"):
            arms = [runs[level, family, name] for family in FAMILIES]
            mean = {key: round(float(np.mean([arm[key] for arm in arms])), 4) for key in arms[0] if "share" in key}
            found, due = _total(arms, "broken_found"), _total(arms, "broken_due")
            held = (mean["good_held_share"], _total(arms, "good_broken"), _total(arms, "good_returned"))
            rows.append(
                (f"{level} {name}", mean["live_share"], mean["coin_share"], mean["gate_share"], found, due, *held)
            )
    return ResultTable(
        title="Where the rollouts went, and what was held",
        columns=("sampler", "live", "coin", "gates", "found", "due", "good held", "good BROKEN", "returned"),
        rows=tuple(rows),
    )


def _plan_cost(size: int) -> dict[str, float]:
    """Median wall and CPU time of plan + record for 64 groups, and the peak memory of the sampler with its tasks."""
    tracemalloc.start()
    traced = _big_sampler(size)
    traced.plan(64 * 8, 0)
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    del traced
    sampler = _big_sampler(size)
    rng = np.random.default_rng(0)
    wall, cpu = [], []
    for version in range(20):
        begun, used = time.perf_counter(), time.process_time()
        plan = sampler.plan(64 * 8, version)
        spent, busy = time.perf_counter() - begun, time.process_time() - used
        passed = {group.group_id: rng.random(group.n) < rng.random() for group in plan}
        outcomes = [
            RolloutOutcome(
                rollout_id=f"{group.group_id}/{k}",
                group_id=group.group_id,
                task=group.task,
                version=version,
                verdict="pass" if good else "fail",
                reward=float(good),
                seconds=30.0,
            )
            for group in plan
            for k, good in enumerate(passed[group.group_id])
        ]
        begun, used = time.perf_counter(), time.process_time()
        for outcome in outcomes:
            sampler.record(outcome)
        wall.append(1000 * (spent + time.perf_counter() - begun))
        cpu.append(1000 * (busy + time.process_time() - used))
    return {
        "ms": round(float(np.median(wall)), 2),
        "cpu_ms": round(float(np.median(cpu)), 2),
        "memory_mb": round(memory, 1),
    }


def _big_sampler(size: int) -> FrontierSampler:
    infos = [
        TaskInfo(task=f"{k:064x}", cell=f"cell-{k % 400}", seed_state=f"state-{k // 2}", template=f"t-{k // 5}")
        for k in range(size)
    ]
    return FrontierSampler(infos, seed=0)
