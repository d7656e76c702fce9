"""What the quickstart does, and how much of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from trainer.config import Practice, RunConfig, TaskChoice, WarmStart
from trainer.learner import LearnerSettings
from verigen.ship import PRACTISED

__all__ = ["DEMONSTRATED", "QuickstartPlan", "default_plan", "notes"]

DEMONSTRATED = (
    "galculator/*",
    "mousepad/switch",
    "mousepad/tab-size",
    "ristretto/switch",
    "ristretto/delete",
    "thunar/delete",
)
"""Of the templates that are practised, those that the warm start is shown. Two things in order, looking before acting,
and refusing in another application than the one where it was shown are left to practice."""


class QuickstartPlan(BaseModel):
    """What is done, and how much of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunConfig
    new_tasks: int = Field(default=30, ge=0)
    """Made and proven by this run, for practice."""
    proven_again: int = Field(default=10, ge=0)
    """Shipped training tasks whose gates are run again on this machine."""
    held_out: int | None = Field(default=None, ge=1)
    """The first so many held-out tasks, by id; None takes all."""


def default_plan(seed: int = 0) -> QuickstartPlan:
    """The plan of the quickstart: not quite twenty minutes on two cores."""
    run = RunConfig(
        name=f"quickstart-{seed}" if seed else "quickstart",
        seed=seed,
        desktops=8,
        # Few templates, so that minutes of practice meet each often.
        tasks=TaskChoice(templates=PRACTISED),
        # Practice tasks are not demonstrated: those that were shown would all be passed, and teach nothing.
        warm_start=WarmStart(templates=DEMONSTRATED, demonstrations=1, draws=300, reading=400, updates=1500),
        practice=Practice(updates=1000, minutes=7.0, rehearsal=5, learner=LearnerSettings(lr=2e-4)),
    )
    return QuickstartPlan(run=run)


def notes(plan: QuickstartPlan, *, num_train: int, num_made: int) -> tuple[str, ...]:
    """What a reader of the report must know of how it came about."""
    run = plan.run
    warm, practice = run.warm_start, run.practice
    limit = f"{practice.minutes:g} minutes" if practice.minutes else f"{practice.updates} updates"
    return (
        f"One seed ({run.seed}); another seed gives another result. The benchmark named quickstart runs several, with "
        "controls.",
        f"Warm start: {warm.reading} updates from plans, then {warm.updates} from {warm.demonstrations + warm.draws} "
        f"demonstrations of {', '.join(warm.templates) or 'all that is practised'}.",
        f"Practice: {limit} on {num_train} shipped and {num_made} new tasks, groups of {practice.group_size}, "
        f"{practice.groups_per_update} to an update; after each, {practice.rehearsal} updates from demonstrations.",
        f"At most {run.harness.window} screenshots are visible at once, {run.harness.delta} are dropped together; "
        f"sampling temperature {run.harness.sampling.temperature:g}.",
    )
