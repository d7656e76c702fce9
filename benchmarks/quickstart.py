"""Whether practice teaches: the quickstart with several seeds, beside controls that should gain less, or nothing.

Arms of each seed: the quickstart itself; the warm start continued for as much CPU time as practice took (`supervised`);
practice with rewards dealt out at random (`shuffled`). All are evaluated on the held-out tasks, greedily and sampled.
An hour for each seed on two cores; each arm goes on where it was interrupted. `--seeds N` says how many seeds.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.record import Bench, Result, ResultTable
from evals.learning import LearningRun
from evals.stats import mcnemar_exact
from sandbox.backends.local import LocalBackend
from sandbox.hub import Hub
from sandbox.image import ImageCache, build_image, load_profile
from store import BlobStore, Catalog, Home, TrajectoryStore
from trainer.engine_process import start_engine
from trainer.evaluate import policy_identity, policy_rollouts, run_all
from trainer.quickstart import (
    PAIRS,
    Stage,
    held_out_tasks,
    run_quickstart,
    training_tasks,
)
from trainer.quickstart_plan import QuickstartPlan, default_plan
from trainer.session import Session, read_format
from verigen.packs import load_packs
from verigen.sets import read_sets

__all__ = ["run"]

CONTROLS = ("shuffled", "supervised")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Machine:
    """What all arms stand on."""

    home: Home
    blobs: BlobStore
    catalog: Catalog
    store: TrajectoryStore
    image_digest: str

    def stage(self, hub: Hub, root: Path) -> Stage:
        return Stage(
            hub=hub,
            image_digest=self.image_digest,
            store=self.store,
            blobs=self.blobs,
            blobs_at=self.home.blobs,
            catalog=self.catalog,
            root=root,
            ledger=self.home.runs / "synth" / f"{root.name}.jsonl",
            packs=load_packs(),
            shipped=read_sets(),
        )

    def hub(self, capacity: int) -> Hub:
        return Hub(LocalBackend(ImageCache(self.home.images), self.home.run), capacity=capacity)


def run(bench: Bench) -> Result:
    """Run every arm of every seed."""
    home = Home(bench.home).ensure()
    image = ImageCache(home.images).find(load_profile("light")) or build_image(load_profile("light"), home.images)
    blobs = BlobStore(home.blobs)
    seeds = range(bench.seed, bench.seed + (bench.seeds or 3))
    arms: dict[int, dict[str, dict[str, float]]] = {}
    with Catalog.open(home.catalog_url) as catalog:
        machine = _Machine(
            home=home,
            blobs=blobs,
            catalog=catalog,
            store=TrajectoryStore(home.trajectories, blobs, catalog),
            image_digest=image.digest,
        )
        for seed in seeds:
            plan = _plan(seed)
            arms[seed] = {"practice": bench.arm(f"practice {seed}", partial(_practice, machine, plan))}
            for control in CONTROLS:
                arms[seed][control] = bench.arm(f"{control} {seed}", partial(_control, machine, plan, control))
    return Result(figures=_figures(arms), tables=[_table(arms)])


def _plan(seed: int) -> QuickstartPlan:
    plan = default_plan(seed)
    return plan.model_copy(update={"run": plan.run.model_copy(update={"name": f"bench-quickstart-{seed}"})})


def _root(machine: _Machine, plan: QuickstartPlan) -> Path:
    return machine.home.runs / "train" / plan.run.name


def _practice(machine: _Machine, plan: QuickstartPlan) -> dict[str, float]:
    return asyncio.run(_practise(machine, plan))


async def _practise(machine: _Machine, plan: QuickstartPlan) -> dict[str, float]:
    begun = time.monotonic()
    async with machine.hub(plan.run.desktops) as hub:
        found = await run_quickstart(plan, machine.stage(hub, _root(machine, plan)))
    warm, final = (_outcomes(found, name) for name in PAIRS[0])
    gates = found.synthesis.gates
    black = _outcomes(found, "after practice, black screens")
    turns = next(each.trajectories for each in found.evaluations if each.name == PAIRS[0][1])
    assert found.time is not None
    return {
        "warm": _rate(warm),
        "final": _rate(final),
        "warm_sampled": _rate(_outcomes(found, PAIRS[1][0])),
        "final_sampled": _rate(_outcomes(found, PAIRS[1][1])),
        "gained": sum(final[task] and not warm[task] for task in warm.keys() & final.keys()),
        "lost": sum(warm[task] and not final[task] for task in warm.keys() & final.keys()),
        "black": _rate(black),
        "multi_segment_share": sum(len(each.turns) > plan.run.harness.window for each in turns) / len(turns),
        "tasks_admitted": gates[-1].passed if gates else 0,
        "tasks_reproved": found.synthesis.still_pass,
        "episodes": found.training[-1].episodes if found.training else 0,
        "practice_s": found.time.practice_s,
        "loop_s": time.monotonic() - begun,
    }


def _control(machine: _Machine, plan: QuickstartPlan, control: str) -> dict[str, float]:
    return asyncio.run(_run_control(machine, plan, control))


async def _run_control(machine: _Machine, plan: QuickstartPlan, control: str) -> dict[str, float]:
    root = _root(machine, plan)
    config, shipped = plan.run, read_sets()
    async with machine.hub(config.desktops) as hub:
        stage = machine.stage(hub, root)
        warm = await _session(stage, plan).warm_start()
        if control == "supervised":
            metrics = (root / "metrics.jsonl").read_text("utf-8").splitlines()
            practice_s = json.loads(metrics[-1])["seconds"]
            # All that the machine's cores could do in that time, which is more than practice used.
            cpu_s = practice_s * len(os.sched_getaffinity(0))
            last = await _session(stage, plan).imitate_further(root / "further", cpu_s=cpu_s)
        else:
            practised = config.model_copy(update={"name": f"{config.name}-shuffled", "policy": str(warm)})
            other = plan.model_copy(update={"run": practised})
            last = await _session(machine.stage(hub, _root(machine, other)), other, shuffle=True).run()
        held_out = held_out_tasks(shipped, plan)
        engine = await start_engine(last)
        try:
            rates = {}
            for greedy in (True, False):
                rollouts = policy_rollouts(
                    held_out,
                    engine,
                    read_format(last),
                    config.harness,
                    label=f"{control}, {'greedy' if greedy else 'sampled'}",
                    identity=policy_identity(last),
                    greedy=greedy,
                    seed=config.seed,
                )
                found = await run_all(rollouts, hub, machine.store, machine.blobs, limit=config.desktops)
                judged = [each.outcome == "pass" for each in found if each.outcome != "infra_error"]
                rates["final" if greedy else "final_sampled"] = sum(judged) / len(judged)
            return rates
        finally:
            await engine.close()


def _session(stage: Stage, plan: QuickstartPlan, *, shuffle: bool = False) -> Session:
    return Session(
        config=plan.run,
        tasks=training_tasks(stage.shipped, plan),
        root=stage.root,
        hub=stage.hub,
        store=stage.store,
        blobs=stage.blobs,
        blobs_at=stage.blobs_at,
        packs=stage.packs,
        shuffle=shuffle,
    )


def _outcomes(found: LearningRun, name: str) -> dict[str, bool]:
    """Task -> whether it was passed; tasks without a judged attempt are left out."""
    evaluation = next(each for each in found.evaluations if each.name == name)
    return {each.task_id: each.outcome == "pass" for each in evaluation.trajectories if each.outcome != "infra_error"}


def _rate(outcomes: Mapping[str, bool]) -> float:
    return sum(outcomes.values()) / max(1, len(outcomes))


def _figures(arms: Mapping[int, Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    practice = [arm["practice"] for arm in arms.values()]
    mean = {name: sum(arm[name] for arm in practice) / len(practice) for name in practice[0]}
    gains = [arm["final"] - arm["warm"] for arm in practice]
    control = {
        name: sum(arm[name]["final"] - arm["practice"]["warm"] for arm in arms.values()) / len(arms)
        for name in CONTROLS
    }
    gained, lost = (int(sum(arm[name] for arm in practice)) for name in ("gained", "lost"))
    figures = {
        "seeds": len(arms),
        "heldout_warm": mean["warm"],
        "heldout_final": mean["final"],
        "heldout_warm_sampled": mean["warm_sampled"],
        "heldout_final_sampled": mean["final_sampled"],
        "paired_p": mcnemar_exact(gained, lost),
        "gain_min_over_seeds": min(gains),
        "sft_control_gain": control["supervised"],
        "shuffled_gain": control["shuffled"],
        "blind_final": mean["black"],
        "multi_segment_share": mean["multi_segment_share"],
        "tasks_admitted": mean["tasks_admitted"],
        "tasks_reproved": mean["tasks_reproved"],
        "episodes": mean["episodes"],
        "practice_s": mean["practice_s"],
        "loop_s": mean["loop_s"],
        "shipped": len(read_sets()),
    }
    return {name: round(value, 6 if name == "paired_p" else 3) for name, value in figures.items()}


def _table(arms: Mapping[int, Mapping[str, Mapping[str, float]]]) -> ResultTable:
    rows: list[tuple[str | float, ...]] = [
        (
            str(seed),
            *(round(arm["practice"][name], 3) for name in ("warm", "final", "warm_sampled", "final_sampled")),
            round(arm["supervised"]["final"], 3),
            round(arm["shuffled"]["final"], 3),
            round(arm["practice"]["black"], 3),
            arm["practice"]["episodes"],
        )
        for seed, arm in arms.items()
    ]
    return ResultTable(
        title="Held-out success of each seed; greedy unless it says sampled",
        columns=(
            "seed",
            "warm start",
            "after practice",
            "warm start, sampled",
            "after practice, sampled",
            "supervised instead",
            "shuffled rewards",
            "black screens",
            "episodes of practice",
        ),
        rows=tuple(rows),
    )
