"""The part of the quickstart that learns: what it stands on is opened, it runs, and its report is written."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.hubs import Backend, lender
from cli.output import MARKS, Output, age, facts
from cli.training_view import TrainingView
from cli.workspace import Workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evals.learning import LearningReport, LearningRun
    from trainer.quickstart_plan import QuickstartPlan

__all__ = ["learn"]


def learn(
    output: Output, work: Workspace, plan: QuickstartPlan, *, desktops: int, backend: Backend, fresh: bool
) -> tuple[dict[str, Any], list[RenderableType]]:
    """Run what is left of the plan; return what to tell programs and people.

    Args:
        fresh: begin a run of another name where there is one of this.
    """
    from evals.learning import build_learning_report, write_learning_report

    root = _root(work.home.runs / "train" / plan.run.name, fresh=fresh)
    run_config = plan.run.model_copy(update={"name": root.name, "desktops": desktops})
    plan = plan.model_copy(update={"run": run_config})
    begun = time.monotonic()
    with TrainingView(output.err) as view:
        run = asyncio.run(_run(output, work, plan, root, view, backend))
    took = time.monotonic() - begun
    report = build_learning_report(run, blobs=work.blobs)
    folder = work.home.reports / root.name
    folder.mkdir(parents=True, exist_ok=True)
    page = write_learning_report(report, folder)
    data = {
        "learning": root.name,
        "learning_report": page,
        "learning_seconds": round(took, 1),
        "success": _rates(run),
    }
    return data, _parts(report, page, root, took)


def _root(wanted: Path, *, fresh: bool) -> Path:
    """The newest run of this name, which may end in a number; where there is none, or it is to be fresh, a new one."""
    names = itertools.chain([wanted], (wanted.with_name(f"{wanted.name}-{number}") for number in itertools.count(2)))
    begun = list(itertools.takewhile(Path.exists, names))
    if begun and not fresh:
        return begun[-1]
    return wanted.with_name(f"{wanted.name}-{len(begun) + 1}") if begun else wanted


async def _run(
    output: Output, work: Workspace, plan: QuickstartPlan, root: Path, view: TrainingView, backend: Backend
) -> LearningRun:
    from cli.image import require_image
    from trainer.quickstart import Stage, run_quickstart
    from verigen.packs import load_packs
    from verigen.sets import read_sets

    image = await asyncio.to_thread(require_image, output, work.home, "light", backend)
    async with lender(work.home, desktops=plan.run.desktops, backend=backend) as hub:
        stage = Stage(
            hub=hub,
            image_digest=image.digest,
            store=work.trajectories,
            blobs=work.blobs,
            blobs_at=work.home.blobs,
            catalog=work.catalog,
            root=root,
            ledger=work.home.runs / "synth" / f"{root.name}.jsonl",
            packs=load_packs(),
            shipped=read_sets(),
        )
        return await run_quickstart(plan, stage, view.told())


def _rates(run: LearningRun) -> dict[str, float]:
    """Success rates by evaluation; those without a judged attempt are left out."""
    rates = {}
    for evaluation in run.evaluations:
        judged = [each.outcome == "pass" for each in evaluation.trajectories if each.outcome != "infra_error"]
        if judged:
            rates[evaluation.name] = round(sum(judged) / len(judged), 4)
    return rates


def _parts(report: LearningReport, page: Path, root: Path, took: float) -> list[RenderableType]:
    from evals.learning.words import headline

    return [
        "",
        f"{MARKS['ok']} {headline(report)}",
        "",
        facts(
            [
                ("took", age(took)),
                ("report", str(page)),
                ("policy", f"frontdesk eval {root.name}"),
                ("look", "frontdesk episodes list, then frontdesk episodes show ID --frames DIR"),
                ("try", "frontdesk desk open, then frontdesk desk do 'click 100 200'"),
            ]
        ),
    ]
