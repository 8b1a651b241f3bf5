"""Run a fleet of agents: what each is due for, its dispatches and what they said, its capsules

Revision: 0007 after 0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
phase = "expand"


def upgrade() -> None:
    op.create_table(
        "lanes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("opens_at", sa.BigInteger(), nullable=False),
        sa.Column("closings", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lanes")),
    )
    op.create_table(
        "capsule_items",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("depth", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('ask', 'message')", name=op.f("ck_capsule_items_kind")),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_capsule_items_agent")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_capsule_items_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_capsule_items")),
        sa.UniqueConstraint("kind", "ref", name=op.f("uq_capsule_items_kind_ref")),
    )
    op.create_index(op.f("ix_capsule_items_run"), "capsule_items", ["run"], unique=False)
    op.create_index(
        "ix_capsule_items_untold",
        "capsule_items",
        ["agent", "id"],
        unique=False,
        sqlite_where=sa.text("run IS NULL"),
        postgresql_where=sa.text("run IS NULL"),
    )
    op.create_table(
        "dispatch_text",
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_dispatch_text_run")),
        sa.PrimaryKeyConstraint("run", "version", "part", name=op.f("pk_dispatch_text")),
    )
    op.create_table(
        "dispatches",
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("wake_seq", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("capsule", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("body_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("stop", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_dispatches_agent")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_dispatches_run")),
        sa.PrimaryKeyConstraint("run", "version", name=op.f("pk_dispatches")),
    )
    op.create_index(op.f("ix_dispatches_agent_started_at"), "dispatches", ["agent", "started_at"], unique=False)
    op.create_index(
        "ix_dispatches_lane",
        "dispatches",
        ["lane"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_dispatches_open",
        "dispatches",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "fleet_agents",
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("harness", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=True),
        sa.Column("zone", sa.Text(), nullable=True),
        sa.Column("wake_on", sa.Text(), nullable=False),
        sa.Column("turn_limit", sa.BigInteger(), nullable=False),
        sa.Column("turns_a_day", sa.Integer(), nullable=True),
        sa.Column("session", sa.Text(), nullable=True),
        sa.Column("resting", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("due_reason", sa.Text(), nullable=True),
        sa.Column("wake_seq", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("idle", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("errors", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("again", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("report", sa.Text(), nullable=True),
        sa.Column("blocked_ask", sa.Text(), nullable=True),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(policy = 'scheduled') = (cron IS NOT NULL AND zone IS NOT NULL)", name=op.f("ck_fleet_agents_schedule")
        ),
        sa.CheckConstraint("harness IN ('command', 'acpx', 'acp')", name=op.f("ck_fleet_agents_harness")),
        sa.CheckConstraint(
            "policy IN ('continuous', 'scheduled', 'event', 'manual')", name=op.f("ck_fleet_agents_policy")
        ),
        sa.CheckConstraint("wake_on IN ('any', 'all')", name=op.f("ck_fleet_agents_wake_on")),
        sa.CheckConstraint("(due_at IS NULL) = (due_reason IS NULL)", name=op.f("ck_fleet_agents_reason")),
        sa.ForeignKeyConstraint(["again"], ["runs.id"], name=op.f("fk_fleet_agents_again")),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_fleet_agents_agent")),
        sa.PrimaryKeyConstraint("agent", name=op.f("pk_fleet_agents")),
    )
    op.create_index(
        "ix_fleet_agents_due",
        "fleet_agents",
        ["lane", "due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL AND resting = 0"),
        postgresql_where=sa.text("due_at IS NOT NULL AND resting = 0"),
    )
    op.create_table(
        "landed",
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_landed_run")),
        sa.PrimaryKeyConstraint("run", "kind", "hash", name=op.f("pk_landed")),
    )
    op.create_table(
        "imported",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_imported_ask")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_imported")),
    )
