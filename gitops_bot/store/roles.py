"""What each process may do to the database, by table and column; all else is refused.

One table of rights serves both engines: on SQLite a default-deny authorizer per connection (a list of what is denied
would not do: a connection that may CREATE plants a trigger that another's UPDATE fires), on PostgreSQL GRANTs to
group roles that the owner's migration makes. The SQLite authorizer guards against our own bugs and injection, not
against another program that has the file; PostgreSQL's roles do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import Engine, text

from gitops_bot.core.errors import ConfigError
from gitops_bot.store import fleet_tables, person_tables, signed_tables, tables, work_tables


class Role(StrEnum):
    """The processes that open the database. OWNER migrates and is never a service's role."""

    OWNER = "owner"
    BROKER = "broker"
    WORKSPACE = "workspace"
    HOST = "host"
    APPLICATION = "application"


@dataclass(frozen=True, slots=True)
class Right:
    """Rights on one table: readable columns, insertable or not, updatable columns, deletable or not."""

    read: frozenset[str]
    insert: bool = False
    update: frozenset[str] = frozenset()
    delete: bool = False


ALL: Final = "*"
_TABLES: Final = tables.metadata.tables
# Importing them put their tables into that metadata.
_FILLED_BY: Final = (fleet_tables, person_tables, signed_tables, work_tables)


def _right(table: str, read: str = ALL, insert: bool = False, update: str = "", delete: bool = False) -> Right:
    columns = frozenset(_TABLES[table].columns.keys())

    def pick(names: str) -> frozenset[str]:
        if names == ALL:
            return columns
        picked = frozenset(names.split())
        assert picked <= columns, (table, picked - columns)
        return picked

    return Right(pick(read), insert, pick(update), delete)


_SCHEMA: Final = ("schema_state",)
_SIGNED: Final = ("signed_requests", "signed_branches", "signed_commits")
_THAW: Final = "state tip root seen reason detail changed_at"
_ASK_END: Final = "state ended_at ended_by end_reason superseded_by"
_CAPTURE: Final = (
    "state ask artefact digest knobs error attempt successor moved_heads branch pull_request url head base "
    "status_comment updated_at ready_at version"
)


def _answering() -> dict[str, Right]:
    """The rights of whoever opens, answers and ends ordinary asks: broker, workspace and host."""
    read_only = ("meta", "identities", "policy_bundles", "policy_in_force", "signed_votes", "grants", "executions")
    return {
        **{name: _right(name) for name in (*read_only, *_SIGNED, *_SCHEMA, "suspensions")},
        "holds": _right("holds", insert=True),
        "agents": _right("agents", insert=True, update="state pause_reason owner purpose"),
        "agent_tokens": _right("agent_tokens", insert=True, update="revoked_at"),
        "runs": _right("runs", insert=True, update="state version ended_at outcome"),
        # The token by which the broker steers a loop is written by the workspace and read by the broker alone.
        "loops": _right(
            "loops",
            "id agent run address log_seq registered_at shutdown_at shares_user open_bridge",
            insert=True,
            update="run address broker_token log_seq registered_at shutdown_at shares_user open_bridge",
        ),
        "asks": _right("asks", insert=True, update=f"{_ASK_END} assignee snoozed_until due_at"),
        "ask_options": _right("ask_options", insert=True),
        "ask_candidates": _right("ask_candidates", insert=True),
        "claims": _right("claims", insert=True, update="state reason facts evidence ask attempts settled_at"),
        "votes": _right("votes", insert=True),
        "verdicts": _right("verdicts", insert=True),
        "revocations": _right("revocations", insert=True),
        "waiters": _right("waiters", insert=True, update="ask due_at cause", delete=True),
        "due": _right("due", insert=True, update="due_at leased nudged attempts version last_error", delete=True),
        "effects": _right("effects", insert=True, update="payload reply_kind reply_id created_at"),
        "captures": _right("captures", insert=True, update=_CAPTURE),
        "capture_seats": _right("capture_seats", insert=True, update="state ended_at"),
        "pull_requests": _right("pull_requests", insert=True, update="closed_at"),
        "messages": _right("messages", insert=True),
        "backlog": _right("backlog", insert=True, update="reopened_as reopened_by"),
        "ledger": _right("ledger", insert=True),
        "ledger_seals": _right("ledger_seals"),
        "cursors": _right("cursors"),
        **_people(),
        **_fleet(),
    }


