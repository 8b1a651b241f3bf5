"""The tables of the fleet: how an agent is run and when it is due, its dispatches with their text, and its capsule.

Same rules as `store.tables`, whose metadata they share. An agent's due time is kept here and nowhere else.
"""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from gitops_bot.store.states import CapsuleItem, HarnessKind, WakeOn, WakePolicy
from gitops_bot.store.tables import ROWID, count_column, id_column, metadata, one_of, text_column, time_column

fleet_agents = Table(
    "fleet_agents",
    metadata,
    Column("agent", Text, ForeignKey("agents.id"), primary_key=True),
    text_column("harness"),
    text_column("command"),
    text_column("folder"),
    text_column("lane"),
    text_column("policy"),
    text_column("cron", null=True),
    text_column("zone", null=True),
    text_column("wake_on"),
    time_column("turn_limit"),
    Column("turns_a_day", Integer, nullable=True),
    text_column("session", null=True),
    # 1 while people keep it from running: a draft, paused or retired. Written with `agents.state`.
    count_column("resting"),
    time_column("due_at", null=True),
    text_column("due_reason", null=True),
    count_column("wake_seq"),
    count_column("idle"),
    count_column("errors"),
    # The run whose body was lost: it is dispatched again as the same row, with the same capsule.
    text_column("again", ForeignKey("runs.id"), null=True),
    text_column("outcome", null=True),
    text_column("report", null=True),
    text_column("blocked_ask", null=True),
    time_column("settled_at", null=True),
    one_of("harness", HarnessKind),
    one_of("policy", WakePolicy),
    one_of("wake_on", WakeOn),
    CheckConstraint("(policy = 'scheduled') = (cron IS NOT NULL AND zone IS NOT NULL)", name="schedule"),
    CheckConstraint("(due_at IS NULL) = (due_reason IS NULL)", name="reason"),
    # What a tick walks: those due in a lane, however large the fleet.
    Index(
        "ix_fleet_agents_due",
        "lane",
        "due_at",
        sqlite_where=text("due_at IS NOT NULL AND resting = 0"),
        postgresql_where=text("due_at IS NOT NULL AND resting = 0"),
    ),
)

dispatches = Table(
    "dispatches",
    metadata,
    text_column("run", ForeignKey("runs.id")),
    Column("version", Integer, nullable=False),
    text_column("agent", ForeignKey("agents.id")),
    text_column("lane"),
    text_column("reason"),
    Column("wake_seq", Integer, nullable=False),
    count_column("depth"),
    text_column("capsule"),
    text_column("holder"),
    time_column("lease_until"),
    time_column("started_at"),
    time_column("body_at", null=True),
    time_column("ended_at", null=True),
    text_column("stop", null=True),
    Column("exit_code", Integer, nullable=True),
    text_column("detail", null=True),
    text_column("outcome", null=True),
    PrimaryKeyConstraint("run", "version"),
    # What a reconciler walks: those that have not ended, however long the history.
    Index(
        "ix_dispatches_open",
        "lease_until",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    # What of a lane runs now is counted at each tick.
    Index(
        "ix_dispatches_lane",
        "lane",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    Index(None, "agent", "started_at"),
)

# What a body has said so far, in pieces; the end of a turn reads it whole, and so does who finds a lost one.
dispatch_text = Table(
    "dispatch_text",
    metadata,
    text_column("run", ForeignKey("runs.id")),
    Column("version", Integer, nullable=False),
    Column("part", Integer, nullable=False),
    text_column("text"),
    PrimaryKeyConstraint("run", "version", "part"),
)

# A marker lands once a run (I9), whoever reads it.
landed = Table(
    "landed",
    metadata,
    text_column("run", ForeignKey("runs.id")),
    text_column("kind"),
    text_column("hash"),
    time_column("at"),
    PrimaryKeyConstraint("run", "kind", "hash"),
)

# What an agent is to be told: an ask that ended, a message. In one capsule, that of `run`.
capsule_items = Table(
    "capsule_items",
    metadata,
    Column("id", ROWID, primary_key=True, autoincrement=True),
    text_column("agent", ForeignKey("agents.id")),
    text_column("kind"),
    text_column("ref"),
    count_column("depth"),
    time_column("at"),
    text_column("run", ForeignKey("runs.id"), null=True),
    UniqueConstraint("kind", "ref"),
    one_of("kind", CapsuleItem),
    Index(
        "ix_capsule_items_untold",
        "agent",
        "id",
        sqlite_where=text("run IS NULL"),
        postgresql_where=text("run IS NULL"),
    ),
    Index(None, "run"),
)

# Every lane that an agent was added to; one that is closed opens at a time: a provider's limit, whoever ran into it.
lanes = Table(
    "lanes",
    metadata,
    id_column(),
    time_column("opens_at"),
    count_column("closings"),
    text_column("reason", null=True),
)

# What was taken over from files of another channel, by the digest of its bytes: once.
imported = Table(
    "imported",
    metadata,
    id_column("digest"),
    text_column("name"),
    text_column("ask", ForeignKey("asks.id"), null=True),
    time_column("at"),
)
