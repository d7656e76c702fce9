"""The catalog's tables. What they are for stands at each class; what they refuse stands in their constraints.

Times are seconds since the epoch, so that SQLite and PostgreSQL agree and a trajectory's own times fit as they are.
The migrations make exactly these tables, which a test holds; a change here needs a new migration.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import BigInteger, CheckConstraint, MetaData, UniqueConstraint
from sqlmodel import JSON, Field, SQLModel

__all__ = ["BundleRow", "EpisodeRow", "ProofRow", "RunRow", "SamplerEventRow", "SamplerStateRow", "metadata"]

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Only the catalog's tables; named constraints are what a later migration can change."""


class _Table(SQLModel):
    metadata: ClassVar[MetaData] = metadata


class BundleRow(_Table, table=True):
    """A task with what admission needs."""

    __tablename__ = "bundle"

    id: str = Field(primary_key=True)
    """Hash of the document."""
    name: str = Field(index=True)
    """For people; several bundles may share it."""
    instruction: str
    apps: list[str] = Field(sa_type=JSON)
    skills: list[str] = Field(sa_type=JSON)
    feasible: bool
    split: str = Field(index=True)
    """Which suite it serves. Not part of the id: the same task is the same task in every split."""
    document: dict[str, Any] = Field(sa_type=JSON)
    """The whole bundle."""
    created_at: float


class ProofRow(_Table, table=True):
    """The gate results of one bundle on one image with one version of the checks and the gates."""

    __tablename__ = "proof"
    __table_args__ = (
        UniqueConstraint("bundle_id", "image_digest", "checks_version", "gates_version", name="uq_proof_key"),
    )

    id: int | None = Field(default=None, primary_key=True)
    bundle_id: str = Field(foreign_key="bundle.id")
    image_digest: str
    checks_version: str
    gates_version: str
    passed: bool
    gates: list[dict[str, Any]] = Field(sa_type=JSON)
    """Each gate's result, in the order of running."""
    created_at: float
    seconds: float
    """What proving took."""


class EpisodeRow(_Table, table=True):
    """One committed attempt; the record itself is a file (store.trajectories)."""

    __tablename__ = "episode"
    __table_args__ = (
        CheckConstraint("outcome IN ('pass', 'fail', 'infra_error')", name="outcome_known"),
        CheckConstraint("(outcome = 'infra_error') = (reward IS NULL)", name="infra_error_has_no_reward"),
        CheckConstraint("reward IS NULL OR (reward >= 0 AND reward <= 1)", name="reward_in_unit_interval"),
    )

    id: str = Field(primary_key=True)
    task_id: str = Field(index=True)
    """A bundle's id or a suite's own; so it refers to no table."""
    group_id: str | None = Field(index=True)
    actor: str = Field(index=True)
    harness_hash: str
    image_digest: str
    policy_hash: str
    policy_version: int = Field(sa_type=BigInteger)
    seed_env: int = Field(sa_type=BigInteger)
    seed_sampling: int = Field(sa_type=BigInteger)
    split: str
    stop_reason: str
    outcome: str
    reward: float | None
    num_turns: int
    seconds: float
    started_at: float = Field(index=True)
    record: str
    """sha256 of the record's JSON."""


class SamplerStateRow(_Table, table=True):
    """What a sampler knows of one key, a task or a cell."""

    __tablename__ = "sampler_state"

    sampler: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    state: dict[str, Any] = Field(sa_type=JSON)
    version: int = Field(sa_type=BigInteger)
    """Counts the writes of this row, so that a writer can tell whether it saw the newest state."""


class SamplerEventRow(_Table, table=True):
    """One thing that a sampler noticed or decided: its history."""

    __tablename__ = "sampler_event"

    id: int | None = Field(default=None, primary_key=True)
    """Rises with time."""
    sampler: str = Field(index=True)
    task_id: str = Field(index=True)
    """Empty when it is about the whole pool."""
    version: int = Field(sa_type=BigInteger)
    """The policy's weight version."""
    kind: str
    before: str
    after: str
    """Life-cycle states; empty unless it is a transition."""
    reason: str
    """One sentence."""


class RunRow(_Table, table=True):
    """One long piece of work: a synthesis, a training run, an evaluation."""

    __tablename__ = "run"

    id: str = Field(primary_key=True)
    kind: str = Field(index=True)
    config: dict[str, Any] = Field(sa_type=JSON)
    status: str
    started_at: float
    finished_at: float | None
