"""Every table, once. The migrations build exactly this (a test compares), the roles name exactly these columns.

Times are integers: milliseconds since 1970 UTC by the database's clock. Ids are lower-case ULIDs except where a row
only needs an order. Enumerations are text with a CHECK. JSON is canonical text, written and read whole.
"""

from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from gitops_bot.core.asks import AskKind, AskState
from gitops_bot.core.principals import IdentityKind
from gitops_bot.core.verdicts import Channel, ClaimState, Decision
from gitops_bot.store.states import AgentKind, AgentState, RunState, TokenScope

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ROWID: Final = BigInteger().with_variant(Integer, "sqlite")


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """Check that a column holds a value of an enumeration."""
    allowed = ", ".join(f"'{value.value}'" for value in values)
    return CheckConstraint(f"{column} IN ({allowed})", name=column)


def id_column(name: str = "id") -> Column[Any]:
    """Make a primary key of text."""
    return Column(name, Text, primary_key=True)


def text_column(name: str, *args: Any, null: bool = False) -> Column[Any]:
    """Make a text column."""
    return Column(name, Text, *args, nullable=null)


def time_column(name: str, *, null: bool = False) -> Column[Any]:
    """Make a column of milliseconds since 1970 UTC."""
    return Column(name, BigInteger, nullable=null)


def count_column(name: str, default: int = 0) -> Column[Any]:
    """Make a counter."""
    return Column(name, Integer, nullable=False, server_default=text(str(default)))


meta = Table("meta", metadata, id_column("key"), text_column("value"))

# Written by the owner's upgrade alone: no service's role may bless a changed schema.
schema_state = Table(
    "schema_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    text_column("digest"),
    CheckConstraint("id = 1", name="one_row"),
)

identities = Table(
    "identities",
    metadata,
    text_column("kind"),
    text_column("value"),
    text_column("principal"),
    text_column("source"),
    time_column("added_at"),
    time_column("revoked_at", null=True),
    text_column("revocation", null=True),
    PrimaryKeyConstraint("kind", "value"),
    one_of("kind", IdentityKind),
    CheckConstraint("source IN ('policy', 'enrolled')", name="source"),
    Index(None, "principal"),
)

policy_bundles = Table(
    "policy_bundles",
    metadata,
    id_column("digest"),
    Column("version", Integer, nullable=False),
    Column("files", LargeBinary, nullable=False),
    time_column("stored_at"),
)

policy_in_force = Table(
    "policy_in_force",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    text_column("digest", ForeignKey("policy_bundles.digest")),
    text_column("ask", null=True),
    time_column("adopted_at"),
    CheckConstraint("id = 1", name="one_row"),
)

agents = Table(
    "agents",
    metadata,
    id_column(),
    Column("slug", Text, nullable=False, unique=True),
    text_column("kind"),
    text_column("principal"),
    text_column("owner", null=True),
    text_column("purpose"),
    text_column("state"),
    text_column("pause_reason", null=True),
    time_column("created_at"),
    one_of("kind", AgentKind),
    one_of("state", AgentState),
)

runs = Table(
    "runs",
    metadata,
    id_column(),
    text_column("agent", ForeignKey("agents.id")),
    text_column("kind"),
    count_column("version", 1),
    text_column("state"),
    time_column("started_at"),
    time_column("ended_at", null=True),
    text_column("outcome", null=True),
    one_of("state", RunState),
    CheckConstraint("kind IN ('agent', 'loop', 'request')", name="kind"),
    Index(None, "agent"),
    # One live run an agent; loops and requests of one token may be many.
    Index(
        "ux_runs_live",
        "agent",
        unique=True,
        sqlite_where=text("state = 'live' AND kind = 'agent'"),
        postgresql_where=text("state = 'live' AND kind = 'agent'"),
    ),
)

agent_tokens = Table(
    "agent_tokens",
    metadata,
    id_column(),
    text_column("agent", ForeignKey("agents.id")),
    text_column("scope"),
    text_column("run", ForeignKey("runs.id"), null=True),
    Column("hash", Text, nullable=False, unique=True),
    time_column("created_at"),
    time_column("expires_at", null=True),
    time_column("revoked_at", null=True),
    one_of("scope", TokenScope),
    Index(None, "run"),
)

loops = Table(
    "loops",
    metadata,
    id_column(),
    text_column("agent", ForeignKey("agents.id")),
    text_column("run", ForeignKey("runs.id")),
    text_column("address"),
    text_column("broker_token"),
    Column("log_seq", BigInteger, nullable=False, server_default=text("0")),
    time_column("registered_at"),
    time_column("shutdown_at", null=True),
    count_column("shares_user", 1),
    count_column("open_bridge"),
)

