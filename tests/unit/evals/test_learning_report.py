"""A learning run's report: its numbers, what it refuses to claim, and what it does without parts of a run."""

from __future__ import annotations

from typing import Any

import pytest

from evals.learning import (
    Evaluation,
    HeldOutTask,
    LearningReport,
    LearningRun,
    Synthesis,
    build_learning_report,
    training_curve,
)
from evals.learning.report import told
from evals.learning.words import headline, rate_words, synthesis_words, told_words
from evals.outcomes import OutcomeCount, compare, summarize
from evals.stats import mcnemar_exact, wilson_interval
from sandbox.frame import Frame
from store.trajectory import Trajectory, Turn
from tests.support.blobs import FakeBlobs
from tests.support.trajectories import make_trajectory
from verigen.synth import GateYield

WORDS = {"p": "pass", "f": "fail", "i": "infra_error"}


def task(number: int, *, apps: tuple[str, ...] = ("editor",), skills: tuple[str, ...] = ("save",)) -> HeldOutTask:
    return HeldOutTask(id=f"t{number:02}", instruction="Do it.", apps=apps, skills=skills, template="editor/save")


def attempts(name: str, letters: str, *, first: int = 0, **changes: Any) -> list[Trajectory]:
    """One attempt a letter, at t00, t01, ...; - skips a task."""
    found = []
    for number, letter in enumerate(letters, start=first):
        if letter != "-":
            outcome = WORDS[letter]
            fields: dict[str, Any] = {
                "outcome": outcome,
                "reward": float(letter == "p"),
                "task_id": f"t{number:02}",
                "actor": "policy",
            }
            if letter == "i":
                del fields["reward"]
            found.append(make_trajectory(f"{name}-{number}", **(fields | changes)))
    return found


def evaluation(name: str, letters: str, **changes: Any) -> Evaluation:
    return Evaluation(name=name, trajectories=attempts(name, letters, **changes))


def built(before: str, after: str, *others: Evaluation, **changes: Any) -> LearningReport:
    num_tasks = max(len(before), len(after))
    fields: dict[str, Any] = {
        "title": "Run",
        "tasks": tuple(map(task, range(num_tasks))),
        "evaluations": (evaluation("warm", before), evaluation("final", after), *others),
        "pairs": (("warm", "final"),),
    }
    return build_learning_report(LearningRun(**(fields | changes)), blobs=FakeBlobs())


def test_the_headline_is_paired_and_leaves_infra_errors_out() -> None:
    #               0         1
    report = built("ffffffffpppfi", "ppppppppppffp")
    (change,) = report.changes
    assert change.before == OutcomeCount(passed=3, failed=9, infra=1)
    assert change.after == OutcomeCount(passed=11, failed=2)
    assert (change.gained, change.lost, change.pairs.num_tasks) == (8, 1, 12)
    assert change.pairs.method == "McNemar"
    assert change.pairs.p_value == mcnemar_exact(8, 1)
    assert change.pairs.difference == pytest.approx(7 / 12)
    assert headline(report) == "Practice raised held-out success from 25 % to 85 % (p = 0.039, 12 tasks)."
    assert any(note.startswith("1 of 26 held-out attempts ended by infra errors") for note in report.notes)
    assert any("(warm: 1)" in note for note in report.notes)


def test_a_loss_is_called_a_loss_and_chance_is_called_chance() -> None:
    worse = built("pppppppppp", "fffffffffp")
    assert headline(worse).startswith("Practice lowered held-out success from 100 % to 10 %")
    same = built("pppppfffff", "ppppppffff")
    assert told(same.changes[0].pairs) == "open"
    assert "chance explains that (p = 1)" in headline(same)


@pytest.mark.parametrize(("num_tasks", "verdict"), [(0, "few"), (5, "few"), (6, "up")])
def test_where_no_outcome_could_be_told_from_chance_nothing_is_claimed(num_tasks: int, verdict: str) -> None:
    report = built("f" * num_tasks + "i", "p" * num_tasks + "p")
    pairs = report.changes[0].pairs
    assert told(pairs) == verdict
    assert ("too few to tell" in told_words(pairs)) == ("too few to tell" in headline(report)) == (verdict == "few")
    assert (mcnemar_exact(num_tasks, 0) < 0.05) == (verdict == "up"), "that is what the bound says"


