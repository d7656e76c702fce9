"""What a learning run came to, as data; `page`, `markdown` and `charts` of this package show it.

Success before and after practice is compared task by task, on the tasks that both were judged on. Infra errors are in
no rate. Where even the clearest outcome could not have been told from chance, it says so and names no winner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evals.film import BlobSource, Film, film_of
from evals.learning.run import HeldOutTask, LearningRun
from evals.outcomes import Comparison, OutcomeCount, OutcomeTable, compare, summarize
from evals.report import BASELINES
from store.trajectory import Trajectory

__all__ = ["Change", "GroupRow", "LearningReport", "TitledFilm", "Told", "build_learning_report", "told"]

LEVEL = 0.05
"""p-values below it count as told from chance."""
Told = Literal["up", "down", "open", "few"]
"""`open` where chance explains the difference, `few` where it would explain any."""
SEVERAL_APPS = "several at once"
FILM_TURNS = range(3, 13)
"""Attempts of so many turns show something and are soon looked through."""
READABLE_STOPS = frozenset({"done", "infeasible", "answer", "max_steps", "time_limit"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What practice changed on some tasks."""

    before: OutcomeCount
    after: OutcomeCount
    pairs: Comparison
    """After minus before, on the tasks that both were judged on."""
    gained: int
    """Tasks of those with a higher rate after; with single attempts: newly solved."""
    lost: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """Some tasks of the suite."""

    name: str
    num_tasks: int
    counts: Mapping[str, OutcomeCount]
    """By evaluation."""
    change: Change | None
    """Of the first pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TitledFilm:
    """An attempt to look at, and why it."""

    title: str
    film: Film


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningReport:
    """The numbers and pictures of a report."""

    run: LearningRun
    table: OutcomeTable
    """By task and evaluation."""
    changes: tuple[Change, ...]
    """One for each pair of the run."""
    against: Mapping[str, Comparison]
    """The policy that is reported minus each other evaluation, by the other's name."""
    turns: Mapping[str, float]
    """Mean turns of judged attempts, by evaluation."""
    multi_segment: float | None
    """Share of the reported policy's judged attempts that needed more than one segment of context."""
    groups: Mapping[str, tuple[GroupRow, ...]]
    """By `app`, `skill`, `number of skills`, `template`; a task counts at each of its skills."""
    films: tuple[TitledFilm, ...]
    notes: tuple[str, ...]
    """The run's, and what a reader must know to read the numbers right."""

    @property
    def reported(self) -> str | None:
        """Name of the evaluation that the report is about: after practice, or else the first."""
        if self.run.pairs:
            return self.run.pairs[0][1]
        return self.run.evaluations[0].name if self.run.evaluations else None


@dataclass(frozen=True, slots=True)
class _Tried:
    task_id: str
    actor: str
    outcome: str


def build_learning_report(run: LearningRun, *, blobs: BlobSource) -> LearningReport:
    """Count, compare and choose what to show.

    Args:
        blobs: holds the screenshots.

    Raises:
        ValueError: names that are given twice or are not there, attempts at tasks that are not of the suite, or tasks
            of the suite that were practised.
    """
    _check(run)
    tried = [
        _Tried(each.task_id, evaluation.name, each.outcome)
        for evaluation in run.evaluations
        for each in evaluation.trajectories
    ]
    counted = summarize(tried)
    names = tuple(evaluation.name for evaluation in run.evaluations)
    table = OutcomeTable(tasks=tuple(sorted(task.id for task in run.tasks)), actors=names, cells=counted.cells)
    reported = run.pairs[0][1] if run.pairs else names[0] if names else None
    judged = {
        evaluation.name: [each for each in evaluation.trajectories if each.outcome != "infra_error"]
        for evaluation in run.evaluations
    }
    final = judged.get(reported or "", [])
    return LearningReport(
        run=run,
        table=table,
        changes=tuple(_change(table, *pair) for pair in run.pairs),
        against={name: compare(table, reported, name) for name in names if reported and name != reported},
        turns={name: sum(len(each.turns) for each in some) / len(some) for name, some in judged.items() if some},
        multi_segment=sum(map(_lost_sight, final)) / len(final) if final else None,
        groups={
            "app": _groups(run, table, lambda task: [task.apps[0] if len(task.apps) == 1 else SEVERAL_APPS]),
            "skill": _groups(run, table, lambda task: task.skills),
            "number of skills": _groups(run, table, lambda task: [str(len(task.skills))]),
            "template": _groups(run, table, lambda task: [task.template]),
        },
        films=tuple(_films(run, final, judged, blobs)),
        notes=(*run.notes, *_notes(run, table)),
    )


def told(pairs: Comparison) -> Told:
    """What a comparison tells of its first beside its second.

    With n tasks no p-value is below 2 / 2^n, which is what a test of signs gives when all n differ the same way.
    """
    if 2.0 / 2**pairs.num_tasks >= LEVEL:
        return "few"
    if pairs.p_value >= LEVEL:
        return "open"
    return "up" if pairs.difference > 0 else "down"


