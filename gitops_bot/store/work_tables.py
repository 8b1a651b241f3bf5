"""The tables of work under way: waiters, due rows, effects, captures, threads, and the ledger with its seals.

Same rules as `store.tables`, whose metadata they share.
"""

from sqlalchemy import (
    BigInteger,
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

from gitops_bot.core.captures import CaptureState
from gitops_bot.store.states import EffectState, SeatState, WaiterKind
from gitops_bot.store.tables import ROWID, count_column, id_column, metadata, one_of, text_column, time_column

waiters = Table(
    "waiters",
    metadata,
    text_column("ask", ForeignKey("asks.id")),
    text_column("kind"),
    text_column("id"),
    time_column("due_at", null=True),
    text_column("cause", null=True),
    PrimaryKeyConstraint("ask", "kind", "id"),
    one_of("kind", WaiterKind),
    Index(None, "kind", "id"),
)

due = Table(
    "due",
    metadata,
    Column("id", ROWID, primary_key=True, autoincrement=True),
    text_column("duty"),
    text_column("key"),
    time_column("due_at"),
    count_column("leased"),
    count_column("nudged"),
    count_column("attempts"),
    count_column("version"),
    text_column("last_error", null=True),
    UniqueConstraint("duty", "key"),
    Index(None, "duty", "due_at"),
)

effects = Table(
    "effects",
    metadata,
    Column("id", ROWID, primary_key=True, autoincrement=True),
    Column("key", Text, nullable=False, unique=True),
    text_column("lane"),
    text_column("replace_key", null=True),
    text_column("kind"),
    text_column("payload"),
    text_column("reply_kind", null=True),
    text_column("reply_id", null=True),
    text_column("state"),
    count_column("attempts"),
    time_column("created_at"),
    time_column("attempted_at", null=True),
    time_column("ended_at", null=True),
    text_column("result", null=True),
    text_column("last_error", null=True),
    one_of("state", EffectState),
    Index(
        "ix_effects_lane_open",
        "lane",
        "id",
        sqlite_where=text("state IN ('pending', 'attempting')"),
        postgresql_where=text("state IN ('pending', 'attempting')"),
    ),
    # A pending edit is overwritten, not queued behind itself.
    Index(
        "ux_effects_replace",
        "lane",
        "replace_key",
        unique=True,
        sqlite_where=text("state = 'pending' AND replace_key IS NOT NULL"),
        postgresql_where=text("state = 'pending' AND replace_key IS NOT NULL"),
    ),
)

captures = Table(
    "captures",
    metadata,
    id_column(),
    text_column("trace_id"),
    text_column("environment"),
    text_column("repository"),
    text_column("state"),
    text_column("ask", ForeignKey("asks.id"), null=True),
    text_column("agent", ForeignKey("agents.id")),
    text_column("run", ForeignKey("runs.id")),
    text_column("requester"),
    text_column("why"),
    text_column("artefact", null=True),
    text_column("digest", null=True),
    text_column("knobs", null=True),
    text_column("error", null=True),
    count_column("attempt"),
    count_column("successor"),
    count_column("moved_heads"),
    text_column("branch", null=True),
    Column("pull_request", Integer, nullable=True),
    text_column("url", null=True),
    text_column("head", null=True),
    text_column("base", null=True),
    Column("status_comment", BigInteger, nullable=True),
    time_column("created_at"),
    time_column("updated_at"),
    time_column("ready_at", null=True),
    count_column("version"),
    one_of("state", CaptureState),
    Index(
        "ux_captures_active",
        "environment",
        "trace_id",
        unique=True,
        sqlite_where=text("state IN ('REQUESTED', 'APPROVED', 'SUBMITTED', 'RUNNING')"),
        postgresql_where=text("state IN ('REQUESTED', 'APPROVED', 'SUBMITTED', 'RUNNING')"),
    ),
    Index(None, "trace_id", "state"),
    Index(None, "ask"),
    Index(None, "repository", "pull_request"),
)

capture_seats = Table(
    "capture_seats",
    metadata,
    text_column("capture", ForeignKey("captures.id")),
    text_column("run", ForeignKey("runs.id")),
    text_column("loop", ForeignKey("loops.id")),
    Column("run_version", Integer, nullable=False),
    text_column("mode"),
    text_column("state"),
    time_column("joined_at"),
    time_column("ended_at", null=True),
    PrimaryKeyConstraint("capture", "run", "run_version"),
    one_of("state", SeatState),
    CheckConstraint("mode IN ('block', 'continue')", name="mode"),
    Index(None, "loop", "state"),
    Index(None, "run"),
)

pull_requests = Table(
    "pull_requests",
    metadata,
    text_column("repository"),
    Column("number", Integer, nullable=False),
    Column("repository_id", BigInteger, nullable=False),
    text_column("capture", ForeignKey("captures.id")),
    text_column("ask", ForeignKey("asks.id")),
    text_column("branch"),
    text_column("head"),
    text_column("base"),
    time_column("opened_at"),
    time_column("closed_at", null=True),
    PrimaryKeyConstraint("repository_id", "number"),
    Index(None, "capture"),
    Index(None, "repository"),
)

messages = Table(
    "messages",
    metadata,
    Column("id", ROWID, primary_key=True, autoincrement=True),
    text_column("agent", ForeignKey("agents.id")),
    text_column("run", ForeignKey("runs.id"), null=True),
    text_column("ask", null=True),
    text_column("kind"),
    text_column("author_kind"),
    text_column("author"),
    text_column("text"),
    time_column("at"),
    CheckConstraint("kind IN ('message', 'report', 'notice')", name="kind"),
    CheckConstraint("author_kind IN ('person', 'agent', 'system')", name="author_kind"),
    Index(None, "agent", "id"),
)

backlog = Table(
    "backlog",
    metadata,
    Column("ask", Text, ForeignKey("asks.id"), primary_key=True),
    text_column("cause"),
    time_column("entered_at"),
    text_column("reopened_as", ForeignKey("asks.id"), null=True),
    text_column("reopened_by", null=True),
)

ledger = Table(
    "ledger",
    metadata,
    Column("id", ROWID, primary_key=True, autoincrement=True),
    text_column("kind"),
    time_column("at"),
    text_column("ask", null=True),
    text_column("run", null=True),
    text_column("capture", null=True),
    text_column("agent", null=True),
    text_column("principal", null=True),
    text_column("channel", null=True),
    text_column("reason", null=True),
    text_column("facts"),
    Index(None, "ask"),
    Index(None, "capture"),
)

ledger_seals = Table(
    "ledger_seals",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("entry", ROWID, ForeignKey("ledger.id"), nullable=False, unique=True),
    text_column("hash"),
    time_column("sealed_at"),
)

# What the forge delivered, by its own id: seen once, whatever route it came by. Purged after some days.
hook_deliveries = Table(
    "hook_deliveries",
    metadata,
    id_column(),
    text_column("event"),
    text_column("action", null=True),
    Column("repository", BigInteger, nullable=True),
    text_column("subject", null=True),
    time_column("seen_at"),
    Index(None, "seen_at"),
)

# Ids of tokens that are good once, until they would have ended anyway.
used_tokens = Table("used_tokens", metadata, id_column(), time_column("expires_at"), Index(None, "expires_at"))

cursors = Table("cursors", metadata, id_column("name"), text_column("value"), time_column("updated_at"))

sessions = Table(
    "sessions",
    metadata,
    id_column("hash"),
    text_column("principal"),
    time_column("created_at"),
    time_column("expires_at"),
    time_column("revoked_at", null=True),
    # Since revision 0005; a row without them is of no session that this version made, and stands for nobody.
    text_column("id", null=True),
    text_column("kind", null=True),
    text_column("method", null=True),
    text_column("credential", null=True),
    text_column("label", null=True),
    time_column("seen_at", null=True),
    time_column("asserted_at", null=True),
    Index(None, "principal"),
)
