"""What an attempt is worth: scores, milestones, and what is missing."""

from __future__ import annotations

from typing import Any

from sandbox.evidence import Evidence, EvidenceItem
from store.trajectory import Trajectory
from tests.support.practice import make_tasks
from tests.support.trajectories import make_trajectory
from trainer.tasks import TrainingTask
from verigen.checks.model import FinalActionCheck, TextCheck

MILESTONES = (FinalActionCheck(kind="done"), TextCheck(item="note", expected="yes"))


def task_with(num_milestones: int) -> TrainingTask:
    (task,) = make_tasks(1)
    checks = [{"skill": "s", "check": check.model_dump(mode="json")} for check in MILESTONES[:num_milestones]]
    fields = task.bundle.task.model_copy(update={"tags": {"milestones": checks}})
    return TrainingTask(bundle=task.bundle.model_copy(update={"task": fields}), split="train")


def evidence(status: Any = "missing") -> Evidence:
    return Evidence(items={"note": EvidenceItem(status=status, reason="gone")}, clock_s=1.0)


def attempt(**changes: Any) -> Trajectory:
    fields: dict[str, Any] = {"outcome": "fail", "reward": 0.0, "evidence": "e", "final_action": {"kind": "done"}}
    if changes.get("outcome") == "infra_error":
        return make_trajectory(outcome="infra_error")
    return make_trajectory(**(fields | changes))


def worth(task: TrainingTask, trajectory: Trajectory, *, partial: float = 0.5, found: Evidence | None = None) -> Any:
    return task.reward(trajectory, lambda name: (found or evidence()).model_dump_json().encode(), partial=partial)


def test_a_pass_is_worth_its_score_whatever_the_milestones_say() -> None:
    assert worth(task_with(2), attempt(outcome="pass", reward=1.0)) == 1.0


def test_milestones_give_their_share_of_partial_credit() -> None:
    assert worth(task_with(2), attempt()) == 0.25
    assert worth(task_with(1), attempt()) == 0.5
    assert worth(task_with(1), attempt(final_action=None)) == 0.0


def test_credit_is_given_only_where_the_task_defines_milestones() -> None:
    assert worth(task_with(0), attempt()) == 0.0
    assert worth(task_with(1), attempt(), partial=0.0) == 0.0


def test_the_score_holds_where_it_is_more() -> None:
    assert worth(task_with(2), attempt(reward=0.75)) == 0.75


def test_an_infra_error_and_an_unjudged_milestone_are_missing_data() -> None:
    assert worth(task_with(2), attempt(outcome="infra_error")) is None
    assert worth(task_with(2), attempt(), found=evidence("error")) is None, "a failed collector is no zero"
