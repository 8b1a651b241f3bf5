"""The tables of people at the workspace: passkeys, the codes that enrol them, ceremonies under way, sessions, shells
that wait to be confirmed, notices, preferences.

Same rules as `store.tables`, whose metadata they share. Nothing here is authority over a gated verb: the broker never
reads these tables for a grant.
"""

from enum import StrEnum
from typing import Final

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, text

from gitops_bot.store.tables import ROWID, asks, count_column, id_column, metadata, one_of, text_column, time_column


class Ceremony(StrEnum):
    """What a challenge was made for; it stands for nothing else. `fresh` confirms an act that is named in it."""

    ENROL = "enrol"
    SIGN_IN = "sign_in"
    FRESH = "fresh"
    VERDICT = "verdict"
    OIDC = "oidc"


class SessionKind(StrEnum):
    """Where a session is held: a browser's cookie, or a shell's credential."""

    BROWSER = "browser"
    SHELL = "shell"


class SessionMethod(StrEnum):
    """How its person proved who they are; a session by OIDC answers no bound ask."""

    PASSKEY = "passkey"
    OIDC = "oidc"


# Identities of passkeys are here and not in `identities`, which the workspace may not write.
passkeys: Final = Table(
    "passkeys",
    metadata,
    id_column(),  # the credential id, base64url without padding
    text_column("principal"),
    Column("public_key", LargeBinary, nullable=False),  # COSE
    count_column("sign_count"),
    text_column("label"),
    text_column("transports"),  # canonical JSON list
    text_column("aaguid"),
    count_column("backed_up"),
    time_column("created_at"),
    time_column("rests_until"),  # no bound answer before
    time_column("used_at", null=True),
    time_column("revoked_at", null=True),
    text_column("revoked_by", null=True),
    Index(None, "principal"),
)

# Only the broker's user can write one: the workspace's role may read and use, never insert.
enrolment_codes: Final = Table(
    "enrolment_codes",
    metadata,
    id_column("hash"),
    text_column("principal"),
    time_column("created_at"),
    time_column("expires_at"),
    time_column("used_at", null=True),
    count_column("attempts"),
)

ceremonies: Final = Table(
    "ceremonies",
    metadata,
    id_column(),  # the nonce
    text_column("kind"),
    text_column("challenge"),  # base64url of the bytes that the authenticator signs
    text_column("principal", null=True),
    text_column("session", null=True),
    text_column("body"),  # canonical JSON: the statements, the act, the code's hash; `{}` for a sign-in
    time_column("created_at"),
    time_column("expires_at"),
    time_column("used_at", null=True),
    one_of("kind", Ceremony),
    Index(None, "expires_at"),
)

# A shell that waits for a person to confirm it: `hash` is of what the shell keeps, `code` is what the person compares.
logins: Final = Table(
    "logins",
    metadata,
    id_column("hash"),
    Column("code", Text, nullable=False, unique=True),
    text_column("label"),
    time_column("created_at"),
    time_column("expires_at"),
    text_column("principal", null=True),
    time_column("confirmed_at", null=True),
    text_column("credential", null=True),  # the passkey that confirmed
    time_column("taken_at", null=True),
)

notices: Final = Table(
    "notices",
    metadata,
    Column("id", ROWID, primary_key=True, autoincrement=True),
    text_column("principal"),
    text_column("kind"),
    text_column("text"),
    time_column("at"),
    time_column("read_at", null=True),
    Index(None, "principal", "id"),
)

preferences: Final = Table(
    "preferences",
    metadata,
    id_column("principal"),
    Column("single_keys", Integer, nullable=False, server_default=text("1")),
    time_column("updated_at"),
    CheckConstraint("single_keys IN (0, 1)", name="single_keys"),
)

# One row an ask that a person put off; another person's inbox still has it.
snoozes: Final = Table(
    "snoozes",
    metadata,
    Column("ask", Text, ForeignKey(asks.c.id), primary_key=True),
    Column("principal", Text, primary_key=True),
    time_column("until"),
)