def _fleet() -> dict[str, Right]:
    """What all three may do to the fleet: add agents, let them rest, wake them with what they are to be told. What
    bodies are started for and what they said is the broker's alone."""
    return {
        "fleet_agents": _right(
            "fleet_agents",
            insert=True,
            update="harness command folder lane policy cron zone wake_on turn_limit turns_a_day resting due_at "
            "due_reason wake_seq again blocked_ask",
        ),
        "capsule_items": _right("capsule_items", insert=True),
        **{name: _right(name) for name in ("dispatches", "dispatch_text", "landed", "imported")},
        "lanes": _right("lanes", insert=True),
    }


def _people() -> dict[str, Right]:
    """What all three may do to what people sign in with: end it, and read it. None of it mints."""
    return {
        "passkeys": _right("passkeys", update="revoked_at revoked_by"),
        "sessions": _right("sessions", update="revoked_at"),
        "notices": _right("notices", insert=True),
    }


def _workspace() -> dict[str, Right]:
    """The process that people sign in at: it uses codes and never makes one, which only the broker's user can."""
    return {
        **_answering(),
        "passkeys": _right("passkeys", insert=True, update="sign_count label backed_up used_at revoked_at revoked_by"),
        "enrolment_codes": _right("enrolment_codes", update="used_at attempts"),
        "ceremonies": _right("ceremonies", insert=True, update="used_at", delete=True),
        "sessions": _right("sessions", insert=True, update="expires_at revoked_at seen_at asserted_at", delete=True),
        "logins": _right("logins", insert=True, update="principal confirmed_at credential taken_at", delete=True),
        "notices": _right("notices", insert=True, update="read_at"),
        "hook_deliveries": _right("hook_deliveries", insert=True, delete=True),
        "used_tokens": _right("used_tokens", insert=True, delete=True),
        "preferences": _right("preferences", insert=True, update="single_keys updated_at"),
        "snoozes": _right("snoozes", insert=True, update="until", delete=True),
    }


def _broker() -> dict[str, Right]:
    return {
        **_answering(),
        # In which mode a loop waits is heard from the loop.
        "capture_seats": _right("capture_seats", insert=True, update="state ended_at mode"),
        "enrolment_codes": _right("enrolment_codes", insert=True, update="used_at", delete=True),
        "hook_deliveries": _right("hook_deliveries", insert=True, delete=True),
        "meta": _right("meta", insert=True, update="value"),
        "identities": _right("identities", insert=True, update="revoked_at revocation source principal"),
        "loops": _right(
            "loops",
            insert=True,
            update="run address broker_token log_seq registered_at shutdown_at shares_user open_bridge",
        ),
        "policy_bundles": _right("policy_bundles", insert=True),
        "policy_in_force": _right("policy_in_force", insert=True, update="digest ask adopted_at"),
        "signed_requests": _right("signed_requests", insert=True),
        "signed_branches": _right("signed_branches", insert=True, update=f"{_THAW} looked_at"),
        "signed_commits": _right(
            "signed_commits", insert=True, update="state code detail ask decision key attempts judged_at"
        ),
        "signature_results": _right("signature_results", insert=True),
        "key_revocations": _right("key_revocations", insert=True),
        "key_counters": _right("key_counters", insert=True, update="counter seen_at"),
        # An adopted bundle may reinstate whom the host suspended.
        "suspensions": _right("suspensions", insert=True),
        "signed_votes": _right("signed_votes", insert=True),
        "grants": _right("grants", insert=True, update="state ended_at nonce"),
        "executions": _right("executions", insert=True, update="state result attempted_at ended_at"),
        "effects": _right(
            "effects",
            insert=True,
            update="payload reply_kind reply_id created_at state attempts attempted_at ended_at result last_error",
        ),
        "ledger_seals": _right("ledger_seals", insert=True),
        "cursors": _right("cursors", insert=True, update="value updated_at"),
        "fleet_agents": _right(
            "fleet_agents",
            insert=True,
            update="harness command folder lane policy cron zone wake_on turn_limit turns_a_day session resting due_at "
            "due_reason wake_seq idle errors again outcome report blocked_ask settled_at",
        ),
        "capsule_items": _right("capsule_items", insert=True, update="run"),
        "dispatches": _right(
            "dispatches", insert=True, update="holder lease_until body_at ended_at stop exit_code detail outcome"
        ),
        "dispatch_text": _right("dispatch_text", insert=True, delete=True),
        "landed": _right("landed", insert=True),
        "lanes": _right("lanes", insert=True, update="opens_at closings reason"),
    }