def _check(run: LearningRun) -> None:
    names = [evaluation.name for evaluation in run.evaluations]
    ids = [task.id for task in run.tasks]
    for what, given in (("evaluation", names), ("task", ids)):
        if twice := {name for name in given if given.count(name) > 1}:
            raise ValueError(f"each {what} is given once; these are there twice: {', '.join(sorted(twice))}")
    if unknown := {name for pair in run.pairs for name in pair} - set(names):
        raise ValueError(f"no evaluation is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    practised = {task["task"] for task in run.frontier["tasks"]} if run.frontier else set()
    if leaked := practised & set(ids):
        raise ValueError(f"{min(leaked)} is in the sampler's map and in the held-out suite; a task is in one of them")
    for evaluation in run.evaluations:
        if strange := {each.task_id for each in evaluation.trajectories} - set(ids):
            raise ValueError(f"{evaluation.name!r} has attempts at {min(strange)}, which is not a task of the suite")


def _change(table: OutcomeTable, before: str, after: str) -> Change:
    rates = [(table.cell(task, before).rate, table.cell(task, after).rate) for task in table.tasks]
    gaps = [new - old for old, new in rates if old is not None and new is not None]
    return Change(
        before=table.total(before),
        after=table.total(after),
        pairs=compare(table, after, before),
        gained=sum(gap > 0 for gap in gaps),
        lost=sum(gap < 0 for gap in gaps),
    )


def _groups(
    run: LearningRun, table: OutcomeTable, names_of: Callable[[HeldOutTask], Iterable[str]]
) -> tuple[GroupRow, ...]:
    members: dict[str, set[str]] = {}
    for task in run.tasks:
        for name in names_of(task):
            members.setdefault(name, set()).add(task.id)
    rows = []
    for name, ids in sorted(members.items(), key=lambda item: (item[0] == SEVERAL_APPS, -len(item[1]), item[0])):
        part = OutcomeTable(
            tasks=tuple(sorted(ids)),
            actors=table.actors,
            cells={key: count for key, count in table.cells.items() if key[0] in ids},
        )
        rows.append(
            GroupRow(
                name=name,
                num_tasks=len(ids),
                counts={actor: part.total(actor) for actor in table.actors},
                change=_change(part, *run.pairs[0]) if run.pairs else None,
            )
        )
    return tuple(rows)


def _lost_sight(trajectory: Trajectory) -> bool:
    """Whether a screenshot was dropped from the context, which begins a new segment."""
    return any(turn.visible and turn.visible[0] > 0 for turn in trajectory.turns)


def _films(
    run: LearningRun, final: Sequence[Trajectory], judged: Mapping[str, Sequence[Trajectory]], blobs: BlobSource
) -> Iterable[TitledFilm]:
    before = judged[run.pairs[0][0]] if run.pairs else []
    failed_before = {each.task_id: each for each in before if each.outcome == "fail" and _seen(each)}
    solved = [each for each in final if each.outcome == "pass" and _seen(each)]
    failed = [each for each in final if each.outcome == "fail" and _seen(each)]
    when = " after practice" if run.pairs else ""
    if solved:
        best = max(solved, key=lambda each: (each.task_id in failed_before, *_worth_watching(each)))
        yield TitledFilm(title=f"Solved{when}", film=film_of(best, blobs))
        if best.task_id in failed_before:
            yield TitledFilm(title="The same task before practice", film=film_of(failed_before[best.task_id], blobs))
    if failed:
        best = max(failed, key=lambda each: (each.stop_reason in READABLE_STOPS, *_worth_watching(each)))
        yield TitledFilm(title=f"Not solved{when}", film=film_of(best, blobs))


def _seen(trajectory: Trajectory) -> bool:
    return any(turn.frame for turn in trajectory.turns)


def _worth_watching(trajectory: Trajectory) -> tuple[bool, int, str]:
    """Sorts attempts: of a good length, of those the longest, else the shortest; names break ties."""
    length = len(trajectory.turns)
    return length in FILM_TURNS, length if length in FILM_TURNS else -length, trajectory.id


def _notes(run: LearningRun, table: OutcomeTable) -> list[str]:
    total = sum((table.total(name) for name in table.actors), OutcomeCount())
    notes = []
    if total.infra:
        all_of_them = total.infra + total.trials
        notes.append(f"{total.infra} of {all_of_them} held-out attempts ended by infra errors; they are in no rate.")
    missing = {name: sum(not table.cell(task, name).trials for task in table.tasks) for name in table.actors}
    if any(missing.values()):
        told_of = "; ".join(f"{name}: {number}" for name, number in missing.items() if number)
        notes.append(f"Of the {len(table.tasks)} tasks some have no judged attempt ({told_of}).")
    if any(count.trials > 1 for count in table.cells.values()):
        notes.append(
            "Tasks were attempted several times; the intervals take attempts for independent, so they are too narrow."
        )
    actors = {each.actor for evaluation in run.evaluations for each in evaluation.trajectories} | set(table.actors)
    notes += [
        f"No baseline of {meaning} was run, so what that scores is not known."
        for actor, meaning in BASELINES.items()
        if actor not in actors
    ]
    if run.pairs:
        notes.append(
            f"Groups of tasks are compared one by one at p < {LEVEL}, without a correction for how many there are: "
            "of twenty where nothing changed, one would be expected to look changed."
        )
    return notes
