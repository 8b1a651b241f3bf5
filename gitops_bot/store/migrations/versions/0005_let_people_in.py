"""Let people in: passkeys, codes, ceremonies, sessions, shells, notices, preferences, and what an inbox walks

Revision: 0005 after 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
phase = "expand"


def upgrade() -> None:
    _columns()
    _credentials()
    _people()
    _inbox()


def _columns() -> None:
    for name in ("id", "kind", "method", "credential", "label"):
        op.add_column("sessions", sa.Column(name, sa.Text(), nullable=True))
    for name in ("seen_at", "asserted_at"):
        op.add_column("sessions", sa.Column(name, sa.BigInteger(), nullable=True))


def _credentials() -> None:
    op.create_table(
        "passkeys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("sign_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("transports", sa.Text(), nullable=False),
        sa.Column("aaguid", sa.Text(), nullable=False),
        sa.Column("backed_up", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("rests_until", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_passkeys")),
    )
    op.create_index(op.f("ix_passkeys_principal"), "passkeys", ["principal"], unique=False)
    op.create_table(
        "enrolment_codes",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_enrolment_codes")),
    )
    op.create_table(
        "ceremonies",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("challenge", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=True),
        sa.Column("session", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('enrol', 'sign_in', 'fresh', 'verdict', 'oidc')", name=op.f("ck_ceremonies_kind")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ceremonies")),
    )
    op.create_index(op.f("ix_ceremonies_expires_at"), "ceremonies", ["expires_at"], unique=False)
    op.create_table(
        "logins",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=True),
        sa.Column("confirmed_at", sa.BigInteger(), nullable=True),
        sa.Column("credential", sa.Text(), nullable=True),
        sa.Column("taken_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_logins")),
        sa.UniqueConstraint("code", name=op.f("uq_logins_code")),
    )


def _people() -> None:
    op.create_table(
        "notices",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
    op.create_index(op.f("ix_notices_principal_id"), "notices", ["principal", "id"], unique=False)
    op.create_table(
        "preferences",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("single_keys", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("single_keys IN (0, 1)", name=op.f("ck_preferences_single_keys")),
        sa.PrimaryKeyConstraint("principal", name=op.f("pk_preferences")),
    )
    op.create_table(
        "snoozes",
        sa.Column("ask", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["ask"], ["asks.id"], name=op.f("fk_snoozes_ask")),
        sa.PrimaryKeyConstraint("ask", "principal", name=op.f("pk_snoozes")),
    )


def _inbox() -> None:
    for name, columns, where in (
        ("ix_asks_open_verb", ["verb", "id"], "state = 'OPEN'"),
        ("ix_asks_open_owner", ["owner", "id"], "state = 'OPEN' AND kind = 'question'"),
        ("ix_asks_approved", ["verb", "id"], "state = 'APPROVED'"),
    ):
        op.create_index(
            name, "asks", columns, unique=False, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
        )
    op.create_index(op.f("ix_asks_agent_id"), "asks", ["agent", "id"], unique=False)
    op.create_index(
        op.f("ix_ask_candidates_principal_ask"), "ask_candidates", ["principal", "ask"], unique=False
    )
