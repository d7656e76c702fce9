"""The sampler of a run: which one it is, and ours in the catalog, its state after each batch and its history.

State and events are written together, so a killed run continues from a state whose events are all in the history, and
none of them twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from frontier import FrontierConfig, FrontierSampler, Sampler, TaskInfo, UniformSampler

if TYPE_CHECKING:
    from store import BundleRow, Catalog, OutcomeCount
    from trainer.config import Practice
    from trainer.tasks import TrainingTask

__all__ = ["keep_sampler", "load_sampler", "make_sampler", "sampler_of_outcomes", "task_info"]


def make_sampler(practice: Practice, tasks: Iterable[TrainingTask], *, seed: int) -> Sampler:
    """The sampler that the run file names."""
    infos = [task.info() for task in sorted(tasks, key=lambda task: task.id)]
    if practice.sampler == "uniform":
        return UniformSampler([info.task for info in infos], seed=seed, group_size=practice.group_size)
    return FrontierSampler(infos, seed=seed, config=FrontierConfig(group_sizes=(practice.group_size,)))


def keep_sampler(catalog: Catalog, name: str, sampler: FrontierSampler, *, seen: int | None = None) -> int:
    """Write the sampler's state, and what happened since it was last kept.

    Args:
        name: the run's id.
        seen: what the last call returned; None to write whatever is there.

    Returns:
        The number of this write.

    Raises:
        CatalogError: another process has written under this name.
    """
    from store import SamplerEventRow

    rows = [
        SamplerEventRow(sampler=name, task_id=fields.pop("task"), **fields)
        for fields in map(asdict, sampler.take_events())
    ]
    return catalog.put_sampler(name, sampler.state(), rows, seen=seen)


def load_sampler(catalog: Catalog, name: str) -> tuple[FrontierSampler, int]:
    """The sampler that was kept under this name, and the number of its last write.

    Raises:
        NotFound: none was.
        ValueError: it is of another kind, which has no map.
    """
    row = catalog.sampler(name)
    return FrontierSampler.from_state(row.state), row.version


def task_info(bundle: BundleRow, *, pilot_passes: int = 0, pilot_rollouts: int = 0) -> TaskInfo:
    """What a sampler is told of a bundle: its cell is its first app and its first skill."""
    task = bundle.document.get("task", {})
    limits = task.get("limits", {})
    # Half of the limit is the guess until rollouts have shown what the task takes.
    return TaskInfo(
        task=bundle.id,
        cell=f"{next(iter(bundle.apps), '')} {next(iter(bundle.skills), '')}".strip(),
        turns=max(1.0, limits.get("max_steps", 30) / 2),
        pilot_passes=pilot_passes,
        pilot_rollouts=pilot_rollouts,
    )


def sampler_of_outcomes(bundles: Iterable[BundleRow], outcomes: Iterable[OutcomeCount], actor: str) -> FrontierSampler:
    """A sampler that knows of each task what one actor's recorded episodes tell."""
    counts = {count.task_id: count for count in outcomes if count.actor == actor}
    infos = []
    for bundle in bundles:
        count = counts.get(bundle.id)
        passes, graded = (count.num_pass, count.num_pass + count.num_fail) if count else (0, 0)
        infos.append(task_info(bundle, pilot_passes=passes, pilot_rollouts=graded))
    return FrontierSampler(infos, seed=0)