def _host() -> dict[str, Right]:
    """A person's shell on the broker's host: also thaws a branch, which only decides from where it is read on, suspends
    and reinstates people, and explains signatures under what is remembered of keys."""
    return {
        **_answering(),
        "enrolment_codes": _right("enrolment_codes", insert=True, update="used_at", delete=True),
        "signed_branches": _right("signed_branches", update=_THAW),
        "key_revocations": _right("key_revocations"),
        "key_counters": _right("key_counters"),
        "suspensions": _right("suspensions", insert=True),
        "imported": _right("imported", insert=True),
        "snoozes": _right("snoozes"),
    }


def _application() -> dict[str, Right]:
    """An application that embeds the workflow SDK: its own asks of kind question; finer rules come with it."""
    names = ("meta", "identities", "agents", "runs", "asks", "ask_options", "ask_candidates", "votes", "verdicts")
    return {
        **{name: _right(name) for name in (*names, *_SCHEMA)},
        "runs": _right("runs", insert=True, update="state version ended_at outcome"),
        "asks": _right("asks", insert=True, update=_ASK_END),
        "ask_options": _right("ask_options", insert=True),
        "ask_candidates": _right("ask_candidates", insert=True),
        "votes": _right("votes", insert=True),
        "verdicts": _right("verdicts", insert=True),
        "waiters": _right("waiters", insert=True, update="due_at cause", delete=True),
        "due": _right("due", insert=True, update="due_at leased nudged attempts version last_error", delete=True),
        "ledger": _right("ledger", insert=True),
    }


RIGHTS: Final[Mapping[Role, Mapping[str, Right]]] = {
    Role.BROKER: _broker(),
    Role.WORKSPACE: _workspace(),
    Role.HOST: _host(),
    Role.APPLICATION: _application(),
}

_CATALOGUE: Final = {
    "sqlite_master": Right(frozenset({"type", "name", "tbl_name", "sql"})),
    "alembic_version": Right(frozenset({"version_num"})),
}
"""What the schema check reads."""

FUNCTIONS: Final = frozenset(
    {
        "julianday",
        "count",
        "min",
        "max",
        "sum",
        "coalesce",
        "lower",
        "length",
        "like",
        "raise",
        "substr",
        "group_concat",
    }
)

