"""Lay the ground

Revision: 0001 after .
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
phase = "expand"  # or "contract": only what no running version reads or writes any more (docs/adr/0012)


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('agent', 'loop', 'application')", name=op.f("ck_agents_kind")),
        sa.CheckConstraint("state IN ('draft', 'active', 'paused', 'retired')", name=op.f("ck_agents_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
        sa.UniqueConstraint("slug", name=op.f("uq_agents_slug")),
    )
    op.create_table(
        "claims",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("evidence", sa.LargeBinary(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "channel IN ('workspace', 'forge', 'operator', 'app', 'signed')", name=op.f("ck_claims_channel")
        ),
        sa.CheckConstraint("state IN ('new', 'held', 'counted', 'refused', 'ignored')", name=op.f("ck_claims_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claims")),
        sa.UniqueConstraint("channel", "source", name=op.f("uq_claims_channel_source")),
    )
    op.create_index(op.f("ix_claims_ask"), "claims", ["ask"], unique=False)
    op.create_index(op.f("ix_claims_channel_settled_at"), "claims", ["channel", "settled_at"], unique=False)
    op.create_table(
        "cursors",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cursors")),
    )
    op.create_table(
        "due",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("duty", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("leased", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("nudged", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_due")),
        sa.UniqueConstraint("duty", "key", name=op.f("uq_due_duty_key")),
    )
    op.create_index(op.f("ix_due_duty_due_at"), "due", ["duty", "due_at"], unique=False)
    op.create_table(
        "effects",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("replace_key", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("reply_kind", sa.Text(), nullable=True),
        sa.Column("reply_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempted_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'attempting', 'done', 'failed', 'unknown')", name=op.f("ck_effects_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_effects")),
        sa.UniqueConstraint("key", name=op.f("uq_effects_key")),
    )
    op.create_index(
        "ix_effects_lane_open",
        "effects",
        ["lane", "id"],
        unique=False,
        sqlite_where=sa.text("state IN ('pending', 'attempting')"),
        postgresql_where=sa.text("state IN ('pending', 'attempting')"),
    )
    op.create_index(
        "ux_effects_replace",
        "effects",
        ["lane", "replace_key"],
        unique=True,
        sqlite_where=sa.text("state = 'pending' AND replace_key IS NOT NULL"),
        postgresql_where=sa.text("state = 'pending' AND replace_key IS NOT NULL"),
    )
    op.create_table(
        "identities",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("added_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revocation", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('github', 'passkey', 'oidc', 'openpgp', 'ssh')", name=op.f("ck_identities_kind")),
        sa.CheckConstraint("source IN ('policy', 'enrolled')", name=op.f("ck_identities_source")),
        sa.PrimaryKeyConstraint("kind", "value", name=op.f("pk_identities")),
    )
    op.create_index(op.f("ix_identities_principal"), "identities", ["principal"], unique=False)
    op.create_table(
        "ledger",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=True),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("capture", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("principal", sa.Text(), nullable=True),
        sa.Column("channel", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger")),
    )
    op.create_index(op.f("ix_ledger_ask"), "ledger", ["ask"], unique=False)
    op.create_index(op.f("ix_ledger_capture"), "ledger", ["capture"], unique=False)
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "policy_bundles",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("files", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_policy_bundles")),
    )
    op.create_table(
        "schema_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_schema_state_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_state")),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_principal"), "sessions", ["principal"], unique=False)
    op.create_table(
        "ledger_seals",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("entry", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("sealed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["entry"], ["ledger.id"], name=op.f("fk_ledger_seals_entry")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ledger_seals")),
        sa.UniqueConstraint("entry", name=op.f("uq_ledger_seals_entry")),
    )
    op.create_table(
        "policy_in_force",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=True),
        sa.Column("adopted_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_policy_in_force_one_row")),
        sa.ForeignKeyConstraint(["digest"], ["policy_bundles.digest"], name=op.f("fk_policy_in_force_digest")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_policy_in_force")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('agent', 'loop', 'request')", name=op.f("ck_runs_kind")),
        sa.CheckConstraint("state IN ('live', 'parked', 'ended')", name=op.f("ck_runs_state")),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_runs_agent")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_agent"), "runs", ["agent"], unique=False)
    op.create_index(
        "ux_runs_live",
        "runs",
        ["agent"],
        unique=True,
        sqlite_where=sa.text("state = 'live' AND kind = 'agent'"),
        postgresql_where=sa.text("state = 'live' AND kind = 'agent'"),
    )
    op.create_table(
        "agent_tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("scope IN ('agent', 'loop', 'run')", name=op.f("ck_agent_tokens_scope")),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_agent_tokens_agent")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_agent_tokens_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_agent_tokens_hash")),
    )
    op.create_index(op.f("ix_agent_tokens_run"), "agent_tokens", ["run"], unique=False)
    op.create_table(
        "asks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("action", sa.LargeBinary(), nullable=True),
        sa.Column("action_hash", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("run_version", sa.Integer(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("assignee", sa.Text(), nullable=True),
        sa.Column("snoozed_until", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.Column("supersedes", sa.Text(), nullable=True),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=True),
        sa.CheckConstraint("(kind = 'question') = (action IS NULL)", name=op.f("ck_asks_bound")),
        sa.CheckConstraint("(state = 'OPEN') = (ended_at IS NULL)", name=op.f("ck_asks_ended")),
        sa.CheckConstraint("kind IN ('question', 'approval', 'gated')", name=op.f("ck_asks_kind")),
        sa.CheckConstraint(
            "state IN ('OPEN', 'APPROVED', 'DENIED', 'ANSWERED', 'WITHDRAWN', 'EXPIRED', 'SUPERSEDED')",
            name=op.f("ck_asks_state"),
        ),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_asks_agent")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_asks_run")),
        sa.ForeignKeyConstraint(["supersedes"], ["asks.id"], name=op.f("fk_asks_supersedes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asks")),
        sa.UniqueConstraint("agent", "idempotency_key", name=op.f("uq_asks_agent_idempotency_key")),
    )
    op.create_index(op.f("ix_asks_action_hash"), "asks", ["action_hash"], unique=False)
    op.create_index(
        "ix_asks_open",
        "asks",
        ["id"],
        unique=False,
        sqlite_where=sa.text("state = 'OPEN'"),
        postgresql_where=sa.text("state = 'OPEN'"),
    )
    op.create_index(
        "ix_asks_open_agent",
        "asks",
        ["agent", "kind"],
        unique=False,
        sqlite_where=sa.text("state = 'OPEN'"),
        postgresql_where=sa.text("state = 'OPEN'"),
    )
    op.create_index(op.f("ix_asks_run"), "asks", ["run"], unique=False)
    op.create_index(
        "ux_asks_open_action",
        "asks",
        ["agent", "action_hash"],
        unique=True,
        sqlite_where=sa.text("state = 'OPEN' AND kind <> 'question'"),
        postgresql_where=sa.text("state = 'OPEN' AND kind <> 'question'"),
    )
    op.create_table(
        "loops",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("broker_token", sa.Text(), nullable=False),
        sa.Column("log_seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("shutdown_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_loops_agent")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_loops_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_loops")),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("ask", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("author_kind", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("author_kind IN ('person', 'agent', 'system')", name=op.f("ck_messages_author_kind")),
        sa.CheckConstraint("kind IN ('message', 'report', 'notice')", name=op.f("ck_messages_kind")),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_messages_agent")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_messages_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index(op.f("ix_messages_agent_id"), "messages", ["agent", "id"], unique=False)
    op.create_table(
        "ask_candidates",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_ask_candidates_ask")),
        sa.PrimaryKeyConstraint("ask", "principal", name=op.f("pk_ask_candidates")),
    )
    op.create_table(
        "ask_options",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_ask_options_ask")),
        sa.PrimaryKeyConstraint("ask", "id", name=op.f("pk_ask_options")),
    )
    op.create_table(
        "backlog",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("entered_at", sa.BigInteger(), nullable=False),
        sa.Column("reopened_as", sa.Text(), nullable=True),
        sa.Column("reopened_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_backlog_ask")),
        sa.ForeignKeyConstraint(["reopened_as"], ["asks.id"], name=op.f("fk_backlog_reopened_as")),
        sa.PrimaryKeyConstraint("ask", name=op.f("pk_backlog")),
    )
    op.create_table(
        "captures",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("artefact", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("knobs", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("successor", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("moved_heads", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("pull_request", sa.Integer(), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("head", sa.Text(), nullable=True),
        sa.Column("base", sa.Text(), nullable=True),
        sa.Column("status_comment", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint(
            "state IN ('REQUESTED', 'APPROVED', 'SUBMITTED', 'RUNNING', 'READY', 'RESCOPED', 'DENIED', 'FAILED', 'CANCELLED')",
            name=op.f("ck_captures_state"),
        ),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"], name=op.f("fk_captures_agent")),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_captures_ask")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_captures_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captures")),
    )
    op.create_index(op.f("ix_captures_ask"), "captures", ["ask"], unique=False)
    op.create_index(
        op.f("ix_captures_repository_pull_request"), "captures", ["repository", "pull_request"], unique=False
    )
    op.create_index(op.f("ix_captures_trace_id_state"), "captures", ["trace_id", "state"], unique=False)
    op.create_index(
        "ux_captures_active",
        "captures",
        ["environment", "trace_id"],
        unique=True,
        sqlite_where=sa.text("state IN ('REQUESTED', 'APPROVED', 'SUBMITTED', 'RUNNING')"),
        postgresql_where=sa.text("state IN ('REQUESTED', 'APPROVED', 'SUBMITTED', 'RUNNING')"),
    )
    op.create_table(
        "grants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("action_hash", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("minted_at", sa.BigInteger(), nullable=False),
        sa.Column("spend_after", sa.BigInteger(), nullable=False),
        sa.Column("spend_before", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("nonce", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('MINTED', 'SPENT', 'REVOKED', 'LAPSED')", name=op.f("ck_grants_state")),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_grants_ask")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grants")),
        sa.UniqueConstraint("ask", name=op.f("uq_grants_ask")),
    )
    op.create_table(
        "holds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("placed_at", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_holds_ask")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_holds")),
    )
    op.create_index(op.f("ix_holds_ask"), "holds", ["ask"], unique=False)
    op.create_table(
        "revocations",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("evidence", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "channel IN ('workspace', 'forge', 'operator', 'app', 'signed')", name=op.f("ck_revocations_channel")
        ),
        sa.CheckConstraint("decision IN ('deny', 'revoke', 'moved')", name=op.f("ck_revocations_decision")),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_revocations_ask")),
        sa.PrimaryKeyConstraint("ask", "principal", name=op.f("pk_revocations")),
    )
    op.create_table(
        "signed_votes",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("commit_id", sa.Text(), nullable=False),
        sa.Column("raw_commit", sa.LargeBinary(), nullable=False),
        sa.Column("raw_blob", sa.LargeBinary(), nullable=False),
        sa.Column("key_kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=True),
        sa.Column("key_set", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("decision IN ('approve', 'deny', 'revoke')", name=op.f("ck_signed_votes_decision")),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_signed_votes_ask")),
        sa.PrimaryKeyConstraint("ask", "principal", "seq", name=op.f("pk_signed_votes")),
    )
    op.create_table(
        "verdicts",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("option", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('APPROVED', 'DENIED', 'ANSWERED')", name=op.f("ck_verdicts_state")),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_verdicts_ask")),
        sa.PrimaryKeyConstraint("ask", name=op.f("pk_verdicts")),
    )
    op.create_table(
        "votes",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("option", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("action_hash", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("run_version", sa.Integer(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("evidence", sa.LargeBinary(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=True),
        sa.Column("cast_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "channel IN ('workspace', 'forge', 'operator', 'app', 'signed')", name=op.f("ck_votes_channel")
        ),
        sa.CheckConstraint("decision IN ('approve', 'deny', 'revoke', 'answer')", name=op.f("ck_votes_decision")),
        sa.CheckConstraint("seq = 1 OR (seq = 2 AND decision IN ('deny', 'revoke'))", name=op.f("ck_votes_seq")),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_votes_ask")),
        sa.PrimaryKeyConstraint("ask", "principal", "seq", name=op.f("pk_votes")),
    )
    op.create_table(
        "waiters",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('capture', 'run', 'task', 'call', 'request')", name=op.f("ck_waiters_kind")),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_waiters_ask")),
        sa.PrimaryKeyConstraint("ask", "kind", "id", name=op.f("pk_waiters")),
    )
    op.create_index(op.f("ix_waiters_kind_id"), "waiters", ["kind", "id"], unique=False)
    op.create_table(
        "capture_seats",
        sa.Column("capture", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("loop", sa.Text(), nullable=False),
        sa.Column("run_version", sa.Integer(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("joined_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("mode IN ('block', 'continue')", name=op.f("ck_capture_seats_mode")),
        sa.CheckConstraint("state IN ('waiting', 'rescoped', 'denied', 'gone')", name=op.f("ck_capture_seats_state")),
        sa.ForeignKeyConstraint(["capture"], ["captures.id"], name=op.f("fk_capture_seats_capture")),
        sa.ForeignKeyConstraint(["loop"], ["loops.id"], name=op.f("fk_capture_seats_loop")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_capture_seats_run")),
        sa.PrimaryKeyConstraint("capture", "run", "run_version", name=op.f("pk_capture_seats")),
    )
    op.create_index(op.f("ix_capture_seats_loop_state"), "capture_seats", ["loop", "state"], unique=False)
    op.create_index(op.f("ix_capture_seats_run"), "capture_seats", ["run"], unique=False)
    op.create_table(
        "executions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("grant", sa.Text(), nullable=True),
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("action_hash", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempted_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'attempting', 'done', 'failed', 'unknown')", name=op.f("ck_executions_state")
        ),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_executions_ask")),
        sa.ForeignKeyConstraint(["grant"], ["grants.id"], name=op.f("fk_executions_grant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_executions")),
    )
    op.create_table(
        "pull_requests",
        sa.Column("repository", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("capture", sa.Text(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_pull_requests_ask")),
        sa.ForeignKeyConstraint(["capture"], ["captures.id"], name=op.f("fk_pull_requests_capture")),
        sa.PrimaryKeyConstraint("repository_id", "number", name=op.f("pk_pull_requests")),
    )
    op.create_index(op.f("ix_pull_requests_capture"), "pull_requests", ["capture"], unique=False)
    op.create_index(op.f("ix_pull_requests_repository"), "pull_requests", ["repository"], unique=False)
    _append_only()


APPEND_ONLY = ("ledger", "ledger_seals", "votes", "verdicts", "revocations", "signed_votes", "policy_bundles")


def _append_only() -> None:
    """Let nobody change or remove what happened, the owner included, while the triggers stand."""
    if op.get_bind().dialect.name == "sqlite":
        for table in APPEND_ONLY:
            for verb in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
        return
    op.execute(
        "CREATE FUNCTION gitops_bot_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME "
        "USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION gitops_bot_append_only()"
        )