asks = Table(
    "asks",
    metadata,
    id_column(),
    text_column("kind"),
    text_column("state"),
    text_column("verb", null=True),
    text_column("text"),
    text_column("why"),
    Column("action", LargeBinary, nullable=True),
    text_column("action_hash"),
    text_column("policy"),
    text_column("agent", ForeignKey("agents.id")),
    text_column("run", ForeignKey("runs.id")),
    Column("run_version", Integer, nullable=False),
    text_column("requester"),
    text_column("owner", null=True),
    text_column("assignee", null=True),
    time_column("snoozed_until", null=True),
    time_column("due_at", null=True),
    time_column("opened_at"),
    time_column("expires_at", null=True),
    time_column("ended_at", null=True),
    text_column("ended_by", null=True),
    text_column("end_reason", null=True),
    text_column("supersedes", ForeignKey("asks.id"), null=True),
    text_column("superseded_by", null=True),
    text_column("idempotency_key", null=True),
    text_column("request_hash", null=True),
    UniqueConstraint("agent", "idempotency_key"),
    one_of("kind", AskKind),
    one_of("state", AskState),
    CheckConstraint("(state = 'OPEN') = (ended_at IS NULL)", name="ended"),
    CheckConstraint("(kind = 'question') = (action IS NULL)", name="bound"),
    # The same action asked again by the same agent is the same open ask.
    Index(
        "ux_asks_open_action",
        "agent",
        "action_hash",
        unique=True,
        sqlite_where=text("state = 'OPEN' AND kind <> 'question'"),
        postgresql_where=text("state = 'OPEN' AND kind <> 'question'"),
    ),
    Index("ix_asks_open", "id", sqlite_where=text("state = 'OPEN'"), postgresql_where=text("state = 'OPEN'")),
    # What an agent has open is counted at each ask; what it ever asked does not slow that down.
    Index(
        "ix_asks_open_agent",
        "agent",
        "kind",
        sqlite_where=text("state = 'OPEN'"),
        postgresql_where=text("state = 'OPEN'"),
    ),
    Index(None, "run"),
    Index(None, "action_hash"),
    # What a person's inbox walks, the newest first, however many are open.
    Index(
        "ix_asks_open_verb", "verb", "id", sqlite_where=text("state = 'OPEN'"), postgresql_where=text("state = 'OPEN'")
    ),
    Index(
        "ix_asks_open_owner",
        "owner",
        "id",
        sqlite_where=text("state = 'OPEN' AND kind = 'question'"),
        postgresql_where=text("state = 'OPEN' AND kind = 'question'"),
    ),
    Index(
        "ix_asks_approved",
        "verb",
        "id",
        sqlite_where=text("state = 'APPROVED'"),
        postgresql_where=text("state = 'APPROVED'"),
    ),
    Index(None, "agent", "id"),
)

ask_options = Table(
    "ask_options",
    metadata,
    text_column("ask", ForeignKey("asks.id")),
    text_column("id"),
    text_column("label"),
    Column("position", Integer, nullable=False),
    PrimaryKeyConstraint("ask", "id"),
)

ask_candidates = Table(
    "ask_candidates",
    metadata,
    text_column("ask", ForeignKey("asks.id")),
    text_column("principal"),
    PrimaryKeyConstraint("ask", "principal"),
    Index(None, "principal", "ask"),
)

claims = Table(
    "claims",
    metadata,
    id_column(),
    text_column("channel"),
    text_column("source"),
    text_column("ask", null=True),
    text_column("state"),
    text_column("reason", null=True),
    text_column("facts"),
    Column("evidence", LargeBinary, nullable=True),
    count_column("attempts"),
    time_column("seen_at"),
    time_column("settled_at", null=True),
    UniqueConstraint("channel", "source"),
    one_of("channel", Channel),
    one_of("state", ClaimState),
    Index(None, "ask"),
    Index(None, "channel", "settled_at"),
)

votes = Table(
    "votes",
    metadata,
    text_column("ask", ForeignKey("asks.id")),
    text_column("principal"),
    Column("seq", Integer, nullable=False),
    text_column("decision"),
    text_column("option", null=True),
    text_column("text", null=True),
    text_column("channel"),
    text_column("action_hash"),
    text_column("policy"),
    Column("run_version", Integer, nullable=False),
    text_column("claim", null=True),
    Column("evidence", LargeBinary, nullable=False),
    text_column("idempotency_key", null=True),
    text_column("request_hash", null=True),
    time_column("cast_at"),
    PrimaryKeyConstraint("ask", "principal", "seq"),
    one_of("decision", Decision),
    one_of("channel", Channel),
    # One's first vote, and at most one own deny or revoke after an approve.
    CheckConstraint("seq = 1 OR (seq = 2 AND decision IN ('deny', 'revoke'))", name="seq"),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("ask", Text, ForeignKey("asks.id"), primary_key=True),
    text_column("state"),
    text_column("option", null=True),
    text_column("text", null=True),
    text_column("by"),
    time_column("at"),
    CheckConstraint("state IN ('APPROVED', 'DENIED', 'ANSWERED')", name="state"),
)

revocations = Table(
    "revocations",
    metadata,
    text_column("ask", ForeignKey("asks.id")),
    text_column("principal"),
    text_column("decision"),
    text_column("channel"),
    text_column("text", null=True),
    text_column("claim", null=True),
    Column("evidence", LargeBinary, nullable=False),
    time_column("at"),
    PrimaryKeyConstraint("ask", "principal"),
    CheckConstraint("decision IN ('deny', 'revoke', 'moved')", name="decision"),
    one_of("channel", Channel),
)