def test_few_attempts_get_no_percentage() -> None:
    assert rate_words(OutcomeCount(passed=3, failed=1, infra=20)) == "3/4, too few for a rate"
    assert rate_words(OutcomeCount(passed=8, failed=2)) == "80 %"
    assert rate_words(OutcomeCount(infra=3)) == "–"


def test_repeated_attempts_are_compared_by_tasks_and_said_to_be() -> None:
    warm = attempts("w1", "ffffffff") + attempts("w2", "ffffffff")
    final = attempts("f1", "pppppppf") + attempts("f2", "ppppffff")
    run = LearningRun(
        title="Run",
        tasks=tuple(map(task, range(8))),
        evaluations=(
            Evaluation(name="warm", trajectories=warm),
            Evaluation(name="final", trajectories=final),
        ),
        pairs=(("warm", "final"),),
    )
    report = build_learning_report(run, blobs=FakeBlobs())
    (change,) = report.changes
    assert (change.gained, change.lost, change.pairs.method) == (7, 0, "sign flips")
    assert change.after == OutcomeCount(passed=11, failed=5)
    assert any("too narrow" in note for note in report.notes)
    assert not any("too narrow" in note for note in built("f", "p").notes)


def test_groups_count_each_task_once_and_at_each_of_its_skills() -> None:
    tasks = (
        task(0, apps=("editor",), skills=("save", "type")),
        task(1, apps=("editor", "files"), skills=("save",)),
        task(2, apps=("files",), skills=("rename",)),
    )
    report = built("ffi", "pff", tasks=tasks)
    apps = {row.name: row for row in report.groups["app"]}
    assert list(apps) == ["editor", "files", "several at once"]
    assert sum(row.num_tasks for row in apps.values()) == 3
    assert apps["editor"].counts == {"warm": OutcomeCount(failed=1), "final": OutcomeCount(passed=1)}
    files = apps["files"].change
    assert files is not None
    assert (files.before, files.pairs.num_tasks) == (OutcomeCount(infra=1), 0)
    skills = {row.name: row.num_tasks for row in report.groups["skill"]}
    assert skills == {"save": 2, "rename": 1, "type": 1}
    assert {row.name: row.num_tasks for row in report.groups["number of skills"]} == {"1": 2, "2": 1}


def test_every_other_evaluation_is_compared_with_the_final_policy() -> None:
    report = built("ffffff", "pppppp", evaluation("black screens", "fffffp"))
    assert set(report.against) == {"warm", "black screens"}
    assert report.against["black screens"].difference == pytest.approx(5 / 6)
    assert told(report.against["warm"]) == "up"


def test_missing_baselines_are_said() -> None:
    assert sum("baseline" in note for note in built("f", "p").notes) == 2
    noop = evaluation("does nothing", "f", actor="noop")
    refuses = evaluation("always-infeasible", "f")
    assert not any("baseline" in note for note in built("f", "p", noop, refuses).notes)


def test_without_practice_the_first_evaluation_is_reported() -> None:
    report = built("ffffffffpp", "", evaluations=(evaluation("warm", "ffffffffpp"),), pairs=())
    assert report.changes == ()
    assert headline(report) == "Practice was not evaluated. Held-out success (warm): 20 %."
    assert all(row.change is None for row in report.groups["skill"])


