"""Remember what the forge delivered, and which tokens were used

Revision: 0006 after 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "hook_deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=True),
        sa.Column("repository", sa.BigInteger(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hook_deliveries")),
    )
    op.create_index(op.f("ix_hook_deliveries_seen_at"), "hook_deliveries", ["seen_at"], unique=False)
    op.create_table(
        "used_tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_used_tokens")),
    )
    op.create_index(op.f("ix_used_tokens_expires_at"), "used_tokens", ["expires_at"], unique=False)
