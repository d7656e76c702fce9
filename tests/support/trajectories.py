"""Small trajectories and catalog rows for tests."""

from __future__ import annotations

from typing import Any

from store.tables import BundleRow, EpisodeRow, ProofRow
from store.trajectory import ErrorInfo, Trajectory, Turn

__all__ = ["make_bundle_row", "make_episode_row", "make_proof_row", "make_trajectory"]


def make_trajectory(trajectory_id: str = "ep-1", *, frames: tuple[str, ...] = (), **changes: Any) -> Trajectory:
    """A passed attempt with one turn per frame."""
    fields: dict[str, Any] = {
        "id": trajectory_id,
        "task_id": "task",
        "instruction": "Do it.",
        "actor": "oracle",
        "harness_hash": "h",
        "image_digest": "i",
        "policy_hash": "p",
        "seed_env": 1,
        "seed_sampling": 2,
        "turns": tuple(
            Turn(index=index, frame=frame, cursor=(0, 0), visible=(index,), raw="click")
            for index, frame in enumerate(frames)
        ),
        "stop_reason": "done",
        "outcome": "pass",
        "reward": 1.0,
        "started_at": 1000.0,
        "seconds": 2.0,
    }
    if changes.get("outcome") == "infra_error":
        fields |= {"reward": None, "error": ErrorInfo(type="DesktopLost", phase="infra", message="gone")}
    return Trajectory(**(fields | changes))


def make_bundle_row(bundle_id: str = "b1", **changes: Any) -> BundleRow:
    """A bundle's row."""
    fields: dict[str, Any] = {
        "id": bundle_id,
        "name": f"task-{bundle_id}",
        "instruction": "Do it.",
        "apps": ["mousepad"],
        "skills": ["edit"],
        "feasible": True,
        "split": "train",
        "document": {"task": {"name": f"task-{bundle_id}"}},
        "created_at": 1.0,
    }
    return BundleRow(**(fields | changes))


def make_proof_row(bundle_id: str = "b1", **changes: Any) -> ProofRow:
    """A passed proof."""
    fields: dict[str, Any] = {
        "bundle_id": bundle_id,
        "image_digest": "i",
        "checks_version": "1",
        "gates_version": "1",
        "passed": True,
        "gates": [{"gate": "G0", "passed": True}],
        "created_at": 1.0,
        "seconds": 3.0,
    }
    return ProofRow(**(fields | changes))


def make_episode_row(episode_id: str = "ep-1", **changes: Any) -> EpisodeRow:
    """A passed episode's row."""
    fields: dict[str, Any] = {
        "id": episode_id,
        "task_id": "task",
        "group_id": None,
        "actor": "oracle",
        "harness_hash": "h",
        "image_digest": "i",
        "policy_hash": "p",
        "policy_version": 0,
        "seed_env": 1,
        "seed_sampling": 2,
        "split": "train",
        "stop_reason": "done",
        "outcome": "pass",
        "reward": 1.0,
        "num_turns": 3,
        "seconds": 2.0,
        "started_at": 1000.0,
        "record": "r",
    }
    return EpisodeRow(**(fields | changes))