def test_nothing_judged_is_nothing_known() -> None:
    for report in (built("ii", "ii"), built("", "", tasks=(), evaluations=(), pairs=())):
        assert "nothing is known" in headline(report)
        assert report.films == ()
        assert report.multi_segment is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pairs": (("warm", "last"),)}, "no evaluation is called last; there are warm, final"),
        ({"evaluations": (evaluation("a", "p"), evaluation("a", "f")), "pairs": ()}, "twice: a"),
        ({"tasks": (task(0), task(0))}, "twice: t00"),
        ({"frontier": {"tasks": [{"task": "t00"}]}}, "t00 is in the sampler's map and in the held-out suite"),
        ({"tasks": (task(5),)}, "'warm' has attempts at t00, which is not a task of the suite"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        built("p", "p", **changes)


def test_tables_agree_with_the_other_report_on_the_same_attempts() -> None:
    report = built("pfpfpfpf", "ppppppff")
    other = summarize(
        [each.model_copy(update={"actor": one.name}) for one in report.run.evaluations for each in one.trajectories]
    )
    assert other.task_set_hash == report.table.task_set_hash
    assert compare(other, "final", "warm") == report.changes[0].pairs


def turns(length: int, frame: str | None, *, window: int = 3) -> tuple[Turn, ...]:
    return tuple(
        Turn(index=k, frame=frame, cursor=(0, 0), visible=tuple(range(max(0, k + 1 - window), k + 1)), raw="")
        for k in range(length)
    )


def test_a_dropped_screenshot_is_another_segment() -> None:
    short, long = attempts("a", "p", turns=turns(3, None)), attempts("b", "f", first=1, turns=turns(4, None))
    final = Evaluation(name="final", trajectories=short + long + attempts("c", "i", first=2, turns=turns(9, None)))
    report = built("fff", "", evaluations=(evaluation("warm", "fff"), final), tasks=tuple(map(task, range(3))))
    assert report.multi_segment == 0.5
    assert report.turns == {"warm": 0.0, "final": 3.5}


def test_films_show_what_practice_solved_and_what_it_did_not() -> None:
    blobs = FakeBlobs()
    frame = blobs.put(Frame.from_pixels(8, 8, bytes(3 * 64)).encode())

    def tries(name: str, outcomes: dict[int, tuple[str, int]]) -> Evaluation:
        some = [
            attempts(name, letter, first=number, turns=turns(length, frame if length else None))[0]
            for number, (letter, length) in outcomes.items()
        ]
        return Evaluation(name=name, trajectories=some)

    warm = tries("warm", {0: ("p", 5), 1: ("f", 4), 2: ("f", 4), 3: ("f", 4), 4: ("f", 4), 5: ("f", 1)})
    final = tries("final", {0: ("p", 9), 1: ("p", 5), 2: ("p", 2), 3: ("p", 30), 4: ("f", 12), 5: ("f", 13)})
    run = LearningRun(
        title="Run", tasks=tuple(map(task, range(6))), evaluations=(warm, final), pairs=(("warm", "final"),)
    )
    shown = [(each.title, each.film.task_id) for each in build_learning_report(run, blobs=blobs).films]
    assert shown == [
        ("Solved after practice", "t01"),
        ("The same task before practice", "t01"),
        ("Not solved after practice", "t04"),
    ]


def test_of_attempts_that_are_all_long_the_shortest_is_shown() -> None:
    blobs = FakeBlobs()
    frame = blobs.put(Frame.from_pixels(8, 8, bytes(3 * 64)).encode())
    lengths = {0: 20, 1: 18, 2: 40}
    some = [attempts("w", "p", first=number, turns=turns(length, frame))[0] for number, length in lengths.items()]
    run = LearningRun(
        title="Run",
        tasks=tuple(map(task, range(3))),
        evaluations=(Evaluation(name="warm", trajectories=some),),
        pairs=(),
    )
    (shown,) = build_learning_report(run, blobs=blobs).films
    assert (shown.title, shown.film.task_id) == ("Solved", "t01")


def test_synthesis_is_told_with_what_was_left_open() -> None:
    gates = (
        GateYield(gate="G0", reached=38, passed=37, rejected=1, unproven=0),
        GateYield(gate="G4", reached=37, passed=33, rejected=4, unproven=3),
    )
    told_of = synthesis_words(built("f", "p", synthesis=Synthesis(gates=gates, left_open=2, reproven=10, still_pass=9)))
    assert "40 new tasks were proposed and 33 admitted." in told_of
    assert "neither admitted nor rejected, and in no bar: 2." in told_of
    assert "9 of 10 shipped tasks" in told_of
    assert synthesis_words(built("f", "p")) == ""


def test_practice_is_counted_in_even_bins_by_time() -> None:
    shuffled = [(float(k // 4), float(k), "pass" if k >= 20 else "fail") for k in reversed(range(40))]
    shuffled.insert(7, (3.0, 15.5, "infra_error"))
    points = training_curve(shuffled, num_bins=4)
    assert [(point.passed, point.trials) for point in points] == [(0, 10), (0, 10), (10, 10), (10, 10)]
    assert [point.episodes for point in points] == [10, 21, 31, 41]
    assert points[0].seconds == pytest.approx(4.5)
    assert training_curve([(0.0, 1.0, "pass")], num_bins=4)[0].trials == 1
    assert training_curve([(0.0, 1.0, "infra_error")]) == ()
    assert wilson_interval(points[0].passed, points[0].trials).low == 0
