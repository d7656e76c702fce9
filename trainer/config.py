"""A run file: what is trained, on what, and for how long. TOML, read by `agent.config.load_toml`."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.engines.qwen3vl.settings import TinySize
from agent.harness import Harness, Limits, Sampling, SettleRule
from trainer.learner import LearnerSettings
from verigen.task import Task

__all__ = ["Practice", "RunConfig", "TaskChoice", "WarmStart", "small_harness"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskChoice(_Frozen):
    """Which tasks are practised. Held-out tasks never are."""

    split: Literal["train", "validation"] = "train"
    apps: tuple[str, ...] = ()
    """Only tasks that use nothing else; empty allows all."""
    templates: tuple[str, ...] = ()
    """Only tasks that were made from these templates of the skill packs, `*` allowed; empty allows all."""
    limit: int | None = Field(default=None, ge=1)
    """The first so many, in the order of their ids."""

    def allows(self, task: Task) -> bool:
        """Whether a task may be chosen, its split and the limit aside."""
        by_app = not self.apps or set(task.apps) <= set(self.apps)
        return by_app and self.allows_template(str(task.tags.get("template", "")))

    def allows_template(self, name: str) -> bool:
        """Whether tasks of a template may be chosen."""
        return not self.templates or any(fnmatch(name, each) for each in self.templates)


class WarmStart(_Frozen):
    """Learning from plans and demonstrations, before practice.

    It ends after `updates`, or earlier once the mean loss of a demonstrated token has been below `enough` over a
    hundred updates. Nothing else ends it, so practice starts from all that the demonstrations gave in that time.
    """

    plans: int = Field(default=3000, ge=0)
    """Solutions drawn from the skill packs that are read as text; they cost no desktop."""
    reading: int = Field(default=500, ge=0)
    """Updates from plans alone, before those from demonstrations."""

    demonstrations: int = Field(default=240, ge=1)
    """Attempts of the tasks' own solutions; tasks take turns. Those that do not pass are left out."""
    draws: int = Field(default=0, ge=0)
    """Further start states drawn from the skill packs for demonstrations alone; their solution must pass its check."""
    templates: tuple[str, ...] = ()
    """Only tasks that were made from these templates of the skill packs are demonstrated, `*` allowed; empty
    demonstrates all that are practised. Plans are read of all that are practised either way."""
    updates: int = Field(default=1500, ge=1)
    """From demonstrations."""
    enough: float = Field(default=0.05, ge=0)
    """Nats per demonstrated token."""
    batch: int = Field(default=4, ge=1)
    """Demonstrated segments in an update."""
    pointing: int = Field(default=2, ge=0)
    """Exercises in pointing in an update."""
    reminders: int = Field(default=6, ge=0)
    """Plans in an update."""
    size: TinySize = TinySize()
    """Of the policy that is built."""
    learner: LearnerSettings = LearnerSettings(lr=1.5e-3, warmup_steps=20, final_lr=0.05)
    """Without `decay_steps` the learning rate falls until the last update."""


class Practice(_Frozen):
    """Online reinforcement."""

    updates: int = Field(default=40, ge=0)
    minutes: float | None = Field(default=None, gt=0)
    """End after so long, interruptions not counted; whichever comes first."""
    sampler: Literal["frontier", "uniform"] = "frontier"
    group_size: int = Field(default=8, ge=2)
    """Attempts of one task that are compared with each other."""
    groups_per_update: int = Field(default=4, ge=1)
    max_staleness: int = Field(default=2, ge=0)
    """Updates that the weights may have moved since a token was sampled."""
    rehearsal: int = Field(default=0, ge=0)
    """Updates from demonstrations after each update from attempts, so that practising some tasks unlearns no others."""
    partial_credit: float = Field(default=0.5, ge=0, lt=1)
    """Reward for all of a task's milestones without a pass; tasks without milestones give none."""
    clip_low: float = Field(default=0.2, gt=0)
    clip_high: float = Field(default=0.28, gt=0)
    checkpoint_every: int = Field(default=5, ge=1)
    """Updates."""
    max_flat_groups: int = Field(default=200, ge=1)
    """Groups in a row that may teach nothing before the run ends in failure: all is solved, or nothing can be."""
    learner: LearnerSettings = LearnerSettings(lr=1e-4)


def small_harness() -> Harness:
    """The recipe around a small policy on small screens: three screenshots, short waits, short replies."""
    return Harness(
        name="small",
        window=3,
        delta=2,
        limits=Limits(max_tokens=24),
        sampling=Sampling(temperature=0.6),
        settle=SettleRule(first_ms=60, quiet_ms=30, cap_ms=600),
    )


class RunConfig(_Frozen):
    """One training run."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")
    seed: int = 0
    desktops: int = Field(default=4, ge=1)
    """At once."""
    policy: str | None = None
    """Directory of a policy to start from, instead of a warm start."""
    deterministic: bool = False
    """One attempt after another, each update from exactly the groups planned for it, and metrics without times. On
    desktops that answer alike (recorded ones) two runs make the same weights to the bit, killed or not."""
    tasks: TaskChoice = TaskChoice()
    harness: Harness = Field(default_factory=small_harness)
    warm_start: WarmStart = WarmStart()
    practice: Practice = Practice()

    @model_validator(mode="after")
    def _ends_by_updates(self) -> RunConfig:
        if self.deterministic and self.practice.minutes is not None:
            raise ValueError("a deterministic run cannot end by the clock: leave out practice.minutes")
        return self
