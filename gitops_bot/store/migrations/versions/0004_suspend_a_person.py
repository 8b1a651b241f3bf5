"""Suspend a person

Revision: 0004 after 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "suspensions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("suspended", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("suspended IN (0, 1)", name=op.f("ck_suspensions_suspended")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suspensions")),
    )
    op.create_index(op.f("ix_suspensions_principal"), "suspensions", ["principal"], unique=False)
    _append_only()


def _append_only() -> None:
    """Let nobody change or remove who was suspended and when (see revision 0001)."""
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER suspensions_no_{verb.lower()} BEFORE {verb} ON suspensions "
                "BEGIN SELECT RAISE(ABORT, 'suspensions is append-only'); END"
            )
    else:
        op.execute(
            "CREATE TRIGGER suspensions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON suspensions "
            "FOR EACH STATEMENT EXECUTE FUNCTION gitops_bot_append_only()"
        )
