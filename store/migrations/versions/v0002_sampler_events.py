"""What samplers noticed and decided."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "sampler_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sampler", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("before", sa.String(), nullable=False),
        sa.Column("after", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sampler_event")),
    )
    for column in ("sampler", "task_id"):
        op.create_index(op.f(f"ix_sampler_event_{column}"), "sampler_event", [column])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("sampler_event")
