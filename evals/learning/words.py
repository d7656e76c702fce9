"""The sentences and short texts that page and Markdown share."""

from __future__ import annotations

from evals.learning.report import Change, LearningReport, told
from evals.learning.run import CurvePoint
from evals.outcomes import Comparison, OutcomeCount
from evals.stats import wilson_interval

__all__ = [
    "GATES",
    "MIN_FOR_PERCENT",
    "counted",
    "duration",
    "evaluation_words",
    "gain_words",
    "headline",
    "interval_words",
    "p_words",
    "percent",
    "points",
    "rate_words",
    "suite_words",
    "synthesis_words",
    "told_words",
]

MIN_FOR_PERCENT = 10
"""With fewer judged attempts a percentage would claim more than is known."""
GATES = {
    "G0": "well formed",
    "examples": "its example end states can be made",
    "G1": "the check notices breaking changes",
    "G2": "the same start state each time",
    "G3": "doing nothing scores 0",
    "G4": "its solution scores 1",
    "G5": "near misses do not pass",
    "G6": "other right ways pass",
}
"""What each gate demands."""


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"


def counted(count: OutcomeCount | CurvePoint) -> str:
    """`passed/judged`; a dash without any."""
    return f"{count.passed}/{count.trials}" if count.trials else "–"


def rate_words(count: OutcomeCount) -> str:
    """The rate if enough is known for one."""
    if count.rate is None:
        return "–"
    return percent(count.rate) if count.trials >= MIN_FOR_PERCENT else f"{counted(count)}, too few for a rate"


def p_words(p_value: float) -> str:
    """A p-value as text."""
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}"


def points(pairs: Comparison) -> str:
    """The difference of two rates."""
    return f"{100 * pairs.difference:+.0f} points".replace("-", "−")


def told_words(pairs: Comparison) -> str:
    """What a comparison tells."""
    match told(pairs):
        case "few":
            return "too few to tell"
        case "open":
            return f"no difference shown ({p_words(pairs.p_value)})"
        case _:
            return f"{points(pairs)} ({p_words(pairs.p_value)})"


def headline(report: LearningReport) -> str:
    """The result in one sentence."""
    name = report.reported
    if name is None or not report.table.total(name).trials:
        return "No held-out attempt was judged, so nothing is known of the result."
    if not report.changes:
        return f"Practice was not evaluated. Held-out success ({name}): {_share(report.table.total(name))}."
    change = report.changes[0]
    tasks = change.pairs.num_tasks
    direction = told(change.pairs)
    if direction == "few":
        return f"Only {tasks} held-out tasks were judged before and after practice: too few to tell what it changed."
    before, after = _share(change.before), _share(change.after)
    if direction == "open":
        return (
            f"Held-out success went from {before} to {after}; with {tasks} tasks, chance explains that "
            f"({p_words(change.pairs.p_value)})."
        )
    verb = "raised" if direction == "up" else "lowered"
    return (
        f"Practice {verb} held-out success from {before} to {after} ({p_words(change.pairs.p_value)}, {tasks} tasks)."
    )


def _share(count: OutcomeCount) -> str:
    return percent(count.rate or 0.0) if count.trials >= MIN_FOR_PERCENT else f"{count.passed} of {count.trials}"


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def interval_words(count: OutcomeCount | CurvePoint) -> str:
    """The 95 % interval of a rate; nothing without a judged attempt."""
    if not count.trials:
        return ""
    interval = wilson_interval(count.passed, count.trials)
    return f"{100 * interval.low:.0f} to {100 * interval.high:.0f} %"


def suite_words(report: LearningReport) -> str:
    """The suite that everything is measured on."""
    table = report.table
    apart = ", none of them among the practised" if report.run.frontier else ""  # building the report made sure
    return f"{len(table.tasks)} held-out tasks, set {table.task_set_hash[:12]}{apart}"


def evaluation_words(report: LearningReport) -> str:
    """How to read the table of evaluations, and how much context the reported policy needed."""
    said = "Infra errors are in no rate. Comparisons pair the tasks that both were judged on."
    if report.multi_segment is None:
        return said
    trials = report.table.total(report.reported or "").trials
    share = f"{round(report.multi_segment * trials)} of {trials} judged attempts"
    return f"{said} More than one segment of context was needed by {share} ({report.reported})."


def gain_words(change: Change) -> str:
    """What the numbers of gained and lost tasks count."""
    once = change.pairs.method == "McNemar"
    what = "newly solved / no longer solved" if once else "solved more often / less often"
    return f"of {change.pairs.num_tasks} tasks, {what}"


def synthesis_words(report: LearningReport) -> str:
    """What became of the tasks that the run made, and of the shipped ones."""
    made = report.run.synthesis
    said = []
    if made.gates:
        proposed = made.gates[0].reached + made.left_open
        said.append(f"{proposed} new tasks were proposed and {made.gates[-1].passed} admitted.")
        if made.left_open:
            said.append(f"Left open, neither admitted nor rejected, and in no bar: {made.left_open}.")
    if made.reproven:
        said.append(f"{made.still_pass} of {made.reproven} shipped tasks that were proven again still pass every gate.")
    return " ".join(said)
