"""The signed channel's tables: requests, branches, what became of each commit, raw votes, grants, executions, holds,
suspensions.

Only the broker's role writes them, but for holds, and for what a person on the host does: thaw a branch, suspend.

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
    text,
)

from gitops_bot.store.states import BranchState, CommitState, EffectState, GrantState
from gitops_bot.store.tables import count_column, id_column, metadata, one_of, text_column, time_column

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

signed_requests = Table(
    "signed_requests",
    metadata,
    Column("ask", Text, ForeignKey("asks.id"), primary_key=True),
    Column("content", LargeBinary, nullable=False),
    time_column("stored_at"),
)

signed_branches = Table(
    "signed_branches",
    metadata,
    id_column("person"),
    text_column("state"),
    text_column("tip", null=True),
    text_column("root", null=True),
    text_column("seen", null=True),
    text_column("reason", null=True),
    text_column("detail", null=True),
    time_column("looked_at"),
    time_column("changed_at"),
    one_of("state", BranchState),
)

signed_commits = Table(
    "signed_commits",
    metadata,
    text_column("person"),
    text_column("commit_id"),
    Column("position", Integer, nullable=False),
    text_column("state"),
    text_column("code", null=True),
    text_column("detail", null=True),
    text_column("ask", null=True),
    text_column("decision", null=True),
    text_column("key", null=True),
    count_column("attempts"),
    time_column("received_at"),
    time_column("judged_at", null=True),
    PrimaryKeyConstraint("person", "commit_id"),
    one_of("state", CommitState),
    Index(
        "ix_signed_commits_unjudged",
        "person",
        "position",
        sqlite_where=text("state <> 'judged'"),
        postgresql_where=text("state <> 'judged'"),
    ),
    Index(None, "ask"),
)

signature_results = Table(
    "signature_results",
    metadata,
    text_column("commit_id"),
    text_column("key_set"),
    text_column("result"),
    time_column("stored_at"),
    PrimaryKeyConstraint("commit_id", "key_set"),
)

key_revocations = Table(
    "key_revocations",
    metadata,
    id_column("key"),
    text_column("kind"),
    time_column("at", null=True),
    time_column("seen_at"),
    CheckConstraint("kind IN ('hard', 'soft')", name="kind"),
)

key_counters = Table(
    "key_counters",
    metadata,
    id_column("key"),
    Column("counter", BigInteger, nullable=False),
    time_column("seen_at"),
)

suspensions = Table(
    "suspensions",
    metadata,
    id_column(),
    text_column("principal"),
    Column("suspended", Integer, nullable=False),
    text_column("reason", null=True),
    time_column("at"),
    CheckConstraint("suspended IN (0, 1)", name="suspended"),
    Index(None, "principal"),
)
