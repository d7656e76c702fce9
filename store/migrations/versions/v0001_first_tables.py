"""Bundles, proofs, episodes, sampler states and runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "bundle",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("instruction", sa.String(), nullable=False),
        sa.Column("apps", sa.JSON(), nullable=False),
        sa.Column("skills", sa.JSON(), nullable=False),
        sa.Column("feasible", sa.Boolean(), nullable=False),
        sa.Column("split", sa.String(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bundle")),
    )
    op.create_index(op.f("ix_bundle_name"), "bundle", ["name"])
    op.create_index(op.f("ix_bundle_split"), "bundle", ["split"])

    op.create_table(
        "proof",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("bundle_id", sa.String(), nullable=False),
        sa.Column("image_digest", sa.String(), nullable=False),
        sa.Column("checks_version", sa.String(), nullable=False),
        sa.Column("gates_version", sa.String(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("gates", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proof")),
        sa.UniqueConstraint("bundle_id", "image_digest", "checks_version", "gates_version", name=op.f("uq_proof_key")),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundle.id"], name=op.f("fk_proof_bundle_id")),
    )

    op.create_table(
        "episode",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("harness_hash", sa.String(), nullable=False),
        sa.Column("image_digest", sa.String(), nullable=False),
        sa.Column("policy_hash", sa.String(), nullable=False),
        sa.Column("policy_version", sa.BigInteger(), nullable=False),
        sa.Column("seed_env", sa.BigInteger(), nullable=False),
        sa.Column("seed_sampling", sa.BigInteger(), nullable=False),
        sa.Column("split", sa.String(), nullable=False),
        sa.Column("stop_reason", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=True),
        sa.Column("num_turns", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("record", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_episode")),
        sa.CheckConstraint("outcome IN ('pass', 'fail', 'infra_error')", name=op.f("ck_episode_outcome_known")),
        sa.CheckConstraint(
            "(outcome = 'infra_error') = (reward IS NULL)", name=op.f("ck_episode_infra_error_has_no_reward")
        ),
        sa.CheckConstraint(
            "reward IS NULL OR (reward >= 0 AND reward <= 1)", name=op.f("ck_episode_reward_in_unit_interval")
        ),
    )
    for column in ("task_id", "group_id", "actor", "started_at"):
        op.create_index(op.f(f"ix_episode_{column}"), "episode", [column])

    op.create_table(
        "sampler_state",
        sa.Column("sampler", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sampler", "key", name=op.f("pk_sampler_state")),
    )

    op.create_table(
        "run",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_index(op.f("ix_run_kind"), "run", ["kind"])


def downgrade() -> None:
    """Drop the tables."""
    for table in ("run", "sampler_state", "episode", "proof", "bundle"):
        op.drop_table(table)