# Action codes of sqlite3_set_authorizer (sqlite.org/c3ref/c_alter_table.html).
_OK, _DENY = 0, 1
_FUNCTION, _SELECT, _TRANSACTION = 31, 21, 22

Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def authorizer(role: Role) -> Authorizer | None:
    """Make the default-deny authorizer of a role's SQLite connections; None for the owner, who migrates."""
    if role is Role.OWNER:
        return None
    rights = {**RIGHTS[role], **_CATALOGUE}

    def allows(action: int, first: str | None, second: str | None, schema: str | None) -> bool:
        if action in (_SELECT, _TRANSACTION):
            return True
        if action == _FUNCTION:
            return (second or "").lower() in FUNCTIONS
        right = rights.get(first or "")
        if right is None or schema not in ("main", None):
            return False
        match action:
            case 20:  # _READ; an empty column name is a count of rows
                return not second or second in right.read or second == "ROWID"
            case 18:  # _INSERT
                return right.insert
            case 23:  # _UPDATE
                return second in right.update
            case 9:  # _DELETE
                return right.delete
            case _:
                return False

    def decide(action: int, first: str | None, second: str | None, schema: str | None, _inner: str | None) -> int:
        return _OK if allows(action, first, second, schema) else _DENY

    return decide


def group(role: Role) -> str:
    """Name the PostgreSQL group role that carries a role's rights."""
    return f"gitops_bot_{role.value}"


def grants() -> list[str]:
    """Give the statements by which the owner makes the group roles and hands them exactly their rights."""
    statements = [
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        # Everybody may make temporary tables, unless told otherwise.
        "DO $$ BEGIN EXECUTE 'REVOKE CREATE, TEMPORARY ON DATABASE ' || quote_ident(current_database()) "
        "|| ' FROM PUBLIC'; END $$",
    ]
    for role, rights in RIGHTS.items():
        name = group(role)
        statements += [
            f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') THEN "
            f"CREATE ROLE {name} NOLOGIN; END IF; "
            "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
            f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {name}",
            f"GRANT USAGE ON SCHEMA public TO {name}",
            f"GRANT SELECT ON alembic_version TO {name}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}",
        ]
        for table, right in sorted(rights.items()):
            statements.append(f"GRANT SELECT ({_columns(right.read)}) ON {table} TO {name}")
            if right.insert:
                statements.append(f"GRANT INSERT ON {table} TO {name}")
            if right.update:
                statements.append(f"GRANT UPDATE ({_columns(right.update)}) ON {table} TO {name}")
            if right.delete:
                statements.append(f"GRANT DELETE ON {table} TO {name}")
    return statements


def _columns(names: frozenset[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))


_LOGIN: Final = text(
    """
    SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
           OR session_user <> current_user
           OR has_database_privilege(current_database(), 'CREATE')
           OR has_database_privilege(current_database(), 'TEMPORARY')
           OR has_schema_privilege('public', 'CREATE'),
           (SELECT array_agg(r.rolname::text ORDER BY 1) FROM pg_roles r
             WHERE r.rolname <> current_user AND pg_has_role(current_user, r.oid, 'MEMBER')),
           EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
                   AND (pg_has_role(current_user, c.relowner, 'MEMBER')
                        OR EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee IN (0, me.oid))))
           OR EXISTS (SELECT FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid, aclexplode(t.attacl) a
                      WHERE c.relnamespace = 'public'::regnamespace AND a.grantee IN (0, me.oid))
      FROM pg_roles me WHERE rolname = current_user
    """
)


def check_login(engine: Engine, role: Role) -> None:
    """Check that a PostgreSQL login is a member of its role's group and of no other, owns nothing and makes nothing.

    Rights of its own, or of everybody, on a table of ours are refused too: the group carries all of them.

    Raises:
        ConfigError: the login has other rights, or the server cannot be reached.
    """
    if role is Role.OWNER:
        return
    from sqlalchemy.exc import OperationalError

    try:
        with engine.connect() as connection:
            powerful, groups, more = connection.execute(_LOGIN).one()
    except OperationalError as error:
        raise ConfigError("the PostgreSQL server refused or did not answer", fix="check [database] url_file") from error
    wanted = group(role)
    if powerful or more or (groups or []) != [wanted]:
        raise ConfigError(
            f"the PostgreSQL login must be a member of {wanted} alone, without further rights",
            fix=f"GRANT {wanted} TO <login>, for a login that is neither owner nor superuser; and, if the owner's "
            "login does not own the database, REVOKE CREATE, TEMPORARY ON DATABASE … FROM PUBLIC",
        )
