"""Read what people signed

Revision: 0003 after 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "key_counters",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_key_counters")),
    )
    op.create_table(
        "key_revocations",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('hard', 'soft')", name=op.f("ck_key_revocations_kind")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_key_revocations")),
    )
    op.create_table(
        "signature_results",
        sa.Column("commit_id", sa.Text(), nullable=False),
        sa.Column("key_set", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("stored_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("commit_id", "key_set", name=op.f("pk_signature_results")),
    )
    op.create_table(
        "signed_branches",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tip", sa.Text(), nullable=True),
        sa.Column("root", sa.Text(), nullable=True),
        sa.Column("seen", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('read', 'frozen', 'unreadable')", name=op.f("ck_signed_branches_state")),
        sa.PrimaryKeyConstraint("person", name=op.f("pk_signed_branches")),
    )
    op.create_table(
        "signed_commits",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("commit_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("ask", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("judged_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("state IN ('new', 'held', 'judged')", name=op.f("ck_signed_commits_state")),
        sa.PrimaryKeyConstraint("person", "commit_id", name=op.f("pk_signed_commits")),
    )
    op.create_index(op.f("ix_signed_commits_ask"), "signed_commits", ["ask"], unique=False)
    op.create_index(
        "ix_signed_commits_unjudged",
        "signed_commits",
        ["person", "position"],
        unique=False,
        sqlite_where=sa.text("state <> 'judged'"),
        postgresql_where=sa.text("state <> 'judged'"),
    )
    op.create_table(
        "signed_requests",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_signed_requests_ask")),
        sa.PrimaryKeyConstraint("ask", name=op.f("pk_signed_requests")),
    )
    _append_only()


APPEND_ONLY = ("signed_requests", "signature_results", "key_revocations")


def _append_only() -> None:
    """Let nobody change or remove what was asked and found (see revision 0001)."""
    for table in APPEND_ONLY:
        if op.get_bind().dialect.name == "sqlite":
            for verb in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
        else:
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION gitops_bot_append_only()"
            )
