"""The signed channel's tables: raw votes, grants, executions, holds. Only the broker's role writes the first three.

Same rules as `store.tables`, whose metadata they share.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from gitops_bot.store.states import EffectState, GrantState
from gitops_bot.store.tables import id_column, metadata, one_of, text_column, time_column

signed_votes = Table(
    "signed_votes",
    metadata,
    text_column("ask", ForeignKey("asks.id")),
    text_column("principal"),
    Column("seq", Integer, nullable=False),
    text_column("decision"),
    text_column("commit_id"),
    Column("raw_commit", LargeBinary, nullable=False),
    Column("raw_blob", LargeBinary, nullable=False),
    text_column("key_kind"),
    text_column("key"),
    Column("counter", BigInteger, nullable=True),
    text_column("key_set"),
    time_column("received_at"),
    PrimaryKeyConstraint("ask", "principal", "seq"),
    CheckConstraint("decision IN ('approve', 'deny', 'revoke')", name="decision"),
)

grants = Table(
    "grants",
    metadata,
    id_column(),
    Column("ask", Text, ForeignKey("asks.id"), nullable=False, unique=True),
    text_column("action_hash"),
    text_column("state"),
    Column("epoch", Integer, nullable=False),
    time_column("minted_at"),
    time_column("spend_after"),
    time_column("spend_before"),
    time_column("ended_at", null=True),
    text_column("nonce", null=True),
    one_of("state", GrantState),
)

executions = Table(
    "executions",
    metadata,
    id_column(),
    text_column("grant", ForeignKey("grants.id"), null=True),
    text_column("ask", ForeignKey("asks.id")),
    text_column("action_hash"),
    text_column("state"),
    text_column("result", null=True),
    time_column("created_at"),
    time_column("attempted_at", null=True),
    time_column("ended_at", null=True),
    one_of("state", EffectState),
)

holds = Table(
    "holds",
    metadata,
    id_column(),
    text_column("ask", ForeignKey("asks.id")),
    text_column("principal"),
    text_column("reason", null=True),
    time_column("placed_at"),
    time_column("until"),
    Index(None, "ask"),
)
